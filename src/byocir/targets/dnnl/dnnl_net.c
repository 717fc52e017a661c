/* A net: its values and steps, their places in memory, and its runs. */
#include "dnnl_parts.h"

#include <stdint.h>
#include <stdlib.h>

#define ALIGN 64

int omp_get_max_threads(void);
void omp_set_num_threads(int count);

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

/* -- values */

static void check_bf16(dnnl_net *n, const_dnnl_memory_desc_t desc)
{
    if (n->code == 0 && type_of(desc) == dnnl_bf16 &&
        !has(dnnl_cpu_isa_avx512_core, dnnl_cpu_isa_avx2) &&
        !has(dnnl_cpu_isa_avx2_vnni_2, dnnl_cpu_isa_avx2_vnni))
        fail(n, DNNL_NET_NO_BF16);
}

int dnnl_net_add_value(dnnl_net *n, dnnl_memory_desc_t desc, kind kind, int root)
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

int dnnl_net_add_like(dnnl_net *n, const_dnnl_memory_desc_t desc, kind kind, int root)
{
    dnnl_memory_desc_t own = NULL;
    TRY(dnnl_memory_desc_clone(&own, desc));
    return dnnl_net_add_value(n, own, kind, root);
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

void dnnl_net_use(const dnnl_net *n, step *s, int arg, int x)
{
    if (n->code == 0 && x != DNNL_NET_NONE) set_arg(s, arg, x, n->values[x].memory);
}

void dnnl_net_add_step(dnnl_net *n, dnnl_primitive_desc_t made, step s, int is_now)
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

dnnl_primitive_attr_t dnnl_net_plain_attr(dnnl_net *n)
{
    dnnl_primitive_attr_t attr = NULL;
    TRY(dnnl_primitive_attr_create(&attr));
    TRY(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    return attr;
}

void dnnl_net_copy(dnnl_net *n, int from, int to, int is_now)
{
    dnnl_primitive_desc_t made = NULL;
    dnnl_primitive_attr_t attr = dnnl_net_plain_attr(n);
    step s = {0};
    if (n->code == 0) {
        TRY(dnnl_reorder_primitive_desc_create(&made, n->values[from].desc, n->engine,
                                               n->values[to].desc, n->engine, attr));
    }
    dnnl_net_use(n, &s, DNNL_ARG_FROM, from);
    dnnl_net_use(n, &s, DNNL_ARG_TO, to);
    dnnl_net_add_step(n, made, s, is_now);
    if (attr) dnnl_primitive_attr_destroy(attr);
}

void dnnl_net_own(dnnl_net *n, int x)
{
    value *v = &n->values[x];
    v->kind = CONSTANT;
    v->own = malloc(dnnl_memory_desc_get_size(v->desc) + ALIGN);
    if (v->own == NULL) fail(n, dnnl_out_of_memory);
    TRY(dnnl_memory_set_data_handle(v->memory, aligned(v->own)));
}

int dnnl_net_fitted(dnnl_net *n, int x, const_dnnl_memory_desc_t wanted)
{
    if (n->code || dnnl_memory_desc_equal(n->values[x].desc, wanted)) return x;
    const kind kind = n->values[n->values[x].root].kind;
    const int y = dnnl_net_add_like(n, wanted, kind == CONSTANT ? CONSTANT : TEMPORARY,
                                   DNNL_NET_NONE);
    if (n->code == 0 && kind == CONSTANT) dnnl_net_own(n, y);
    dnnl_net_copy(n, x, y, kind == CONSTANT);
    return y;
}

int dnnl_net_plain_of(dnnl_net *n, int x, dnnl_data_type_t type)
{
    const_dnnl_memory_desc_t desc = n->values[x].desc;
    dnnl_memory_desc_t wanted = row_major(n, type, rank_of(desc), dims_of(desc));
    const int y = n->code ? x : dnnl_net_fitted(n, x, wanted);
    if (wanted) dnnl_memory_desc_destroy(wanted);
    return y;
}

int dnnl_net_plain(dnnl_net *n, int x)
{
    return n->code ? x : dnnl_net_plain_of(n, x, type_of(n->values[x].desc));
}

/* -- arrays */

int dnnl_net_input(dnnl_net *n, dnnl_data_type_t type, int rank, const dnnl_dims_t dims)
{
    const int x = dnnl_net_add_value(n, row_major(n, type, rank, dims), INPUT, DNNL_NET_NONE);
    if (n->code == 0) n->values[x].port = n->inputs++;
    return x;
}

int dnnl_net_constant(dnnl_net *n, dnnl_data_type_t type, int rank, const dnnl_dims_t dims,
                      const void *data)
{
    const int x = dnnl_net_add_value(n, row_major(n, type, rank, dims), CONSTANT, DNNL_NET_NONE);
    if (n->code == 0) TRY(dnnl_memory_set_data_handle(n->values[x].memory, (void *)data));
    return x;
}

void dnnl_net_output(dnnl_net *n, int x)
{
    x = dnnl_net_plain(n, x);
    if (n->code) return;
    value *v = &n->values[n->values[x].root];
    if (v->kind != TEMPORARY) {
        const int y = dnnl_net_add_like(n, n->values[x].desc, TEMPORARY, DNNL_NET_NONE);
        dnnl_net_copy(n, x, y, 0);
        if (n->code) return;
        v = &n->values[y];
    }
    v->kind = OUTPUT;
    v->port = n->outputs++;
}

int dnnl_net_reshape(dnnl_net *n, int x, int rank, const dnnl_dims_t dims)
{
    x = dnnl_net_plain(n, x);
    if (n->code) return x;
    const value *v = &n->values[x];
    const int y = dnnl_net_add_value(n, row_major(n, type_of(v->desc), rank, dims), v->kind, x);
    if (n->code == 0) TRY(dnnl_memory_set_data_handle(n->values[y].memory, handle_of(n, x)));
    return y;
}

/* Whether elements lie in blocks, which no strides tell. */
static int is_blocked(const_dnnl_memory_desc_t desc)
{
    int count = 0;
    dnnl_memory_desc_query(desc, dnnl_query_inner_nblks_s32, &count);
    return count != 0;
}

int dnnl_net_transpose(dnnl_net *n, int x, const int *permutation)
{
    dnnl_memory_desc_t desc = NULL;
    if (n->code) return x;
    if (is_blocked(n->values[x].desc)) x = dnnl_net_plain(n, x);
    if (n->code) return x;
    TRY(dnnl_memory_desc_permute_axes(&desc, n->values[x].desc, permutation));
    const int y = dnnl_net_add_value(n, desc, n->values[x].kind, x);
    if (n->code == 0) TRY(dnnl_memory_set_data_handle(n->values[y].memory, handle_of(n, x)));
    return y;
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
