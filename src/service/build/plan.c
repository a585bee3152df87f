#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "service/build/build.h"

struct build_plan *build_plan_new(const char *file)
{
    struct build_plan *p = xcalloc(1, sizeof(*p));

    p->file = file ? xstrdup(file) : NULL;
    p->escape = '\\';
    return p;
}

static void step_done(struct build_step *s)
{
    free(s->text);
    strv_free(s->words);
    free(s->stage);
    free(s->from);
    free(s->chown);
    free(s->chmod);
    free(s->platform);
}

void build_plan_free(struct build_plan *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n; i++)
        step_done(&p->steps[i]);
    free(p->steps);
    free(p->file);
    free(p);
}

int build_plan_add(struct build_plan *p, enum build_op op, const char *text, char *const *words,
                   struct build_step **ret, struct err *err)
{
    struct build_step *s;

    if (p->n >= BUILD_STEPS_MAX)
        return err_code(err, ERR_LIMIT, "too_many_steps", "a build has %d steps at most",
                        BUILD_STEPS_MAX);
    p->steps = xrealloc(p->steps, (p->n + 1) * sizeof(*p->steps));
    s = &p->steps[p->n++];
    *s = (struct build_step){.op = op, .text = xstrdup(text)};
    s->words = words ? strv_copy(words) : xcalloc(1, sizeof(*s->words));
    if (ret)
        *ret = s;
    return 0;
}
