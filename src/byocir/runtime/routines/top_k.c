#include "routine.h"

/* A number that orders elements as their type does: zeros are equal, NaN is above all. */
static uint64_t top_k_key(const void *data, int64_t index, routine_type type)
{
    const uint64_t sign = UINT64_C(1) << 63;
    const int width = (int)routine_size(type) * 8;
    uint64_t bits = routine_bits(data, index, type), magnitude, infinity;
    switch (type) {
    case ROUTINE_INT8:
    case ROUTINE_INT16:
    case ROUTINE_INT32:
    case ROUTINE_INT64:
        return bits << (64 - width) ^ sign;
    case ROUTINE_FLOAT16: infinity = 0x7c00; break;
    case ROUTINE_BFLOAT16: infinity = 0x7f80; break;
    case ROUTINE_FLOAT32: infinity = 0x7f800000; break;
    case ROUTINE_FLOAT64: infinity = UINT64_C(0x7ff0000000000000); break;
    default: return bits;
    }
    magnitude = bits & ~(UINT64_C(1) << (width - 1));
    if (magnitude > infinity) return UINT64_MAX;
    return bits == magnitude ? sign + magnitude : sign - magnitude;
}

/* A row of elements, and the indices of those that were chosen, as a heap: whatever comes last in
   the result is on top. */
typedef struct top_k_row {
    const void *data;
    routine_type type;
    int64_t start, step, largest;
    int64_t *chosen;
} top_k_row;

static int64_t top_k_at(const top_k_row *row, int64_t place)
{
    return row->chosen[place * row->step];
}

/* Whether element `i` comes before element `j`; of equal ones the first. */
static int top_k_before(const top_k_row *row, int64_t i, int64_t j)
{
    const uint64_t x = top_k_key(row->data, row->start + i * row->step, row->type);
    const uint64_t y = top_k_key(row->data, row->start + j * row->step, row->type);
    if (x == y) return i < j;
    return row->largest ? x > y : x < y;
}

/* Puts an element into the heap of `count` from its top, which is free. */
static void top_k_sink(const top_k_row *row, int64_t count, int64_t element)
{
    int64_t place = 0;
    for (int64_t child = 1; child < count; child = 2 * place + 1) {
        if (child + 1 < count && top_k_before(row, top_k_at(row, child), top_k_at(row, child + 1)))
            child++;
        if (!top_k_before(row, element, top_k_at(row, child))) break;
        row->chosen[place * row->step] = top_k_at(row, child);
        place = child;
    }
    row->chosen[place * row->step] = element;
}

static void top_k_rise(const top_k_row *row, int64_t place, int64_t element)
{
    for (; place > 0; place = (place - 1) / 2) {
        const int64_t parent = top_k_at(row, (place - 1) / 2);
        if (!top_k_before(row, parent, element)) break;
        row->chosen[place * row->step] = parent;
    }
    row->chosen[place * row->step] = element;
}

static void top_k_choose(const top_k_row *row, int64_t size, int64_t k)
{
    for (int64_t i = 0; i < size; i++) {
        if (i < k)
            top_k_rise(row, i, i);
        else if (top_k_before(row, i, top_k_at(row, 0)))
            top_k_sink(row, k, i);
    }
    for (int64_t left = k - 1; left > 0; left--) {
        const int64_t last = top_k_at(row, 0), element = top_k_at(row, left);
        top_k_sink(row, left, element);
        row->chosen[left * row->step] = last;
    }
}

/* numbers: axis, k, largest. The first k elements along the axis in order, and their indices. */
static int top_k(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    const int axis = (int)numbers[0];
    const int64_t k = numbers[1], size = in->shape[axis], bytes = (int64_t)routine_size(in->type);
    const int64_t outer = routine_count(in->shape, 0, axis);
    const int64_t inner = routine_count(in->shape, axis + 1, in->rank);
    const unsigned char *const source = in->data;
    unsigned char *const values = out[0].data;
    int64_t *const indices = out[1].data;
    if (k == 0) return 0;
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < inner; i++) {
            const int64_t from = o * size * inner + i, to = o * k * inner + i;
            const top_k_row row = {source, in->type, from, inner, numbers[2], indices + to};
            top_k_choose(&row, size, k);
            for (int64_t j = 0; j < k; j++)
                memcpy(values + (to + j * inner) * bytes,
                       source + (from + top_k_at(&row, j) * inner) * bytes, (size_t)bytes);
        }
    }
    return 0;
}
