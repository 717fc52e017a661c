#include "scatter.h"

/* numbers: axis, how. Each update goes to its own position, but along the axis to its index. */
static int scatter_elements(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    const routine_in *const indices = in + 1, *const updates = in + 2;
    const int rank = in->rank, axis = (int)numbers[0];
    const int64_t count = routine_count(indices->shape, 0, rank);
    const size_t size = routine_size(in->type);
    const unsigned char *const from = updates->data;
    unsigned char *const to = out->data;
    memcpy(to, in->data, (size_t)routine_count(in->shape, 0, rank) * size);
    for (int64_t place = 0; place < count; place++) {
        const int64_t index = routine_index(indices, place, in->shape[axis]);
        int64_t rest = place, step = 1, target = 0;
        if (index < 0) return ROUTINE_OUTSIDE;
        for (int i = rank - 1; i >= 0; i--) {
            target += (i == axis ? index : rest % indices->shape[i]) * step;
            rest /= indices->shape[i];
            step *= in->shape[i];
        }
        scatter_many(to + (size_t)target * size, from + (size_t)place * size, 1, in->type,
                     numbers[1]);
    }
    return 0;
}
