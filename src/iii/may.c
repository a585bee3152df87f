#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "functions/function.h"
#include "functions/rates.h"
#include "iii/iii_internal.h"

/* What one who asks may do, before anybody is asked. */

const struct function *iii_row_of(const char *namespace, const char *function_id)
{
    const struct function *f;

    if (namespace && strcmp(namespace, III_NAMESPACE) != 0)
        return NULL;
    f = iii_function(function_id);
    return f ? f : function_find(function_id);
}

int iii_may_bind(const struct iii_asker *asker, const char *namespace, const char *function_id,
                 struct err *err)
{
    const struct function *row = iii_row_of(namespace, function_id);

    if (asker->session || iii_engine_has(function_id))
        return 0; /* these have rules of their own */
    if (row)
        return function_check(row, &asker->caller, err);
    if (asker->caller.scopes & 1u << SCOPE_EXEC)
        return 0;
    return err_code(err, ERR_FORBIDDEN, "scope_missing",
                    "this token may not call functions of other clients, so it binds none");
}

int iii_take_rate(const struct iii_asker *asker, struct err *err)
{
    struct rate_state state;

    return asker->rates
               ? rates_take_caller(asker->rates, asker->caller.name, mono_ns(), &state, err)
               : 0;
}

int iii_take_rate_of_row(const struct iii_question *q, struct err *err)
{
    return iii_row_of(q->namespace, q->function_id) ? iii_take_rate(q->asker, err) : 0;
}
