#include "routine.h"

/* numbers: axis, count. Arrays one after the other along the axis. */
static int joined(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    const int axis = (int)numbers[0], count = (int)numbers[1];
    const int64_t outer = routine_count(in->shape, 0, axis);
    const size_t size = routine_size(in->type);
    unsigned char *to = out->data;
    int64_t total = 0;
    for (int i = 0; i < count; i++) {
        for (int d = 0; d < in->rank; d++) {
            if (d != axis && in[i].shape[d] != in->shape[d]) return ROUTINE_UNFIT;
        }
        total += in[i].shape[axis];
    }
    for (int64_t o = 0; o < outer; o++) {
        for (int i = 0; i < count; i++) {
            const size_t bytes = (size_t)routine_count(in[i].shape, axis, in->rank) * size;
            if (bytes > 0) memcpy(to, (const unsigned char *)in[i].data + (size_t)o * bytes, bytes);
            to += bytes;
        }
    }
    for (int d = 0; d < in->rank; d++) out->shape[d] = d == axis ? total : in->shape[d];
    return 0;
}
