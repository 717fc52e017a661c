/* Floats of 16 bits, which C does not know, are held as their bits and computed with as floats.
   Rounding is to the nearest, ties to even. */
#ifndef HALF_H
#define HALF_H

#include <stdint.h>
#include <string.h>

/* No source uses all of these functions. */
#if defined(__GNUC__)
#define HALF static inline __attribute__((unused))
#else
#define HALF static inline
#endif

HALF uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

HALF float bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

HALF float f16_to_float(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
    if (rest >= 0x7c00) return bits_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest >= 0x400) return bits_float(sign | ((rest << 13) + 0x38000000));
    /* Subnormal: the number of steps of 2^-24, which is exact. */
    const float magnitude = (float)rest * 0x1p-24f;
    return sign ? -magnitude : magnitude;
}

HALF uint16_t float_to_f16(float x)
{
    const uint32_t bits = float_bits(x), rest = bits & 0x7fffffff;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (rest > 0x7f800000) {
        const uint16_t nan = (uint16_t)(0x7c00 | (rest >> 13 & 0x3ff));
        return (uint16_t)(sign | nan | (nan == 0x7c00));
    }
    if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (rest >= 0x38800000)
        return (uint16_t)(sign | (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13);
    /* Adding 0.5 leaves steps of 2^-24, rounded, in the low bits. */
    return (uint16_t)(sign | (float_bits(bits_float(rest) + 0.5f) - 0x3f000000));
}

HALF uint16_t double_to_f16(double x)
{
    /* A float that keeps what is cut off in its last bit, which then rounds as the whole would. */
    const float near = (float)x;
    uint32_t bits = float_bits(near);
    if (x != x || (double)near == x || (bits & 0x7fffffff) == 0x7f800000) return float_to_f16(near);
    if ((near < 0 ? -(double)near : (double)near) > (x < 0 ? -x : x)) bits--;
    return float_to_f16(bits_float(bits | 1));
}

HALF float bf16_to_float(uint16_t bits)
{
    return bits_float((uint32_t)bits << 16);
}

HALF uint16_t float_to_bf16(float x)
{
    const uint32_t bits = float_bits(x);
    if (x != x) return (uint16_t)((bits >> 16 & 0x8000) | 0x7fc0);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

HALF uint16_t double_to_bf16(double x)
{
    return float_to_bf16((float)x);
}

/* The nearest of the numbers that 16 bits hold. */
HALF float round_f16(float x)
{
    return f16_to_float(float_to_f16(x));
}

HALF float round_bf16(float x)
{
    return bf16_to_float(float_to_bf16(x));
}

#endif
