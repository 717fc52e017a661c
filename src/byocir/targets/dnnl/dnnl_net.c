#include "dnnl_net.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 64
#define MOST_ARGS 40
#define MOST_THEN 16

int omp_get_max_threads(void);
void omp_set_num_threads(int count);

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

static void fail(dnnl_net *n, int code)
{
    if (n->code == 0) n->code = code;
}

#define TRY(call)                                 \
    do {                                          \
        if (n->code == 0) n->code = (int)(call);  \
    } while (0)

/* -- memory */

/* Room for one more in an array that grows by doubling. */
static void *grown(dnnl_net *n, void *array, int count, size_t each)
{
    if (count & (count - 1)) return array;
    void *more = realloc(array, (size_t)(count ? 2 * count : 1) * each);
    if (more == NULL) fail(n, dnnl_out_of_memory);
    return more == NULL ? array : more;
}

static void *aligned(void *memory)
{
    return (void *)(((uintptr_t)memory + ALIGN - 1) / ALIGN * ALIGN);
}

static int rank_of(const_dnnl_memory_desc_t desc)
{
    int rank = 0;
    dnnl_memory_desc_query(desc, dnnl_query_ndims_s32, &rank);
    return rank;
}

static const dnnl_dim_t *dims_of(const_dnnl_memory_desc_t desc)
{
    dnnl_dims_t *dims = NULL;
    dnnl_memory_desc_query(desc, dnnl_query_dims, &dims);
    return *dims;
}

static dnnl_data_type_t type_of(const_dnnl_memory_desc_t desc)
{
    dnnl_data_type_t type = dnnl_data_type_undef;
    dnnl_memory_desc_query(desc, dnnl_query_data_type, &type);
    return type;
}

/* Whether elements lie in blocks, which no strides tell. */
static int is_blocked(const_dnnl_memory_desc_t desc)
{
    int count = 0;
    dnnl_memory_desc_query(desc, dnnl_query_inner_nblks_s32, &count);
    return count != 0;
}

