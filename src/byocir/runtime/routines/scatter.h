/* What scatters do with the element that is there. */
#ifndef SCATTER_H
#define SCATTER_H

#include "half.h"
#include "routine.h"

enum { SCATTER_NONE, SCATTER_ADD, SCATTER_MUL, SCATTER_MIN, SCATTER_MAX };

/* Integers wrap around: they are added and multiplied as unsigned ones. */
#define SCATTER_INTEGER(T, WIDE)                                          \
    {                                                                     \
        T *const to = target;                                             \
        const T x = *to, y = *(const T *)update;                          \
        *to = how == SCATTER_ADD   ? (T)((WIDE)x + (WIDE)y)               \
              : how == SCATTER_MUL ? (T)((WIDE)x * (WIDE)y)               \
                                   : (how == SCATTER_MIN) == (y < x) ? y : x; \
        return;                                                           \
    }

#define SCATTER_FLOAT(T, VALUE, LOAD, STORE)                              \
    {                                                                     \
        T *const to = target;                                             \
        const VALUE x = LOAD(*to), y = LOAD(*(const T *)update);          \
        *to = STORE(how == SCATTER_ADD   ? x + y                          \
                    : how == SCATTER_MUL ? x * y                          \
                    : x != x             ? x                              \
                    : how == SCATTER_MIN ? (x < y ? x : y)                \
                                         : (x > y ? x : y));              \
        return;                                                           \
    }

/* Combines one element with its update. NaN stays NaN. */
ROUTINE_HELPER void scatter_one(void *target, const void *update, routine_type type, int64_t how)
{
    switch (type) {
    case ROUTINE_BOOL: return;
    case ROUTINE_INT8: SCATTER_INTEGER(int8_t, uint32_t)
    case ROUTINE_UINT8: SCATTER_INTEGER(uint8_t, uint32_t)
    case ROUTINE_INT16: SCATTER_INTEGER(int16_t, uint32_t)
    case ROUTINE_UINT16: SCATTER_INTEGER(uint16_t, uint32_t)
    case ROUTINE_INT32: SCATTER_INTEGER(int32_t, uint32_t)
    case ROUTINE_UINT32: SCATTER_INTEGER(uint32_t, uint32_t)
    case ROUTINE_INT64: SCATTER_INTEGER(int64_t, uint64_t)
    case ROUTINE_UINT64: SCATTER_INTEGER(uint64_t, uint64_t)
    case ROUTINE_FLOAT16: SCATTER_FLOAT(uint16_t, float, f16_to_float, float_to_f16)
    case ROUTINE_BFLOAT16: SCATTER_FLOAT(uint16_t, float, bf16_to_float, float_to_bf16)
    case ROUTINE_FLOAT32: SCATTER_FLOAT(float, float, , )
    case ROUTINE_FLOAT64: SCATTER_FLOAT(double, double, , )
    }
}

/* Writes `count` neighbours. */
ROUTINE_HELPER void scatter_many(void *target, const void *update, int64_t count, routine_type type,
                                int64_t how)
{
    const size_t size = routine_size(type);
    unsigned char *const to = target;
    const unsigned char *const from = update;
    if (how == SCATTER_NONE) {
        memcpy(to, from, (size_t)count * size);
        return;
    }
    for (size_t i = 0; i < (size_t)count; i++) scatter_one(to + i * size, from + i * size, type, how);
}

#endif
