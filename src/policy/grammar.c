#include "policy/policy_internal.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* `action[:direction]@target[:protocol[:ports]]`. Colons of an IPv6 address stand in brackets:
 * [fd00::1], [fd00::]/8. domain= and suffix= say what a target is where it could be a group. */

static json_t *malformed(const char *text, const char *place, struct err *err)
{
    err_code(err, ERR_INVALID, "bad_policy",
             "%s: \"%.80s\" is no rule; write action[:direction]@target[:protocol[:ports]], as "
             "allow@pypi.org:tcp:443 or deny@[fd00::]/8",
             place, text);
    return NULL;
}

/* Cuts the target off s, with its brackets taken away; *rest is what is behind its colon, or NULL.
 * NULL when a bracket has no end. */
static char *cut_target(char *s, char **rest)
{
    char *end = s, *close;

    if (s[0] == '[') {
        close = strchr(s, ']');
        if (!close)
            return NULL;
        memmove(s, s + 1, (size_t)(close - s) - 1);
        end = close - 1;
        memmove(end, close + 1, strlen(close + 1) + 1);
    }
    *rest = strchr(end, ':');
    if (*rest)
        *(*rest)++ = '\0';
    return s;
}

static void set_target(json_t *o, const char *target)
{
    if (strncmp(target, "domain=", 7) == 0)
        json_object_set_new(o, "destination", json_string(target + 7));
    else if (strncmp(target, "suffix=", 7) == 0)
        json_object_set_new(o, "destination",
                            json_sprintf("*.%s", target[7] == '.' ? target + 8 : target + 7));
    else
        json_object_set_new(o, "destination", json_string(target));
}

json_t *rule_of_text(const char *text, const char *place, struct err *err)
{
    char *copy = xstrdup(text), *at = strchr(copy, '@'), *direction, *target, *rest = NULL, *ports;
    json_t *o = NULL;

    if (!at || strlen(text) > 2 * POLICY_NAME_MAX)
        goto done;
    *at = '\0';
    target = cut_target(at + 1, &rest);
    if (!target || !*target)
        goto done;
    direction = strchr(copy, ':');
    if (direction)
        *direction++ = '\0';
    o = json_object();
    json_object_set_new(o, "action", json_string(copy));
    if (direction)
        json_object_set_new(o, "direction", json_string(direction));
    set_target(o, target);
    if (!rest)
        goto done;
    ports = strchr(rest, ':');
    if (ports)
        *ports++ = '\0';
    if (strcmp(rest, "any") != 0 && *rest)
        json_object_set_new(o, "protocol", json_string(rest));
    if (ports)
        json_object_set_new(o, "port", json_string(ports));
done:
    free(copy);
    return o ? o : malformed(text, place, err);
}
