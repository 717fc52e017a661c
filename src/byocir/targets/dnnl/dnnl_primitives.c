/* The primitives of a net, and what is done with each element of their results. */
#include "dnnl_parts.h"

#include <string.h>

/* -- orders of elements, and what they need */

/* The order that oneDNN likes best. */
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

/* Without VNNI oneDNN adds products of bytes in pairs that saturate. */
static void check_bytes(dnnl_net *n, const_dnnl_memory_desc_t desc)
{
    const dnnl_data_type_t type = type_of(desc);
    if ((type == dnnl_s8 || type == dnnl_u8) &&
        !has(dnnl_cpu_isa_avx2_vnni, dnnl_cpu_isa_avx2) &&
        !has(dnnl_cpu_isa_avx512_core_vnni, dnnl_cpu_isa_avx512_core))
        fail(n, DNNL_NET_NO_VNNI);
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
    add_next(n, (then){dnnl_binary, alg, 0, 0, dnnl_net_plain(n, value)});
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
    dnnl_primitive_attr_t attr = dnnl_net_plain_attr(n);
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
        return dnnl_net_add_like(n, desc, TEMPORARY, DNNL_NET_NONE);
    const value *v = &n->values[added];
    dnnl_memory_desc_t wanted = of_type(n, desc, type_of(v->desc));
    if (n->code) return 0;
    int place = added;
    if (n->is_read_later || n->values[v->root].kind != TEMPORARY ||
        !dnnl_memory_desc_equal(v->desc, wanted)) {
        place = dnnl_net_add_like(n, wanted, TEMPORARY, DNNL_NET_NONE);
        dnnl_net_copy(n, added, place, 0);
    }
    dnnl_memory_desc_destroy(wanted);
    return dnnl_net_add_like(n, desc, TEMPORARY, place);
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
        const int x = dnnl_net_fitted(n, xs[i], wanted);
        for (int j = 0; j < n->next_count; j++)
            if (n->next[j].kind == dnnl_sum && n->values[x].root == n->values[n->next[j].value].root)
                n->is_read_later = 1;
        dnnl_net_use(n, &s, args[i], x);
    }
    for (int i = 0; i < n->next_count && n->code == 0; i++)
        is_constant &= n->next[i].kind == dnnl_eltwise ||
                       n->values[n->values[n->next[i].value].root].kind == CONSTANT;
    for (int i = 0; i < n->next_count; i++)
        if (n->next[i].kind == dnnl_binary)
            dnnl_net_use(n, &s, DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1,
                         n->next[i].value);
    if (n->zero_point != DNNL_NET_NONE)
        dnnl_net_use(n, &s, DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, n->zero_point);
    if (n->code == 0)
        y = result_of(n, dnnl_primitive_desc_query_md(made, dnnl_query_exec_arg_md, DNNL_ARG_DST));
    if (n->code == 0 && is_constant) dnnl_net_own(n, y);
    dnnl_net_use(n, &s, DNNL_ARG_DST, y);
    dnnl_net_add_step(n, made, s, is_constant);
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
        x = dnnl_net_plain(n, x);
        if (n->values[n->values[weights].root].kind != CONSTANT)
            weights = dnnl_net_plain(n, weights);
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
    if (!is_whole) x = dnnl_net_plain(n, x);
    if (n->code) return 0;
    /* The second in the order of the first if it is as large, else as rows. */
    if (is_whole && is_alike && memcmp(dims_of(n->values[y].desc), dims, bytes) == 0)
        y = dnnl_net_fitted(n, y, n->values[x].desc);
    else
        y = dnnl_net_plain(n, y);
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
    const int y = dnnl_net_add_value(n, made_desc, TEMPORARY, DNNL_NET_NONE);
    dnnl_primitive_attr_t attr = dnnl_net_plain_attr(n);
    dnnl_primitive_desc_t made = NULL;
    step s = {0};
    TRY(dnnl_primitive_attr_set_scales_mask(attr, DNNL_ARG_FROM, 0));
    TRY(dnnl_primitive_attr_set_zero_points_mask(attr, DNNL_ARG_FROM, 0));
    TRY(dnnl_reorder_primitive_desc_create(&made, desc_of(n, x), n->engine, desc_of(n, y),
                                           n->engine, attr));
    dnnl_net_use(n, &s, DNNL_ARG_FROM, x);
    dnnl_net_use(n, &s, DNNL_ARG_TO, y);
    dnnl_net_use(n, &s, DNNL_ARG_ATTR_SCALES | DNNL_ARG_FROM, scale);
    dnnl_net_use(n, &s, DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_FROM, zero_point);
    dnnl_net_add_step(n, made, s, 0);
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
    x = dnnl_net_plain(n, x);
    /* Parameters are floats whatever the array holds. */
    if (n->code == 0) scale = dnnl_net_plain_of(n, scale, dnnl_f32);
    if (n->code == 0 && shift != DNNL_NET_NONE) shift = dnnl_net_plain_of(n, shift, dnnl_f32);
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
    dnnl_primitive_attr_t attr = dnnl_net_plain_attr(n);
    dnnl_primitive_desc_t made = NULL;
    TRY(dnnl_concat_primitive_desc_create(&made, n->engine, NULL, count, axis, descs, attr));
    return add_primitive(n, made, attr, args, parts, count);
}
