#include "functions/audited.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/function.h"
#include "service/audit.h"
#include "service/services.h"

#define MASK       "***"
#define WORDS_MAX  64
#define WORD_MAX   1024
#define DETAIL_MAX 4096

/* ---- what looks like a secret ---- */

/* In the name of a variable, a flag or a field. */
static bool names_secret(const char *name, size_t len)
{
    static const char *const parts[] = {"pass", "secret", "token", "key",     "auth",   "cred",
                                        "pwd",  "cookie", "sign",  "session", "bearer", "basic"};
    auto_free char *lower = xstrndup(name, len);

    for (char *c = lower; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c | 0x20 : *c);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (strstr(lower, parts[i]))
            return true;
    return false;
}

/* By how they begin, since people put them into commands without a name. */
static bool is_known_secret(const char *word)
{
    static const char *const begins[] = {"cay_", "ghp_",   "gho_", "ghs_", "github_pat_",
                                         "sk-",  "glpat-", "xox",  "AKIA", "eyJ"};

    word += strspn(word, "\"'");
    for (size_t i = 0; i < ARRAY_LEN(begins); i++)
        if (str_starts(word, begins[i]))
            return true;
    return false;
}

/* https://user:password@host/path?query: neither who nor what is asked for. */
static void add_url(struct buf *b, const char *word)
{
    const char *host = strstr(word, "://") + 3;
    size_t n = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', n);

    (void)buf_add(b, word, (size_t)(host - word));
    if (at) {
        (void)buf_add_str(b, MASK "@");
        host = at + 1;
    }
    n = strcspn(host, "?#");
    (void)buf_add(b, host, n);
    if (host[n])
        (void)buf_add_str(b, "?" MASK);
}

/* Where in a word a secret begins, by a name in front of it: PASSWORD=x, {"password":"x"},
 * a=1;KEY=x; NULL = there is none. What belongs to a URL is none of this. */
static const char *named_secret(const char *word)
{
    const char *url = strstr(word, "://"), *name = word;

    for (;;) {
        size_t n = strcspn(name, "=:");

        if (!name[n] || name + n == url)
            return NULL;
        if (names_secret(name, n))
            return name + n + 1;
        name += n + 1;
    }
}

static bool is_scheme(const char *word)
{
    return strcasecmp(word, "bearer") == 0 || strcasecmp(word, "basic") == 0;
}

/* What is known of the words that follow. */
struct masking {
    bool next;  /* it is secret */
    char quote; /* they are until this one; 0 = they are not */
};

/* A quote that is open in what is secret is closed by a later word. */
static void find_quote(struct masking *m, const char *word)
{
    for (; *word; word++) {
        if (m->quote && *word == m->quote)
            m->quote = 0;
        else if (!m->quote && (*word == '"' || *word == '\''))
            m->quote = *word;
    }
}

static void add_word(struct buf *b, const char *word, struct masking *m)
{
    const char *named = named_secret(word);
    bool is_flag = word[0] == '-', after = m->next;

    m->next = is_scheme(word) || strcmp(word, "-u") == 0 || strcmp(word, "--user") == 0;
    if (named) {
        (void)buf_addf(b, "%.*s%s", (int)(named - word), word, *named ? MASK : "");
        m->next = !*named;
        find_quote(m, word);
    } else if (strstr(word, "://")) {
        add_url(b, word);
    } else if ((after && !is_flag && !is_scheme(word)) || is_known_secret(word)) {
        (void)buf_add_str(b, MASK);
        find_quote(m, word);
    } else {
        (void)buf_add_str(b, word);
        m->next |= is_flag && names_secret(word, strlen(word));
    }
}

/* One more of what is between quotes: seen only where the first of them was not. */
static void skip_word(struct buf *b, const char *word, struct masking *m)
{
    if (m->next)
        (void)buf_add_str(b, " " MASK);
    m->next = false;
    find_quote(m, word);
}

char *audited_text(const char *text)
{
    auto_buf struct buf b = {0};
    struct masking m = {0};

    buf_init(&b, DETAIL_MAX);
    while (*text && b.len < AUDITED_TEXT_MAX) {
        size_t gap = strspn(text, " \t\r\n"), n = strcspn(text + gap, " \t\r\n");
        auto_free char *word = xstrndup(text + gap, n < WORD_MAX ? n : WORD_MAX);

        if (m.quote) {
            skip_word(&b, word, &m);
        } else {
            (void)buf_add(&b, " ", gap > 0 && b.len > 0);
            add_word(&b, word, &m);
        }
        text += gap + n;
    }
    if (b.len > AUDITED_TEXT_MAX || *text) {
        size_t cut = utf8_cut(b.data, b.len < AUDITED_TEXT_MAX ? b.len : AUDITED_TEXT_MAX);

        return xasprintf("%.*s…", (int)cut, b.data);
    }
    return xstrdup(b.data ? b.data : "");
}

/* ---- what a call was asked ---- */

