/* A Dockerfile that is taken has the steps it promises, and each of its words can be expanded or is
 * refused with a reason. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "service/build/build_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static const char *lookup(const char *name, void *arg)
{
    (void)arg;
    return name[0] == 'a' ? name : NULL;
}

static void check_step(const struct build_plan *plan, const struct build_step *s)
{
    require(s->text && s->words && s->line > 0);
    require(s->op == BUILD_CMD || s->op == BUILD_ENTRYPOINT || s->words[0]);
    for (char **w = s->words; *w; w++) {
        auto_free char *text = NULL, *word = NULL;
        struct err err = {0};

        require(words_expand(*w, plan->escape, lookup, NULL, &word, &err) == 0 || err.text[0]);
        require(words_expand_text(*w, plan->escape, lookup, NULL, &text, &err) == 0 || err.text[0]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_build_plan struct build_plan *plan = NULL;
    struct err err = {0};

    if (build_dockerfile("Dockerfile", (const char *)data, size, &plan, &err) < 0) {
        require(err.kind != ERR_NONE && err.kind != ERR_INTERNAL && err.text[0]);
        return 0;
    }
    require(plan->n > 0 && plan->n <= BUILD_STEPS_MAX);
    for (size_t i = 0; i < plan->n; i++)
        check_step(plan, &plan->steps[i]);
    return 0;
}
