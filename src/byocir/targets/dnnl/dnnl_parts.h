/* What a net is made of: values, steps, and descriptions of arrays. */
#ifndef DNNL_PARTS_H
#define DNNL_PARTS_H

#include "dnnl_net.h"

#include <stddef.h>

#define MOST_ARGS 40
#define MOST_THEN 16

/* Where a value's elements are: places 0 and up of callers, or memory of the net. */
typedef enum { INPUT, OUTPUT, CONSTANT, TEMPORARY } kind;

typedef struct {
    dnnl_memory_desc_t desc;
    dnnl_memory_t memory;
    int root; /* the value whose place this has, maybe itself */
    kind kind;
    int port;
    int first, last; /* the steps that use it */
    size_t offset;
    void *own; /* memory that ends with the net */
} value;

typedef struct {
    dnnl_primitive_t primitive;
    int count;
    dnnl_exec_arg_t args[MOST_ARGS];
    int values[MOST_ARGS]; /* DNNL_NET_NONE for the scratchpad */
} step;

typedef struct {
    dnnl_primitive_kind_t kind;
    dnnl_alg_kind_t alg;
    float alpha, beta;
    int value;
} then;

struct dnnl_net {
    int code, threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    value *values;
    step *steps;
    int value_count, step_count, inputs, outputs;
    then next[MOST_THEN];
    int next_count, is_read_later, zero_point;
    size_t scratch_bytes;
    void *arena, *scratch;
};

static inline void fail(dnnl_net *n, int code)
{
    if (n->code == 0) n->code = code;
}

#define TRY(call)                                 \
    do {                                          \
        if (n->code == 0) n->code = (int)(call);  \
    } while (0)

/* -- descriptions of arrays */

static inline int rank_of(const_dnnl_memory_desc_t desc)
{
    int rank = 0;
    dnnl_memory_desc_query(desc, dnnl_query_ndims_s32, &rank);
    return rank;
}

static inline const dnnl_dim_t *dims_of(const_dnnl_memory_desc_t desc)
{
    dnnl_dims_t *dims = NULL;
    dnnl_memory_desc_query(desc, dnnl_query_dims, &dims);
    return *dims;
}

static inline dnnl_data_type_t type_of(const_dnnl_memory_desc_t desc)
{
    dnnl_data_type_t type = dnnl_data_type_undef;
    dnnl_memory_desc_query(desc, dnnl_query_data_type, &type);
    return type;
}

static inline dnnl_memory_desc_t row_major(dnnl_net *n, dnnl_data_type_t type, int rank,
                                           const dnnl_dim_t *dims)
{
    dnnl_memory_desc_t desc = NULL;
    dnnl_dims_t strides, sizes;
    dnnl_dim_t stride = 1;
    for (int i = rank; i-- > 0;) {
        sizes[i] = dims[i];
        strides[i] = stride;
        stride *= dims[i];
    }
    TRY(dnnl_memory_desc_create_with_strides(&desc, rank, sizes, type, strides));
    return desc;
}

/* -- what the processor has */

#if defined(__x86_64__) || defined(_M_X64)
static inline int has(int isa, int more_than)
{
    return (dnnl_get_effective_cpu_isa() & isa & ~more_than) != 0;
}
#else
#define has(isa, more_than) 1
#endif

/* -- values and steps, in dnnl_net.c */

/* Adds a value, which then owns its description, at the place of `root` if that is one. */
int dnnl_net_add_value(dnnl_net *n, dnnl_memory_desc_t desc, kind kind, int root);
int dnnl_net_add_like(dnnl_net *n, const_dnnl_memory_desc_t desc, kind kind, int root);

/* Makes a value a constant, with memory of its own. */
void dnnl_net_own(dnnl_net *n, int x);

/* A value as it is, or its elements in the order that is wanted: constants are reordered now. */
int dnnl_net_fitted(dnnl_net *n, int x, const_dnnl_memory_desc_t wanted);

/* A value in row-major order, and of this type. */
int dnnl_net_plain(dnnl_net *n, int x);
int dnnl_net_plain_of(dnnl_net *n, int x, dnnl_data_type_t type);

/* Adds a step, with the values that it uses, or, for constants, takes it at once. */
void dnnl_net_use(const dnnl_net *n, step *s, int arg, int x);
void dnnl_net_add_step(dnnl_net *n, dnnl_primitive_desc_t made, step s, int is_now);
void dnnl_net_copy(dnnl_net *n, int from, int to, int is_now);
dnnl_primitive_attr_t dnnl_net_plain_attr(dnnl_net *n);

#endif