static dnnl_memory_desc_t row_major(dnnl_net *n, dnnl_data_type_t type, int rank,
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

static dnnl_memory_desc_t any(dnnl_net *n, dnnl_data_type_t type, int rank,
                              const dnnl_dim_t *dims)
{
    dnnl_memory_desc_t desc = NULL;
    dnnl_dims_t sizes;
    memcpy(sizes, dims, (size_t)rank * sizeof *dims);
    TRY(dnnl_memory_desc_create_with_tag(&desc, rank, sizes, type, dnnl_format_tag_any));
    return desc;
}

/* The order of the elements of a description, which no blocks make, for those of another type. */
static dnnl_memory_desc_t of_type(dnnl_net *n, const_dnnl_memory_desc_t desc, dnnl_data_type_t type)
{
    dnnl_memory_desc_t made = NULL;
    dnnl_dims_t *strides = NULL;
    if (type_of(desc) == type)
        TRY(dnnl_memory_desc_clone(&made, desc));
    else {
        TRY(dnnl_memory_desc_query(desc, dnnl_query_strides, &strides));
        TRY(dnnl_memory_desc_create_with_strides(&made, rank_of(desc), dims_of(desc), type,
                                                 *strides));
    }
    return made;
}

/* The channels of each pixel side by side. */
static dnnl_memory_desc_t channels_last(dnnl_net *n, dnnl_data_type_t type, int rank,
                                        const dnnl_dim_t *dims)
{
    dnnl_memory_desc_t desc = NULL;
    dnnl_dims_t strides;
    dnnl_dim_t stride = dims[1];
    for (int i = rank; i-- > 2;) {
        strides[i] = stride;
        stride *= dims[i];
    }
    strides[1] = 1;
    strides[0] = stride;
    TRY(dnnl_memory_desc_create_with_strides(&desc, rank, dims, type, strides));
    return desc;
}

/* -- what the processor has */

#if defined(__x86_64__) || defined(_M_X64)
static int has(int isa, int more_than)
{
    return (dnnl_get_effective_cpu_isa() & isa & ~more_than) != 0;
}
#else
#define has(isa, more_than) 1
#endif

static void check_bf16(dnnl_net *n, const_dnnl_memory_desc_t desc)
{
    if (n->code == 0 && type_of(desc) == dnnl_bf16 &&
        !has(dnnl_cpu_isa_avx512_core, dnnl_cpu_isa_avx2) &&
        !has(dnnl_cpu_isa_avx2_vnni_2, dnnl_cpu_isa_avx2_vnni))
        fail(n, DNNL_NET_NO_BF16);
}

/* Without VNNI oneDNN adds products of bytes in pairs that saturate. */
static void check_bytes(dnnl_net *n, const_dnnl_memory_desc_t desc)
{
    const dnnl_data_type_t type = type_of(desc);
    if ((type == dnnl_s8 || type == dnnl_u8) &&
        !has(dnnl_cpu_isa_avx2_vnni, dnnl_cpu_isa_avx2) &&
        !has(dnnl_cpu_isa_avx512_core_vnni, dnnl_cpu_isa_avx512_core))
        fail(n, DNNL_NET_NO_VNNI);
}

/* -- values: each owns its description */

static int add_value(dnnl_net *n, dnnl_memory_desc_t desc, kind kind, int root)
{
    n->values = grown(n, n->values, n->value_count, sizeof *n->values);
    check_bf16(n, desc);
    if (n->code) {
        if (desc) dnnl_memory_desc_destroy(desc);
        return 0;
    }
    value *v = &n->values[n->value_count];
    *v = (value){.desc = desc, .kind = kind, .first = -1, .last = -1};
    v->root = root == DNNL_NET_NONE ? n->value_count : n->values[root].root;
    TRY(dnnl_memory_create(&v->memory, desc, n->engine, DNNL_MEMORY_NONE));
    return n->value_count++;
}

static int add_copy_of_desc(dnnl_net *n, const_dnnl_memory_desc_t desc, kind kind, int root)
{
    dnnl_memory_desc_t own = NULL;
    TRY(dnnl_memory_desc_clone(&own, desc));
    return add_value(n, own, kind, root);
}

static void *handle_of(const dnnl_net *n, int x)
{
    void *handle = NULL;
    dnnl_memory_get_data_handle(n->values[x].memory, &handle);
    return handle;
}

/* -- steps */

static void set_arg(step *s, int arg, int x, dnnl_memory_t memory)
{
    s->args[s->count] = (dnnl_exec_arg_t){arg, memory};
    s->values[s->count++] = x;
}

static void use(const dnnl_net *n, step *s, int arg, int x)
{
    if (n->code == 0 && x != DNNL_NET_NONE) set_arg(s, arg, x, n->values[x].memory);
}

/* Adds a step, or, for constants, takes it at once. */
static void add_step(dnnl_net *n, dnnl_primitive_desc_t made, step s, int is_now)
{
    const_dnnl_memory_desc_t wanted;
    size_t bytes = 0;
    dnnl_memory_t scratchpad = NULL;
    if (n->code == 0) {
        wanted = dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0);
        bytes = wanted == NULL ? 0 : dnnl_memory_desc_get_size(wanted);
        TRY(dnnl_primitive_create(&s.primitive, made));
    }
    if (n->code == 0 && bytes != 0) {
        if (bytes > n->scratch_bytes) n->scratch_bytes = bytes;
        TRY(dnnl_memory_create(&scratchpad, wanted, n->engine,
                               is_now ? DNNL_MEMORY_ALLOCATE : DNNL_MEMORY_NONE));
        if (n->code == 0) set_arg(&s, DNNL_ARG_SCRATCHPAD, DNNL_NET_NONE, scratchpad);
    }
    if (made) dnnl_primitive_desc_destroy(made);
    if (n->code == 0 && is_now) {
        TRY(dnnl_primitive_execute(s.primitive, n->stream, s.count, s.args));
        TRY(dnnl_stream_wait(n->stream));
    }
    if (!is_now) n->steps = grown(n, n->steps, n->step_count, sizeof s);
    if (n->code || is_now) {
        if (scratchpad) dnnl_memory_destroy(scratchpad);
        if (s.primitive) dnnl_primitive_destroy(s.primitive);
        return;
    }
    n->steps[n->step_count++] = s;
}

