/* GEMM: rows of inputs times blocks of weights, added into accumulators modulo 2^32. */
#include "vta_internal.h"

#if VTA_LANES
static int packs(const vta_device *device) { return device->block % VTA_LANES == 0; }

void vta_pack_inp(vta_device *device, size_t first, size_t count)
{
    const int8_t *in = device->inp + first * device->lanes;
    vta_packed_inp *out = device->packed_inp + first * device->lanes;
    if (!packs(device)) return;
    for (size_t i = 0; i < count * device->lanes; i++)
        out[i] = (vta_packed_inp)(in[i] + VTA_OFFSET);
}

VTA_INLINE void pack_block(vta_packed_wgt *out, const int8_t *in, size_t block)
{
    for (size_t tile = 0; tile < block; tile += VTA_LANES)
        for (size_t group = 0; group < block; group += VTA_GROUP)
            for (size_t lane = 0; lane < VTA_LANES; lane++, out += VTA_GROUP) {
                const int8_t *from = in + (tile + lane) * block + group;
                if (sizeof *out == sizeof *from) {
                    memcpy(out, from, VTA_GROUP);
                    continue;
                }
                for (size_t k = 0; k < VTA_GROUP; k++) out[k] = from[k];
            }
}

/* What the inputs' offset adds to each output channel, negated. */
VTA_INLINE void sum_rows(int32_t *bias, const int8_t *in, size_t block)
{
    for (size_t row = 0; row < block; row++) {
        int32_t sum = 0;
        for (size_t k = 0; k < block; k++) sum += in[row * block + k];
        bias[row] = -VTA_OFFSET * sum;
    }
}

void vta_pack_wgt(vta_device *device, size_t first, size_t count)
{
    const size_t block = device->block, size = block * block;
    if (!packs(device)) return;
    for (size_t i = first; i < first + count; i++) {
        const int8_t *in = device->wgt + i * size;
        vta_packed_wgt *out = device->packed_wgt + i * size;
        int32_t *bias = device->bias + i * block;
        if (block == 16) {
            pack_block(out, in, 16);
            if (VTA_OFFSET) sum_rows(bias, in, 16);
        } else {
            pack_block(out, in, block);
            if (VTA_OFFSET) sum_rows(bias, in, block);
        }
    }
}

/* One vector of a product; two sums, so that a step need not wait for the one before. */
VTA_INLINE vta_vector product(const vta_packed_inp *x, const vta_packed_wgt *w,
                              const int32_t *bias, size_t block)
{
    vta_vector even = VTA_OFFSET ? vta_get(bias) : vta_zero(), odd = vta_zero();
    for (size_t k = 0; k < block; k += 2 * VTA_GROUP) {
        even = vta_dot(even, w, x + k);
        odd = vta_dot(odd, w + VTA_LANES * VTA_GROUP, x + k + VTA_GROUP);
        w += 2 * VTA_LANES * VTA_GROUP;
    }
    return vta_add(even, odd);
}

/* BATCH 1, BLOCK 16: accumulators stay in registers while micro-ops add to the same element. */
static void gemm_16(const vta_device *device, const vta_loop *nest)
{
    enum { BLOCK = 16, TILES = BLOCK / VTA_LANES, SLICE = BLOCK * VTA_LANES };
    const vta_device d = *device;
    const vta_loop loop = *nest;
    const vta_step *end = d.steps + (loop.end - loop.begin);
    vta_vector sum[TILES];
    int32_t *held = d.acc;
    for (int t = 0; t < TILES; t++) sum[t] = vta_get(held + t * VTA_LANES);
    VTA_FOR_POINTS (&loop, i, j) {
        const vta_step at = vta_point(&loop, i, j);
        const vta_packed_inp *inp = d.packed_inp + (size_t)at.src * BLOCK;
        const vta_packed_wgt *wgt = d.packed_wgt + (size_t)at.wgt * BLOCK * BLOCK;
        const int32_t *bias = d.bias + (size_t)at.wgt * BLOCK;
        int32_t *acc = d.acc + (size_t)at.dst * BLOCK;
        for (const vta_step *step = d.steps; step < end; step++) {
            int32_t *dst = acc + (size_t)step->dst * BLOCK;
            if (dst != held) {
                for (int t = 0; t < TILES; t++) vta_put(held + t * VTA_LANES, sum[t]);
                for (int t = 0; t < TILES; t++) sum[t] = vta_get(dst + t * VTA_LANES);
                held = dst;
            }
            for (size_t t = 0; t < TILES; t++)
                sum[t] = vta_add(sum[t], product(inp + (size_t)step->src * BLOCK,
                                                 wgt + ((size_t)step->wgt * TILES + t) * SLICE,
                                                 bias + (size_t)step->wgt * BLOCK + t * VTA_LANES,
                                                 BLOCK));
        }
    }
    for (int t = 0; t < TILES; t++) vta_put(held + t * VTA_LANES, sum[t]);
}