/* Only these are written down; of all others just that they were given. */
static bool is_told(const char *key)
{
    static const char *const told[] = {
        "action",      "alertId",   "algorithm", "all",        "allow",      "args",
        "argv",        "autoStart", "branch",    "channelId",  "cmd",        "command",
        "contextId",   "count",     "cpu",       "cwd",        "delay",      "depth",
        "destination", "detach",    "dst",       "disk",       "exec",       "execId",
        "exec_id",     "expiresAt", "expiresIn", "force",      "from",       "host",
        "image",       "imports",   "interval",  "jobId",      "kill",       "label",
        "lang",        "language",  "memory",    "method",     "metric",     "mode",
        "mountPath",   "name",      "network",   "networkId",  "networks",   "packages",
        "path",        "pattern",   "pid",       "pids",       "platform",   "port",
        "ports",       "priority",  "profileId", "protocol",   "pull",       "readOnly",
        "recursive",   "ref",       "reference", "remote",     "sandboxId",  "scopes",
        "sessionId",   "signal",    "size",      "sizeMb",     "snapshotId", "source",
        "src",         "strayId",   "template",  "templateId", "threshold",  "timeout",
        "to",          "tokenId",   "topic",     "topics",     "tty",        "unique",
        "url",         "user",      "volumeId",  "webhookId",  "workdir",
    };

    for (size_t i = 0; i < ARRAY_LEN(told); i++)
        if (strcmp(told[i], key) == 0)
            return true;
    return false;
}

static json_t *told_text(const char *text)
{
    auto_free char *clean = audited_text(text);

    return json_string(clean);
}

/* A command as arguments is told as one text, so that a flag and its value are seen together. */
static json_t *told_array(const json_t *array)
{
    auto_buf struct buf b = {0};
    json_t *one;
    size_t i;

    buf_init(&b, DETAIL_MAX);
    json_array_foreach(array, i, one)
    {
        const char *text = json_string_value(one);
        const char *quote = text && strpbrk(text, " \t\r\n") ? strchr(text, '\'') ? "\"" : "'" : "";

        if (i >= WORDS_MAX ||
            buf_addf(&b, "%s%s%s%s", i ? " " : "", quote, text ? text : MASK, quote) < 0)
            break;
    }
    return told_text(b.data ? b.data : "");
}

/* Where it is that of a request its query is none of ours either, as that of a URL. */
static json_t *told_target(const char *path)
{
    auto_free char *front = xstrndup(path, strcspn(path, "?#"));
    auto_free char *clean = audited_text(front);

    return json_sprintf("%s%s", clean, path[strlen(front)] ? "?" MASK : "");
}

static json_t *told_value(const struct function *f, const char *key, json_t *value)
{
    json_t *told = NULL;

    if (json_is_number(value) || json_is_boolean(value))
        return json_incref(value);
    if (!is_told(key))
        told = json_string(MASK);
    else if (json_is_string(value) && strcmp(key, "path") == 0 && str_starts(f->id, "proxy::"))
        told = told_target(json_string_value(value));
    else if (json_is_string(value))
        told = told_text(json_string_value(value));
    else if (json_is_array(value))
        told = told_array(value);
    return told ? told : json_string(MASK);
}

/* What an operator only looks at is left out, or who follows the log would fill it. */
static bool is_audited(const struct function *f)
{
    bool looks = f->scope == SCOPE_ADMIN && f->answer == ANSWER_JSON && f->method &&
                 strcmp(f->method, "GET") == 0;

    return f->scope > SCOPE_READ && !looks;
}

void audited_begin(struct call *call)
{
    json_t *detail, *value;
    const char *key;
    char *text;

    if (!call->services || !call->services->audit || !is_audited(call->function))
        return;
    detail = json_object();
    json_object_foreach(call->in, key, value)
    {
        if (strcmp(key, "sandboxId") != 0 && !str_starts(key, "."))
            (void)json_object_set_new(detail, key, told_value(call->function, key, value));
    }
    text = json_object_size(detail) ? json_dumps(detail, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(detail);
    if (text && strlen(text) > DETAIL_MAX) {
        free(text);
        text = NULL;
    }
    call->detail = text;
}

/* ---- how it ended ---- */

static bool is_refusal(const struct err *err)
{
    return err->kind == ERR_UNAUTHORIZED || err->kind == ERR_FORBIDDEN || err->kind == ERR_LIMIT;
}

static const char *code_of(const struct err *err)
{
    return err->code ? err->code : err_kind_code(err->kind);
}

/* What was made has an id only now. */
static const char *sandbox_of(const struct call *call)
{
    const char *id = json_string_value(json_object_get(call->out, "id"));

    if (call->sandbox_id[0])
        return call->sandbox_id;
    return id && str_starts(id, "sbx_") ? id : "";
}

void audited_end(struct call *call, int r, const struct err *err)
{
    bool refused = r < 0 && err && is_refusal(err);
    struct audit_entry entry;

    if (!call->services || !call->services->audit || (!is_audited(call->function) && !refused))
        return;
    entry = (struct audit_entry){
        .who = call->caller->name,
        .face = call->caller->face,
        .from = call->caller->from,
        .function = call->function->id,
        .sandbox_id = sandbox_of(call),
        .result = r >= 0    ? "ok"
                  : refused ? "refused"
                            : "failed",
        .code = r < 0 && err ? code_of(err) : NULL,
        .detail = call->detail,
        .ms = (double)(mono_ns() - call->began_ns) / 1e6,
        .is_common = refused && err->kind == ERR_LIMIT, /* who is too quick is so again at once */
    };
    audit_write(call->services->audit, &entry);
}

void audited_refusal(struct services *services, const struct caller *caller, const char *function,
                     const struct err *err)
{
    struct audit_entry entry = {
        .who = caller->name[0] ? caller->name : "anyone",
        .face = caller->face,
        .from = caller->from,
        .function = function,
        .result = "refused",
        .code = code_of(err),
        .is_common = true,
    };

    if (services && services->audit)
        audit_write(services->audit, &entry);
}