static dnnl_primitive_attr_t plain_attr(dnnl_net *n)
{
    dnnl_primitive_attr_t attr = NULL;
    TRY(dnnl_primitive_attr_create(&attr));
    TRY(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    return attr;
}

static void copy(dnnl_net *n, int from, int to, int is_now)
{
    dnnl_primitive_desc_t made = NULL;
    dnnl_primitive_attr_t attr = plain_attr(n);
    step s = {0};
    if (n->code == 0) {
        TRY(dnnl_reorder_primitive_desc_create(&made, n->values[from].desc, n->engine,
                                               n->values[to].desc, n->engine, attr));
    }
    use(n, &s, DNNL_ARG_FROM, from);
    use(n, &s, DNNL_ARG_TO, to);
    add_step(n, made, s, is_now);
    if (attr) dnnl_primitive_attr_destroy(attr);
}

/* Makes a value a constant, with memory of its own. */
static void own(dnnl_net *n, int x)
{
    value *v = &n->values[x];
    v->kind = CONSTANT;
    v->own = malloc(dnnl_memory_desc_get_size(v->desc) + ALIGN);
    if (v->own == NULL) fail(n, dnnl_out_of_memory);
    TRY(dnnl_memory_set_data_handle(v->memory, aligned(v->own)));
}

/* A value as it is, or its elements in the order that is wanted: constants are reordered now. */
static int fitted(dnnl_net *n, int x, const_dnnl_memory_desc_t wanted)
{
    if (n->code || dnnl_memory_desc_equal(n->values[x].desc, wanted)) return x;
    const kind kind = n->values[n->values[x].root].kind;
    const int y = add_copy_of_desc(n, wanted, kind == CONSTANT ? CONSTANT : TEMPORARY,
                                   DNNL_NET_NONE);
    if (n->code == 0 && kind == CONSTANT) own(n, y);
    copy(n, x, y, kind == CONSTANT);
    return y;
}

/* A value in row-major order, and of this type. */
static int plain_of(dnnl_net *n, int x, dnnl_data_type_t type)
{
    const_dnnl_memory_desc_t desc = n->values[x].desc;
    dnnl_memory_desc_t wanted = row_major(n, type, rank_of(desc), dims_of(desc));
    const int y = n->code ? x : fitted(n, x, wanted);
    if (wanted) dnnl_memory_desc_destroy(wanted);
    return y;
}

static int plain(dnnl_net *n, int x)
{
    return n->code ? x : plain_of(n, x, type_of(n->values[x].desc));
}

/* -- arrays */

int dnnl_net_input(dnnl_net *n, dnnl_data_type_t type, int rank, const dnnl_dims_t dims)
{
    const int x = add_value(n, row_major(n, type, rank, dims), INPUT, DNNL_NET_NONE);
    if (n->code == 0) n->values[x].port = n->inputs++;
    return x;
}

int dnnl_net_constant(dnnl_net *n, dnnl_data_type_t type, int rank, const dnnl_dims_t dims,
                      const void *data)
{
    const int x = add_value(n, row_major(n, type, rank, dims), CONSTANT, DNNL_NET_NONE);
    if (n->code == 0) TRY(dnnl_memory_set_data_handle(n->values[x].memory, (void *)data));
    return x;
}

void dnnl_net_output(dnnl_net *n, int x)
{
    x = plain(n, x);
    if (n->code) return;
    value *v = &n->values[n->values[x].root];
    if (v->kind != TEMPORARY) {
        const int y = add_copy_of_desc(n, n->values[x].desc, TEMPORARY, DNNL_NET_NONE);
        copy(n, x, y, 0);
        if (n->code) return;
        v = &n->values[y];
    }
    v->kind = OUTPUT;
    v->port = n->outputs++;
}

int dnnl_net_reshape(dnnl_net *n, int x, int rank, const dnnl_dims_t dims)
{
    x = plain(n, x);
    if (n->code) return x;
    const value *v = &n->values[x];
    const int y = add_value(n, row_major(n, type_of(v->desc), rank, dims), v->kind, x);
    if (n->code == 0) TRY(dnnl_memory_set_data_handle(n->values[y].memory, handle_of(n, x)));
    return y;
}

int dnnl_net_transpose(dnnl_net *n, int x, const int *permutation)
{
    dnnl_memory_desc_t desc = NULL;
    if (n->code) return x;
    if (is_blocked(n->values[x].desc)) x = plain(n, x);
    if (n->code) return x;
    TRY(dnnl_memory_desc_permute_axes(&desc, n->values[x].desc, permutation));
    const int y = add_value(n, desc, n->values[x].kind, x);
    if (n->code == 0) TRY(dnnl_memory_set_data_handle(n->values[y].memory, handle_of(n, x)));
    return y;
}

/* -- what follows a primitive */

static void add_next(dnnl_net *n, then next)
{
    if (n->next_count == MOST_THEN) fail(n, dnnl_invalid_arguments);
    if (n->code == 0) n->next[n->next_count++] = next;
}

void dnnl_net_then(dnnl_net *n, dnnl_alg_kind_t alg, float alpha, float beta)
{
    add_next(n, (then){dnnl_eltwise, alg, alpha, beta, DNNL_NET_NONE});
}

void dnnl_net_then_with(dnnl_net *n, dnnl_alg_kind_t alg, int value)
{
    add_next(n, (then){dnnl_binary, alg, 0, 0, plain(n, value)});
}

void dnnl_net_then_add(dnnl_net *n, int value, float scale, int is_read_later)
{
    n->is_read_later = is_read_later;
    add_next(n, (then){dnnl_sum, dnnl_alg_kind_undef, scale, 0, value});
}

void dnnl_net_zero_point(dnnl_net *n, int value)
{
    n->zero_point = value;
}

static dnnl_primitive_attr_t attr_of(dnnl_net *n)
{
    dnnl_primitive_attr_t attr = plain_attr(n);
    dnnl_post_ops_t ops = NULL;
    TRY(dnnl_post_ops_create(&ops));
    for (int i = 0; i < n->next_count && n->code == 0; i++) {
        const then *t = &n->next[i];
        if (t->kind == dnnl_eltwise)
            TRY(dnnl_post_ops_append_eltwise(ops, t->alg, t->alpha, t->beta));
        else if (t->kind == dnnl_binary)
            TRY(dnnl_post_ops_append_binary(ops, t->alg, n->values[t->value].desc));
        else
            TRY(dnnl_post_ops_append_sum(ops, t->alpha, 0, type_of(n->values[t->value].desc)));
    }
    if (n->zero_point != DNNL_NET_NONE)
        TRY(dnnl_primitive_attr_set_zero_points_mask(attr, DNNL_ARG_SRC, 0));
    TRY(dnnl_primitive_attr_set_post_ops(attr, ops));
    if (ops) dnnl_post_ops_destroy(ops);
    return attr;
}

/* The value that is added to what follows; DNNL_NET_NONE for none. */
static int added_to(const dnnl_net *n)
{
    for (int i = 0; i < n->next_count; i++)
        if (n->next[i].kind == dnnl_sum) return n->next[i].value;
    return DNNL_NET_NONE;
}

/* The place of a result: that of the value that is added, if nothing reads it, else a new one. */
static int result_of(dnnl_net *n, const_dnnl_memory_desc_t desc)
{
    const int added = added_to(n);
    if (n->code || added == DNNL_NET_NONE)
        return add_copy_of_desc(n, desc, TEMPORARY, DNNL_NET_NONE);
    const value *v = &n->values[added];
    dnnl_memory_desc_t wanted = of_type(n, desc, type_of(v->desc));
    if (n->code) return 0;
    int place = added;
    if (n->is_read_later || n->values[v->root].kind != TEMPORARY ||
        !dnnl_memory_desc_equal(v->desc, wanted)) {
        place = add_copy_of_desc(n, wanted, TEMPORARY, DNNL_NET_NONE);
        copy(n, added, place, 0);
    }
    dnnl_memory_desc_destroy(wanted);
    return add_copy_of_desc(n, desc, TEMPORARY, place);
}

/* Adds a primitive that reads and writes as its description says. `x` are what it reads. */
static int add_primitive(dnnl_net *n, dnnl_primitive_desc_t made, dnnl_primitive_attr_t attr,
                         const int *args, const int *xs, int count)
{
    step s = {0};
    int y = 0, is_constant = 1;
    for (int i = 0; i < count && n->code == 0; i++) {
        if (xs[i] == DNNL_NET_NONE) continue;
        is_constant &= n->values[n->values[xs[i]].root].kind == CONSTANT;
        const_dnnl_memory_desc_t wanted =
            dnnl_primitive_desc_query_md(made, dnnl_query_exec_arg_md, args[i]);
        const int x = fitted(n, xs[i], wanted);
        for (int j = 0; j < n->next_count; j++)
            if (n->next[j].kind == dnnl_sum && n->values[x].root == n->values[n->next[j].value].root)
                n->is_read_later = 1;
        use(n, &s, args[i], x);
    }
    for (int i = 0; i < n->next_count && n->code == 0; i++)
        is_constant &= n->next[i].kind == dnnl_eltwise ||
                       n->values[n->values[n->next[i].value].root].kind == CONSTANT;
    for (int i = 0; i < n->next_count; i++)
        if (n->next[i].kind == dnnl_binary)
            use(n, &s, DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1, n->next[i].value);
    if (n->zero_point != DNNL_NET_NONE)
        use(n, &s, DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, n->zero_point);
    if (n->code == 0)
        y = result_of(n, dnnl_primitive_desc_query_md(made, dnnl_query_exec_arg_md, DNNL_ARG_DST));
    if (n->code == 0 && is_constant) own(n, y);
    use(n, &s, DNNL_ARG_DST, y);
    add_step(n, made, s, is_constant);
    if (attr) dnnl_primitive_attr_destroy(attr);
    n->next_count = n->is_read_later = 0;
    n->zero_point = DNNL_NET_NONE;
    return y;
}

/* -- primitives */

static const_dnnl_memory_desc_t desc_of(const dnnl_net *n, int x)
{
    return x == DNNL_NET_NONE ? NULL : n->values[x].desc;
}

/* Any order of the elements of a value. */
static dnnl_memory_desc_t any_of(dnnl_net *n, int x)
{
    const_dnnl_memory_desc_t desc = n->values[x].desc;
    return any(n, type_of(desc), rank_of(desc), dims_of(desc));
}

static void destroy(dnnl_memory_desc_t *descs, int count)
{
    for (int i = 0; i < count; i++)
        if (descs[i]) dnnl_memory_desc_destroy(descs[i]);
}

int dnnl_net_conv(dnnl_net *n, int x, int weights, int bias, dnnl_data_type_t type, int rank,
                  const dnnl_dims_t dims, const dnnl_dims_t strides, const dnnl_dims_t dilations,
                  const dnnl_dims_t begins, const dnnl_dims_t ends)
{
    if (n->code) return 0;
    check_bytes(n, n->values[x].desc);
    /* Bytes that are added may be of another sign, but not in an order that no strides tell. */
    const int added = added_to(n);
    const int is_alike = added == DNNL_NET_NONE || type_of(n->values[added].desc) == type;
    dnnl_memory_desc_t y_desc =
        is_alike ? any(n, type, rank, dims) : channels_last(n, type, rank, dims);
    dnnl_memory_desc_t d[] = {any_of(n, x), any_of(n, weights), y_desc};
    dnnl_primitive_attr_t attr = attr_of(n);
    dnnl_primitive_desc_t made = NULL;
    TRY(dnnl_convolution_forward_primitive_desc_create(
        &made, n->engine, dnnl_forward_inference, dnnl_convolution_direct, d[0], d[1],
        desc_of(n, bias), d[2], strides, dilations, begins, ends, attr));
    const int args[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS};
    const int y = add_primitive(n, made, attr, args, (const int[]){x, weights, bias}, 3);
    destroy(d, 3);
    return y;
}

/* Whether a primitive is one of oneDNN's plain loops, that take what no kernel does. */
static int is_reference(const_dnnl_primitive_desc_t made)
{
    const char *name = "";
    dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, &name);
    return strncmp(name, "ref", 3) == 0;
}

