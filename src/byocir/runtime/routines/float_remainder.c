#include <math.h>

#include "half.h"
#include "routine.h"

/* A remainder that has another sign than the divisor is one divisor off. */
#define REMAINDER(T, VALUE, FMOD, LOAD, STORE)                                            \
    for (int64_t i = 0; i < count; i++) {                                                 \
        const VALUE x = LOAD(((const T *)in[0].data)[i]), y = LOAD(((const T *)in[1].data)[i]); \
        const VALUE rest = FMOD(x, y);                                                    \
        const int off = !numbers[0] && rest != 0 && (rest < 0) != (y < 0);                \
        ((T *)out->data)[i] = STORE(off ? rest + y : rest);                               \
    }                                                                                     \
    return 0;

/* numbers: towards_zero. Of two arrays of floats, element by element. */
static int float_remainder(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    const int64_t count = routine_count(in->shape, 0, in->rank);
    switch (in->type) {
    case ROUTINE_FLOAT16: REMAINDER(uint16_t, float, fmodf, f16_to_float, float_to_f16)
    case ROUTINE_BFLOAT16: REMAINDER(uint16_t, float, fmodf, bf16_to_float, float_to_bf16)
    case ROUTINE_FLOAT32: REMAINDER(float, float, fmodf, , )
    default: REMAINDER(double, double, fmod, , )
    }
}
