/* What the routines have in common. A routine takes arrays and integers, and fills arrays; it gives
   0, or what ends the run. Where a result's shape is open, its array has room for the largest, and
   the routine sets `shape`. */
#ifndef ROUTINE_H
#define ROUTINE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In the one source of a model some are not used. */
#if defined(__GNUC__)
#define ROUTINE_HELPER static inline __attribute__((unused))
#else
#define ROUTINE_HELPER static inline
#endif

#define ROUTINE_OUTSIDE (-1) /* an index leads outside of its array */
#define ROUTINE_UNFIT (-2)   /* sizes do not fit each other */

typedef enum routine_type {
    ROUTINE_BOOL,
    ROUTINE_INT8,
    ROUTINE_UINT8,
    ROUTINE_INT16,
    ROUTINE_UINT16,
    ROUTINE_INT32,
    ROUTINE_UINT32,
    ROUTINE_INT64,
    ROUTINE_UINT64,
    ROUTINE_FLOAT16,
    ROUTINE_BFLOAT16,
    ROUTINE_FLOAT32,
    ROUTINE_FLOAT64
} routine_type;

/* Row-major arrays. */
typedef struct routine_in {
    const void *data;
    routine_type type;
    int rank;
    const int64_t *shape;
} routine_in;

typedef struct routine_out {
    void *data;
    routine_type type;
    int rank;
    int64_t *shape;
} routine_out;

/* Bytes of an element. */
ROUTINE_HELPER size_t routine_size(routine_type type)
{
    static const unsigned char sizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    return sizes[type];
}

/* The bits of an element, above them zeros. */
ROUTINE_HELPER uint64_t routine_bits(const void *data, int64_t index, routine_type type)
{
    switch (routine_size(type)) {
    case 1: return ((const uint8_t *)data)[index];
    case 2: return ((const uint16_t *)data)[index];
    case 4: return ((const uint32_t *)data)[index];
    default: return ((const uint64_t *)data)[index];
    }
}

/* The product of the sizes of the dimensions from `first` to before `last`. */
ROUTINE_HELPER int64_t routine_count(const int64_t *shape, int first, int last)
{
    int64_t count = 1;
    for (int i = first; i < last; i++) count *= shape[i];
    return count;
}

/* The index at a place, counted from the front; negative if it leads outside. */
ROUTINE_HELPER int64_t routine_index(const routine_in *indices, int64_t place, int64_t size)
{
    int64_t index = indices->type == ROUTINE_INT32 ? ((const int32_t *)indices->data)[place]
                                                   : ((const int64_t *)indices->data)[place];
    index += index < 0 ? size : 0;
    return index < size ? index : -1;
}

#endif