static dnnl_primitive_desc_t matmul_of(dnnl_net *n, int x, int weights,
                                       const_dnnl_memory_desc_t y, dnnl_primitive_attr_t attr)
{
    const int is_constant = n->values[n->values[weights].root].kind == CONSTANT;
    dnnl_memory_desc_t any_weights = is_constant ? any_of(n, weights) : NULL;
    dnnl_primitive_desc_t made = NULL;
    TRY(dnnl_matmul_primitive_desc_create(&made, n->engine, desc_of(n, x),
                                          is_constant ? any_weights : desc_of(n, weights), NULL,
                                          y, attr));
    if (any_weights) dnnl_memory_desc_destroy(any_weights);
    return made;
}

int dnnl_net_matmul(dnnl_net *n, int x, int weights, dnnl_data_type_t type, int rank,
                    const dnnl_dims_t dims)
{
    if (n->code) return 0;
    check_bytes(n, n->values[x].desc);
    dnnl_memory_desc_t y = row_major(n, type, rank, dims);
    dnnl_primitive_attr_t attr = attr_of(n);
    dnnl_primitive_desc_t made = matmul_of(n, x, weights, y, attr);
    if (n->code == 0 && is_reference(made)) { /* a kernel takes rows, if it takes this at all */
        dnnl_primitive_desc_destroy(made);
        x = plain(n, x);
        if (n->values[n->values[weights].root].kind != CONSTANT) weights = plain(n, weights);
        made = n->code ? NULL : matmul_of(n, x, weights, y, attr);
    }
    const int args[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS};
    const int made_value = add_primitive(n, made, attr, args, (const int[]){x, weights}, 2);
    destroy(&y, 1);
    return made_value;
}

