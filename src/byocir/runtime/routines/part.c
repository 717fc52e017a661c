#include "routine.h"

static inline int64_t part_number(const routine_in *numbers, int64_t place)
{
    return numbers->type == ROUTINE_INT32 ? ((const int32_t *)numbers->data)[place]
                                          : ((const int64_t *)numbers->data)[place];
}

/* Where a part of a dimension begins, and how many elements it has: both ends are counted from the
   end if they are negative, and then brought inside. */
static inline int64_t part_count(int64_t *start, int64_t end, int64_t step, int64_t size)
{
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    int64_t first = *start < 0 ? *start + size : *start;
    end = end < 0 ? end + size : end;
    first = first < 0 ? 0 : first > high ? high : first;
    end = end < low ? low : end > high ? high : end;
    *start = first;
    if (size == 0 || (step > 0 ? first >= end : first <= end)) return 0;
    if (step > 0) return (end - first - 1) / step + 1;
    return step == INT64_MIN ? 1 : (first - end - 1) / -step + 1;
}

/* numbers: none. From an array: starts, ends, axes and steps as those of ONNX's Slice. It
   has at most 15 dimensions. */
static int part(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    int64_t starts[15], steps[15];
    const size_t size = routine_size(in->type);
    const unsigned char *const from = in->data;
    unsigned char *to = out->data;
    (void)numbers;
    for (int d = 0; d < in->rank; d++) {
        out->shape[d] = in->shape[d];
        starts[d] = 0;
        steps[d] = 1;
    }
    for (int64_t i = 0; i < in[1].shape[0]; i++) {
        const int64_t axis = part_number(in + 3, i);
        steps[axis] = part_number(in + 4, i);
        starts[axis] = part_number(in + 1, i);
        if (steps[axis] == 0) return ROUTINE_UNFIT;
        out->shape[axis] = part_count(starts + axis, part_number(in + 2, i), steps[axis],
                                      in->shape[axis]);
    }
    const int64_t total = routine_count(out->shape, 0, in->rank);
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, place = 0;
        for (int d = in->rank - 1; d >= 0; d--) {
            const int64_t index = starts[d] + rest % out->shape[d] * steps[d];
            place += index * routine_count(in->shape, d + 1, in->rank);
            rest /= out->shape[d];
        }
        memcpy(to, from + (size_t)place * size, size);
        to += size;
    }
    return 0;
}
