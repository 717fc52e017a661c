#include "routine.h"

/* numbers: axis. The slices along the axis that indices name: one for each. */
static int take(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    const int axis = (int)numbers[0];
    const routine_in *const indices = in + 1;
    const int64_t outer = routine_count(in->shape, 0, axis), size = in->shape[axis];
    const int64_t inner = routine_count(in->shape, axis + 1, in->rank);
    const int64_t count = routine_count(indices->shape, 0, indices->rank);
    const size_t bytes = (size_t)inner * routine_size(in->type);
    const unsigned char *const from = in->data;
    unsigned char *to = out->data;
    int64_t *shape = out->shape;
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < count; i++) {
            const int64_t index = routine_index(indices, i, size);
            if (index < 0) return ROUTINE_OUTSIDE;
            memcpy(to, from + (size_t)(o * size + index) * bytes, bytes);
            to += bytes;
        }
    }
    for (int d = 0; d < axis; d++) *shape++ = in->shape[d];
    for (int d = 0; d < indices->rank; d++) *shape++ = indices->shape[d];
    for (int d = axis + 1; d < in->rank; d++) *shape++ = in->shape[d];
    return 0;
}