int dnnl_net_pool(dnnl_net *n, int x, dnnl_alg_kind_t alg, int rank, const dnnl_dims_t dims,
                  const dnnl_dims_t strides, const dnnl_dims_t kernel,
                  const dnnl_dims_t dilations, const dnnl_dims_t begins, const dnnl_dims_t ends)
{
    if (n->code) return 0;
    dnnl_memory_desc_t d[] = {any(n, type_of(n->values[x].desc), rank, dims)};
    dnnl_primitive_attr_t attr = attr_of(n);
    dnnl_primitive_desc_t made = NULL;
    TRY(dnnl_pooling_forward_primitive_desc_create(&made, n->engine, dnnl_forward_inference, alg,
                                                   desc_of(n, x), d[0], strides, kernel,
                                                   dilations, begins, ends, attr));
    const int args[] = {DNNL_ARG_SRC};
    const int y = add_primitive(n, made, attr, args, &x, 1);
    destroy(d, 1);
    return y;
}

int dnnl_net_eltwise(dnnl_net *n, int x, dnnl_alg_kind_t alg, float alpha, float beta)
{
    if (n->code) return 0;
    dnnl_primitive_attr_t attr = attr_of(n);
    dnnl_primitive_desc_t made = NULL;
    TRY(dnnl_eltwise_forward_primitive_desc_create(&made, n->engine, dnnl_forward_inference, alg,
                                                   desc_of(n, x), desc_of(n, x), alpha, beta,
                                                   attr));
    const int args[] = {DNNL_ARG_SRC};
    return add_primitive(n, made, attr, args, &x, 1);
}

