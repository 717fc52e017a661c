#include "routine.h"

/* Whether an element is a zero of either sign. */
static int non_zero_is_zero(const void *data, int64_t index, routine_type type)
{
    uint64_t bits = routine_bits(data, index, type);
    if (type >= ROUTINE_FLOAT16) bits &= ~(UINT64_C(1) << (8 * routine_size(type) - 1));
    return bits == 0;
}

/* numbers: none. The indices of what is not zero, in order: one row for each dimension. */
static int non_zero(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    const int64_t total = routine_count(in->shape, 0, in->rank);
    int64_t *const indices = out->data;
    int64_t count = 0, next = 0;
    (void)numbers;
    for (int64_t i = 0; i < total; i++) count += !non_zero_is_zero(in->data, i, in->type);
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i;
        if (non_zero_is_zero(in->data, i, in->type)) continue;
        for (int d = in->rank - 1; d >= 0; d--) {
            indices[d * count + next] = rest % in->shape[d];
            rest /= in->shape[d];
        }
        next++;
    }
    out->shape[0] = in->rank;
    out->shape[1] = count;
    return 0;
}
