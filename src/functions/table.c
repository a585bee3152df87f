#include "functions/function.h"

#include "base/mem.h"

int functions_each(int (*each)(const struct function *f, void *arg), void *arg)
{
    static const struct function *const all[] = {
        sandbox_functions, exec_functions,   file_functions,  env_functions,   process_functions,
        metrics_functions, stream_functions, image_functions, admin_functions,
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        for (const struct function *f = all[i]; f->id; f++) {
            int r = each(f, arg);

            if (r != 0)
                return r;
        }
    }
    return 0;
}
