#include "service/audit.h"

#include "base/clock.h"
#include "base/err.h"
#include "functions/functions_internal.h"
#include "service/services.h"

static struct audit *audit_of(const struct call *call, struct err *err)
{
    if (call->services && call->services->audit)
        return call->services->audit;
    (void)err_set(err, ERR_UNSUPPORTED, "this daemon keeps no audit log: see CAY_AUDIT");
    return NULL;
}

static int list(struct call *call, struct err *err)
{
    struct audit *audit = audit_of(call, err);
    struct audit_query q = {
        .since_ms = in_int(call, "since"),
        .after = (uint64_t)in_int(call, "after"),
        .sandbox_id = in_id(call),
        .who = in_str(call, "who"),
        .function = in_str(call, "function"),
        .limit = (uint32_t)in_int(call, "limit"),
    };

    return audit ? audit_read(audit, &q, &call->out, err) : -1;
}

static int verify(struct call *call, struct err *err)
{
    struct audit *audit = audit_of(call, err);
    const char *text = in_str(call, "head");
    struct audit_head head;

    if (!audit || (text && audit_head_parse(text, &head, err) < 0))
        return -1;
    return audit_verify(audit, text ? &head : NULL, &call->out, err);
}

static const struct field list_fields[] = {
    {"since", FIELD_INT, .optional = true, .max = 9007199254740991, .example = "1767225600000",
     .help = "Unix milliseconds: only what was later"},
    {"after", FIELD_INT, .optional = true, .max = 9007199254740991, .example = "42",
     .help = "only lines with a larger n"},
    {"sandboxId", FIELD_STRING, .optional = true, .min = 1, .max = 1024,
     .help = "only about this sandbox, which may be gone"},
    {"who", FIELD_STRING, .optional = true, .min = 1, .max = 64, .example = "\"root\"",
     .help = "only by this caller: root, admin, anyone, uid:N or the id of a token"},
    {"function", FIELD_STRING, .optional = true, .min = 1, .max = 128, .example = "\"cmd::run\"",
     .help = "only calls of this function"},
    {"limit", FIELD_INT, .clamp = true, .min = 1, .max = 1000, .preset = "100",
     .help = "the last so many"},
    {0},
};

static const struct field verify_fields[] = {
    {"head", FIELD_STRING, .optional = true, .min = 64, .max = 85,
     .pattern = "^([0-9]{1,20}:)?[0-9a-f]{64}$",
     .help =
         "number and hash (42:9f86…), or the hash alone, of a line, kept elsewhere: is it still "
         "there?"},
    {0},
};

const struct function audit_functions[] = {
    {"audit::list", "GET", "/audit", list_fields, list, NULL, SCOPE_ADMIN, .reach = REACH_NEVER,
     .help = "Lists who did what, the oldest of the last first", .gives = &audit_list_shape,
     .errors = ERRORS_GONE},
    {"audit::verify", "GET", "/audit/verify", verify_fields, verify, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER,
     .help = "Reads the whole audit log and says whether a line was changed, removed, put in or "
             "appended by another",
     .gives = &audit_report_shape},
    {0},
};
