/* Inner products of int8 rows, by what the compiler's target has.
 *
 * A vector holds VTA_LANES accumulators, one per output channel. A step adds VTA_GROUP products to
 * each: one group of inputs times the lanes' groups of weights. For this weights are packed by
 * (vector, group, lane, place in the group). Blocks that vectors do not divide, and targets
 * without vectors, take the rows as DRAM has them.
 *
 * VNNI multiplies unsigned by signed: its inputs are 128 larger, its bias takes that off again.
 * VTA_PLAIN and VTA_NO_INTRINSICS choose the last two ways, for tests.
 */
#ifndef VTA_DOT_H
#define VTA_DOT_H

#include <stdint.h>
#include <string.h>

#if defined(VTA_PLAIN)
#define VTA_LANES 0

#elif defined(__AVX512VNNI__) && defined(__AVX512F__) && !defined(VTA_NO_INTRINSICS)
#include <immintrin.h>
#define VTA_LANES 16
#define VTA_GROUP 4
#define VTA_OFFSET 128
typedef uint8_t vta_packed_inp;
typedef int8_t vta_packed_wgt;
typedef __m512i vta_vector;
static inline vta_vector vta_get(const int32_t *p) { return _mm512_loadu_si512((const void *)p); }
static inline void vta_put(int32_t *p, vta_vector x) { _mm512_storeu_si512((void *)p, x); }
static inline vta_vector vta_zero(void) { return _mm512_setzero_si512(); }
static inline vta_vector vta_add(vta_vector x, vta_vector y) { return _mm512_add_epi32(x, y); }
static inline vta_vector vta_dot(vta_vector sum, const vta_packed_wgt *w, const vta_packed_inp *x)
{
    int32_t group;
    memcpy(&group, x, sizeof group);
    return _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(group), _mm512_loadu_si512((const void *)w));
}

#elif defined(__AVX2__) && !defined(VTA_NO_INTRINSICS)
#include <immintrin.h>
#define VTA_LANES 8
#define VTA_GROUP 2
typedef int16_t vta_packed_inp;
typedef int16_t vta_packed_wgt;
typedef __m256i vta_vector;
static inline vta_vector vta_get(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void vta_put(int32_t *p, vta_vector x) { _mm256_storeu_si256((__m256i *)p, x); }
static inline vta_vector vta_zero(void) { return _mm256_setzero_si256(); }
static inline vta_vector vta_add(vta_vector x, vta_vector y) { return _mm256_add_epi32(x, y); }
static inline vta_vector vta_dot(vta_vector sum, const vta_packed_wgt *w, const vta_packed_inp *x)
{
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    const __m256i pairs = _mm256_loadu_si256((const __m256i *)w);
    return vta_add(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi32(pair)));
}

#elif defined(__SSE2__) && !defined(VTA_NO_INTRINSICS)
#include <emmintrin.h>
#define VTA_LANES 4
#define VTA_GROUP 2
typedef int16_t vta_packed_inp;
typedef int16_t vta_packed_wgt;
typedef __m128i vta_vector;
static inline vta_vector vta_get(const int32_t *p) { return _mm_loadu_si128((const __m128i *)p); }
static inline void vta_put(int32_t *p, vta_vector x) { _mm_storeu_si128((__m128i *)p, x); }
static inline vta_vector vta_zero(void) { return _mm_setzero_si128(); }
static inline vta_vector vta_add(vta_vector x, vta_vector y) { return _mm_add_epi32(x, y); }
static inline vta_vector vta_dot(vta_vector sum, const vta_packed_wgt *w, const vta_packed_inp *x)
{
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    const __m128i pairs = _mm_loadu_si128((const __m128i *)w);
    return vta_add(sum, _mm_madd_epi16(pairs, _mm_set1_epi32(pair)));
}

#elif defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)
/* Any other processor with vectors, through gcc's vector types. */
#define VTA_LANES 4
#define VTA_GROUP 1
typedef int16_t vta_packed_inp;
typedef int16_t vta_packed_wgt;
typedef int32_t vta_vector __attribute__((vector_size(16)));
typedef int16_t vta_halves __attribute__((vector_size(8)));
static inline vta_vector vta_get(const int32_t *p)
{
    vta_vector x;
    memcpy(&x, p, sizeof x);
    return x;
}
static inline void vta_put(int32_t *p, vta_vector x) { memcpy(p, &x, sizeof x); }
static inline vta_vector vta_zero(void) { return (vta_vector){0, 0, 0, 0}; }
static inline vta_vector vta_add(vta_vector x, vta_vector y)
{
    typedef uint32_t vta_unsigned __attribute__((vector_size(16)));
    return (vta_vector)((vta_unsigned)x + (vta_unsigned)y);
}
static inline vta_vector vta_dot(vta_vector sum, const vta_packed_wgt *w, const vta_packed_inp *x)
{
    vta_halves lanes;
    memcpy(&lanes, w, sizeof lanes);
    return vta_add(sum, __builtin_convertvector(lanes, vta_vector) * (int32_t)*x);
}

#else
#define VTA_LANES 0
#endif

#if VTA_LANES == 0
#define VTA_GROUP 1
typedef int8_t vta_packed_inp;
typedef int8_t vta_packed_wgt;
#endif

#ifndef VTA_OFFSET
#define VTA_OFFSET 0
#endif

#endif