int dnnl_net_binary(dnnl_net *n, int x, int y, dnnl_alg_kind_t alg, dnnl_data_type_t type,
                    int rank, const dnnl_dims_t dims)
{
    const size_t bytes = (size_t)rank * sizeof *dims;
    if (n->code) return 0;
    const int is_whole = memcmp(dims_of(n->values[x].desc), dims, bytes) == 0;
    const int is_alike = type_of(n->values[x].desc) == type_of(n->values[y].desc);
    if (!is_whole) x = plain(n, x);
    if (n->code) return 0;
    /* The second in the order of the first if it is as large, else as rows. */
    if (is_whole && is_alike && memcmp(dims_of(n->values[y].desc), dims, bytes) == 0)
        y = fitted(n, y, n->values[x].desc);
    else
        y = plain(n, y);
    if (n->code) return 0;
    dnnl_memory_desc_t d[] = {is_whole ? any(n, type, rank, dims) : row_major(n, type, rank, dims)};
    dnnl_primitive_attr_t attr = attr_of(n);
    dnnl_primitive_desc_t made = NULL;
    TRY(dnnl_binary_primitive_desc_create(&made, n->engine, alg, desc_of(n, x), desc_of(n, y),
                                          d[0], attr));
    const int args[] = {DNNL_ARG_SRC_0, DNNL_ARG_SRC_1};
    const int z = add_primitive(n, made, attr, args, (const int[]){x, y}, 2);
    destroy(d, 1);
    return z;
}

