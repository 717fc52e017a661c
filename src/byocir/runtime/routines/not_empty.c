#include "routine.h"

/* numbers: none. A size of a dimension in which there are elements to choose from. */
static int not_empty(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    const int64_t size = *(const int64_t *)in->data;
    (void)numbers;
    *(int64_t *)out->data = size;
    return size == 0 ? ROUTINE_UNFIT : 0;
}
