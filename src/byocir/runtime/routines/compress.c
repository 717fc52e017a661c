#include "routine.h"

/* numbers: axis. The slices along the axis, or the elements where it is -1, for which a condition
   holds; it may be shorter than the axis. */
static int compress(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    const int axis = (int)numbers[0], flat = axis < 0;
    const int64_t outer = flat ? 1 : routine_count(in->shape, 0, axis);
    const int64_t size = flat ? routine_count(in->shape, 0, in->rank) : in->shape[axis];
    const int64_t inner = flat ? 1 : routine_count(in->shape, axis + 1, in->rank);
    const size_t bytes = (size_t)inner * routine_size(in->type);
    const unsigned char *const holds = in[1].data, *const from = in->data;
    unsigned char *to = out->data;
    const int64_t known = in[1].shape[0] < size ? in[1].shape[0] : size;
    int64_t count = 0;
    for (int64_t i = 0; i < known; i++) count += holds[i] != 0;
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < known; i++) {
            if (!holds[i]) continue;
            memcpy(to, from + (size_t)(o * size + i) * bytes, bytes);
            to += bytes;
        }
    }
    for (int d = 0; d < out->rank; d++) out->shape[d] = flat || d == axis ? count : in->shape[d];
    return 0;
}
