#include "routine.h"

/* numbers: order. The same elements with dimensions in another order, of which each takes 4 bits of
   the number, the first the lowest. */
static int permute(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    const int64_t total = routine_count(in->shape, 0, in->rank);
    const size_t bytes = routine_size(in->type);
    const unsigned char *const from = in->data;
    unsigned char *const to = out->data;
    for (int d = 0; d < in->rank; d++) out->shape[d] = in->shape[numbers[0] >> 4 * d & 15];
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, source = 0;
        for (int d = in->rank - 1; d >= 0; d--) {
            const int axis = (int)(numbers[0] >> 4 * d & 15);
            source += rest % out->shape[d] * routine_count(in->shape, axis + 1, in->rank);
            rest /= out->shape[d];
        }
        memcpy(to + (size_t)i * bytes, from + (size_t)source * bytes, bytes);
    }
    return 0;
}
