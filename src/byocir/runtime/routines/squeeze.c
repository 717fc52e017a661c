#include "routine.h"

/* numbers: dropped. The same elements without the dimensions of size 1 whose bits are set. */
static int squeeze(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    int64_t *shape = out->shape;
    const size_t bytes = (size_t)routine_count(in->shape, 0, in->rank) * routine_size(in->type);
    for (int d = 0; d < in->rank; d++)
        if (!(numbers[0] >> d & 1)) *shape++ = in->shape[d];
    memcpy(out->data, in->data, bytes);
    return 0;
}
