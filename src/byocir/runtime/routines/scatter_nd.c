#include "scatter.h"

/* numbers: how. Each slice of the updates goes to the position in the last dimension of indices. */
static int scatter_nd(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    const routine_in *const indices = in + 1, *const updates = in + 2;
    const int last = indices->rank - 1, depth = (int)indices->shape[last];
    const int64_t count = routine_count(indices->shape, 0, last);
    const int64_t slice = routine_count(in->shape, depth, in->rank);
    const size_t size = routine_size(in->type);
    const unsigned char *const from = updates->data;
    unsigned char *const to = out->data;
    memcpy(to, in->data, (size_t)routine_count(in->shape, 0, in->rank) * size);
    for (int64_t place = 0; place < count; place++) {
        int64_t target = 0;
        for (int i = 0; i < depth; i++) {
            const int64_t index = routine_index(indices, place * depth + i, in->shape[i]);
            if (index < 0) return ROUTINE_OUTSIDE;
            target = target * in->shape[i] + index;
        }
        scatter_many(to + (size_t)(target * slice) * size, from + (size_t)(place * slice) * size,
                     slice, in->type, numbers[0]);
    }
    return 0;
}
