#include "routine.h"

/* Copies the first elements of an array, `box` in each dimension, to the start of another. */
ROUTINE_HELPER void copy_box(const void *source, const int64_t *from, void *target,
                            const int64_t *to, const int64_t *box, int rank, size_t size)
{
    const int last = rank > 0 ? rank - 1 : 0;
    const int64_t rows = routine_count(box, 0, last);
    const size_t bytes = (rank > 0 ? (size_t)box[last] : 1) * size;
    for (int64_t row = 0; bytes > 0 && row < rows; row++) {
        int64_t rest = row, s = 0, t = 0;
        for (int d = last - 1; d >= 0; d--) {
            s += rest % box[d] * routine_count(from, d + 1, rank);
            t += rest % box[d] * routine_count(to, d + 1, rank);
            rest /= box[d];
        }
        memcpy((unsigned char *)target + (size_t)t * size,
               (const unsigned char *)source + (size_t)s * size, bytes);
    }
}
