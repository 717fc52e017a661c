#include "routine.h"

/* numbers: allowzero. The same elements in another shape, as ONNX's Reshape writes it: -1 is what is
   left, 0 the size of the input unless that is allowed. */
static int reshaped(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    const int64_t total = routine_count(in->shape, 0, in->rank), *const wanted = in[1].data;
    int64_t known = 1;
    int rest = -1;
    for (int d = 0; d < out->rank; d++) {
        const int copies = wanted[d] == 0 && !numbers[0];
        if (copies && d >= in->rank) return ROUTINE_UNFIT;
        const int64_t size = copies ? in->shape[d] : wanted[d];
        if (size < -1 || (size == -1 && rest >= 0)) return ROUTINE_UNFIT;
        if (size == -1) rest = d;
        if (size == 0) known = 0;
        if (size > 0 && total > 0) {
            if (known > total / size) return ROUTINE_UNFIT;
            known *= size;
        }
        out->shape[d] = size;
    }
    if (rest >= 0) {
        if (known == 0 || total % known != 0) return ROUTINE_UNFIT;
        out->shape[rest] = total / known;
        known = total;
    }
    if (total > 0 ? known != total : rest < 0 && known != 0) return ROUTINE_UNFIT;
    if (total > 0) memcpy(out->data, in->data, (size_t)total * routine_size(in->type));
    return 0;
}