/* Any batch, any block of whole vectors. To be inlined with a constant `block` where it matters. */
VTA_INLINE void gemm_packed(const vta_device *device, const vta_loop *nest, size_t block)
{
    const vta_device d = *device;
    const vta_loop loop = *nest;
    const vta_step *end = d.steps + (loop.end - loop.begin);
    VTA_FOR_POINTS (&loop, i, j) {
        const vta_step at = vta_point(&loop, i, j);
        for (const vta_step *step = d.steps; step < end; step++) {
            const vta_packed_inp *x = d.packed_inp + (size_t)(at.src + step->src) * d.lanes;
            const vta_packed_wgt *w = d.packed_wgt + (at.wgt + step->wgt) * block * block;
            const int32_t *bias = d.bias + (at.wgt + step->wgt) * block;
            int32_t *acc = d.acc + (size_t)(at.dst + step->dst) * d.lanes;
            for (size_t row = 0; row < d.batch; row++, x += block)
                for (size_t t = 0; t < block; t += VTA_LANES, acc += VTA_LANES)
                    vta_put(acc, vta_add(vta_get(acc), product(x, w + t * block, bias + t, block)));
        }
    }
}
#else
void vta_pack_inp(vta_device *device, size_t first, size_t count)
{
    (void)device, (void)first, (void)count;
}

void vta_pack_wgt(vta_device *device, size_t first, size_t count)
{
    (void)device, (void)first, (void)count;
}
#endif

static void gemm_plain(const vta_device *device, const vta_loop *nest)
{
    const vta_device d = *device;
    const vta_loop loop = *nest;
    const vta_step *end = d.steps + (loop.end - loop.begin);
    VTA_FOR_POINTS (&loop, i, j) {
        const vta_step at = vta_point(&loop, i, j);
        for (const vta_step *step = d.steps; step < end; step++) {
            const int8_t *x = d.inp + (size_t)(at.src + step->src) * d.lanes;
            int32_t *acc = d.acc + (size_t)(at.dst + step->dst) * d.lanes;
            for (size_t row = 0; row < d.batch; row++, x += d.block) {
                const int8_t *w = d.wgt + (at.wgt + step->wgt) * d.block * d.block;
                for (size_t channel = 0; channel < d.block; channel++, w += d.block, acc++) {
                    int32_t sum = 0;
                    for (size_t k = 0; k < d.block; k++) sum += x[k] * w[k];
                    *acc = (int32_t)((uint32_t)*acc + (uint32_t)sum);
                }
            }
        }
    }
}

static void reset(vta_device *device, const vta_loop *loop)
{
    const size_t bytes = device->lanes * sizeof *device->acc;
    const vta_step *end = device->steps + (loop->end - loop->begin);
    VTA_FOR_POINTS (loop, i, j) {
        const vta_step at = vta_point(loop, i, j);
        for (const vta_step *step = device->steps; step < end; step++) {
            const size_t dst = at.dst + step->dst;
            memset(device->acc + dst * device->lanes, 0, bytes);
            if (device->checking) device->written[VTA_ACC][dst] = 1;
        }
    }
}

static int all_written(const vta_device *device, const vta_loop *loop)
{
    const uint8_t *acc = device->written[VTA_ACC], *inp = device->written[VTA_INP];
    const uint8_t *wgt = device->written[VTA_WGT];
    const vta_step *end = device->steps + (loop->end - loop->begin);
    VTA_FOR_POINTS (loop, i, j) {
        const vta_step at = vta_point(loop, i, j);
        for (const vta_step *step = device->steps; step < end; step++)
            if (!acc[at.dst + step->dst] || !inp[at.src + step->src] || !wgt[at.wgt + step->wgt])
                return 0;
    }
    return 1;
}

/* BLOCK 16 and 32 with their loops unrolled, other blocks without. */
static void multiply(const vta_device *device, const vta_loop *loop)
{
#if VTA_LANES
    if (device->block == 16 && device->batch == 1)
        gemm_16(device, loop);
    else if (device->block == 16)
        gemm_packed(device, loop, 16);
    else if (device->block == 32)
        gemm_packed(device, loop, 32);
    else if (packs(device))
        gemm_packed(device, loop, device->block);
    else
#endif
        gemm_plain(device, loop);
}

uint32_t vta_run_gemm(vta_device *device, const vta_loop *loop)
{
    if (loop->reset) {
        reset(device, loop);
        return VTA_OK;
    }
    if (device->checking && !all_written(device, loop)) return VTA_UNWRITTEN;
    multiply(device, loop);
    return VTA_OK;
}