int dnnl_net_dequantize(dnnl_net *n, int x, int scale, int zero_point)
{
    if (n->code) return 0;
    const_dnnl_memory_desc_t desc = desc_of(n, x);
    dnnl_memory_desc_t made_desc = row_major(n, dnnl_f32, rank_of(desc), dims_of(desc));
    const int y = add_value(n, made_desc, TEMPORARY, DNNL_NET_NONE);
    dnnl_primitive_attr_t attr = plain_attr(n);
    dnnl_primitive_desc_t made = NULL;
    step s = {0};
    TRY(dnnl_primitive_attr_set_scales_mask(attr, DNNL_ARG_FROM, 0));
    TRY(dnnl_primitive_attr_set_zero_points_mask(attr, DNNL_ARG_FROM, 0));
    TRY(dnnl_reorder_primitive_desc_create(&made, desc_of(n, x), n->engine, desc_of(n, y),
                                           n->engine, attr));
    use(n, &s, DNNL_ARG_FROM, x);
    use(n, &s, DNNL_ARG_TO, y);
    use(n, &s, DNNL_ARG_ATTR_SCALES | DNNL_ARG_FROM, scale);
    use(n, &s, DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_FROM, zero_point);
    add_step(n, made, s, 0);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return y;
}

int dnnl_net_softmax(dnnl_net *n, int x, dnnl_alg_kind_t alg, int axis)
{
    if (n->code) return 0;
    dnnl_primitive_attr_t attr = attr_of(n);
    dnnl_primitive_desc_t made = NULL;
    TRY(dnnl_softmax_forward_primitive_desc_create(&made, n->engine, dnnl_forward_inference, alg,
                                                   desc_of(n, x), desc_of(n, x), axis, attr));
    const int args[] = {DNNL_ARG_SRC};
    return add_primitive(n, made, attr, args, &x, 1);
}

int dnnl_net_layer_norm(dnnl_net *n, int x, int scale, int shift, float epsilon)
{
    x = plain(n, x);
    /* Parameters are floats whatever the array holds. */
    if (n->code == 0) scale = plain_of(n, scale, dnnl_f32);
    if (n->code == 0 && shift != DNNL_NET_NONE) shift = plain_of(n, shift, dnnl_f32);
    if (n->code) return 0;
    dnnl_primitive_attr_t attr = attr_of(n);
    dnnl_primitive_desc_t made = NULL;
    const unsigned flags =
        dnnl_use_scale | (shift == DNNL_NET_NONE ? 0u : (unsigned)dnnl_use_shift);
    TRY(dnnl_layer_normalization_forward_primitive_desc_create(
        &made, n->engine, dnnl_forward_inference, desc_of(n, x), desc_of(n, x), NULL, epsilon,
        flags, attr));
    const int args[] = {DNNL_ARG_SRC, DNNL_ARG_SCALE, DNNL_ARG_SHIFT};
    return add_primitive(n, made, attr, args, (const int[]){x, scale, shift}, 3);
}

int dnnl_net_concat(dnnl_net *n, int count, const int *parts, int axis)
{
    const_dnnl_memory_desc_t descs[MOST_ARGS];
    int args[MOST_ARGS];
    if (count > MOST_ARGS - 2) fail(n, dnnl_invalid_arguments);
    if (n->code) return 0;
    for (int i = 0; i < count; i++) {
        descs[i] = desc_of(n, parts[i]);
        args[i] = DNNL_ARG_MULTIPLE_SRC + i;
    }
    dnnl_primitive_attr_t attr = plain_attr(n);
    dnnl_primitive_desc_t made = NULL;
    TRY(dnnl_concat_primitive_desc_create(&made, n->engine, NULL, count, axis, descs, attr));
    return add_primitive(n, made, attr, args, parts, count);
}

/* -- the net */

/* Notes when each place is used. */
static void live(dnnl_net *n)
{
    for (int i = 0; i < n->step_count; i++)
        for (int j = 0; j < n->steps[i].count; j++) {
            const int x = n->steps[i].values[j];
            if (x == DNNL_NET_NONE) continue;
            value *v = &n->values[n->values[x].root];
            if (v->first < 0) v->first = i;
            v->last = i;
        }
}

