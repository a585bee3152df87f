#include "engine/pull_policy.h"

#include <string.h>

const char *const pull_policy_words[PULL_POLICIES + 1] = {
    [PULL_MISSING] = "missing", [PULL_ALWAYS] = "always", [PULL_NEVER] = "never"};

int pull_policy_parse(const char *text, enum pull_policy *ret)
{
    for (int i = 0; i < PULL_POLICIES; i++) {
        if (strcmp(pull_policy_words[i], text) == 0) {
            *ret = (enum pull_policy)i;
            return 0;
        }
    }
    return -1;
}