/* The lowest offset at which a value meets none of those before it that live when it does. */
static size_t place(const dnnl_net *n, int x, size_t bytes)
{
    const value *v = &n->values[x];
    size_t offset = 0;
    for (int i = 0; i < x; i++) {
        const value *w = &n->values[i];
        if (w->root != i || w->kind != TEMPORARY || w->last < v->first || v->last < w->first)
            continue;
        const size_t end = w->offset + dnnl_memory_desc_get_size(w->desc);
        if (offset < end && w->offset < offset + bytes) {
            offset = (end + ALIGN - 1) / ALIGN * ALIGN;
            i = -1;
        }
    }
    return offset;
}

/* Gives temporary values their places. */
static void plan(dnnl_net *n)
{
    size_t size = 0;
    live(n);
    for (int x = 0; x < n->value_count && n->code == 0; x++) {
        value *v = &n->values[x];
        if (v->root != x || v->kind != TEMPORARY) continue;
        const size_t bytes = dnnl_memory_desc_get_size(v->desc);
        v->offset = place(n, x, bytes);
        if (v->offset + bytes > size) size = v->offset + bytes;
    }
    n->arena = malloc(size + ALIGN);
    n->scratch = malloc(n->scratch_bytes + ALIGN);
    if (n->arena == NULL || n->scratch == NULL) fail(n, dnnl_out_of_memory);
    for (int x = 0; x < n->value_count && n->code == 0; x++) {
        const value *root = &n->values[n->values[x].root];
        if (root->kind == TEMPORARY)
            TRY(dnnl_memory_set_data_handle(n->values[x].memory,
                                            (char *)aligned(n->arena) + root->offset));
    }
    for (int i = 0; i < n->step_count && n->code == 0; i++) {
        const step *s = &n->steps[i];
        if (s->values[s->count - 1] == DNNL_NET_NONE)
            TRY(dnnl_memory_set_data_handle(s->args[s->count - 1].memory, aligned(n->scratch)));
    }
}

static int enter(const dnnl_net *n)
{
    const int before = omp_get_max_threads();
    omp_set_num_threads(n->threads);
    return before;
}

int dnnl_net_open(void **net, dnnl_net_builder build, const void *data, int threads)
{
    dnnl_net *n = *net = calloc(1, sizeof *n);
    if (n == NULL) return dnnl_out_of_memory;
    n->threads = threads;
    n->zero_point = DNNL_NET_NONE;
    const int before = enter(n);
    TRY(dnnl_engine_create(&n->engine, dnnl_cpu, 0));
    TRY(dnnl_stream_create(&n->stream, n->engine, dnnl_stream_default_flags));
    build(n, data);
    if (n->code == 0) plan(n);
    omp_set_num_threads(before);
    return n->code;
}

int dnnl_net_run(void *net, const void *const *inputs, void *const *outputs)
{
    dnnl_net *n = net;
    const int before = enter(n);
    int code = 0;
    for (int x = 0; x < n->value_count && code == 0; x++) {
        const value *v = &n->values[x], *root = &n->values[v->root];
        if (root->kind == INPUT)
            code = dnnl_memory_set_data_handle(v->memory, (void *)inputs[root->port]);
        else if (root->kind == OUTPUT)
            code = dnnl_memory_set_data_handle(v->memory, outputs[root->port]);
    }
    for (int i = 0; i < n->step_count && code == 0; i++) {
        const step *s = &n->steps[i];
        code = dnnl_primitive_execute(s->primitive, n->stream, s->count, s->args);
    }
    if (code == 0) code = dnnl_stream_wait(n->stream);
    omp_set_num_threads(before);
    return code;
}

void dnnl_net_close(void *net)
{
    dnnl_net *n = net;
    for (int i = 0; i < n->step_count; i++) {
        const step *s = &n->steps[i];
        if (s->values[s->count - 1] == DNNL_NET_NONE)
            dnnl_memory_destroy(s->args[s->count - 1].memory);
        dnnl_primitive_destroy(s->primitive);
    }
    for (int x = 0; x < n->value_count; x++) {
        dnnl_memory_destroy(n->values[x].memory);
        dnnl_memory_desc_destroy(n->values[x].desc);
        free(n->values[x].own);
    }
    if (n->stream) dnnl_stream_destroy(n->stream);
    if (n->engine) dnnl_engine_destroy(n->engine);
    free(n->values);
    free(n->steps);
    free(n->arena);
    free(n->scratch);
    free(n);
}
