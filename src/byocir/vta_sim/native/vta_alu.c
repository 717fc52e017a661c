/* ALU: one operation on all lanes of an accumulator, with another one or an immediate. */
#include "vta_internal.h"

enum { CHUNK = 16 }; /* lanes worked on at once, where the config has as many */

/* Right by y, left where y is negative; any distance. Signed right shifts keep the sign with every
 * compiler there is, although C leaves that to them. */
VTA_INLINE int32_t shift(int32_t x, int32_t y)
{
    const int32_t right = y > 31 ? 31 : y < 0 ? 0 : y;
    const int32_t left = y > 0 ? 0 : y < -31 ? 31 : -y;
    const uint32_t shifted = y < -31 ? 0 : (uint32_t)x << left;
    return y >= 0 ? x >> right : (int32_t)shifted;
}

VTA_INLINE int32_t operate(uint32_t operation, int32_t x, int32_t y)
{
    switch (operation) {
    case VTA_MIN: return x < y ? x : y;
    case VTA_MAX: return x > y ? x : y;
    case VTA_ADD: return (int32_t)((uint32_t)x + (uint32_t)y);
    case VTA_SHR: return shift(x, y);
    default: return (int32_t)((uint32_t)x * (uint32_t)y);
    }
}

/* To be inlined with a constant `operation`, `use_imm` and `chunk`. `y` may be `x`. */
VTA_INLINE void run_nest(const vta_device *device, const vta_loop *nest, uint32_t operation,
                         uint32_t use_imm, size_t chunk)
{
    const vta_device d = *device;
    const vta_loop loop = *nest;
    const vta_step *end = d.steps + (loop.end - loop.begin);
    VTA_FOR_POINTS (&loop, i, j) {
        const vta_step at = vta_point(&loop, i, j);
        int32_t *dst = d.acc + at.dst * d.lanes;
        const int32_t *src = d.acc + at.src * d.lanes;
        for (const vta_step *step = d.steps; step < end; step++) {
            int32_t *x = dst + step->dst * d.lanes;
            const int32_t *y = src + step->src * d.lanes;
            for (size_t lane = 0; lane < d.lanes; lane += chunk) {
                int32_t result[CHUNK];
                for (size_t k = 0; k < chunk; k++)
                    result[k] = operate(operation, x[lane + k], use_imm ? loop.imm : y[lane + k]);
                memcpy(x + lane, result, chunk * sizeof *result);
            }
        }
    }
}

VTA_INLINE void run_form(const vta_device *device, const vta_loop *loop, uint32_t use_imm)
{
    switch (loop->operation) {
    case VTA_MIN: run_nest(device, loop, VTA_MIN, use_imm, CHUNK); break;
    case VTA_MAX: run_nest(device, loop, VTA_MAX, use_imm, CHUNK); break;
    case VTA_ADD: run_nest(device, loop, VTA_ADD, use_imm, CHUNK); break;
    case VTA_SHR: run_nest(device, loop, VTA_SHR, use_imm, CHUNK); break;
    default: run_nest(device, loop, VTA_MUL, use_imm, CHUNK); break;
    }
}

static int all_written(const vta_device *device, const vta_loop *loop)
{
    const uint8_t *written = device->written[VTA_ACC];
    const vta_step *end = device->steps + (loop->end - loop->begin);
    VTA_FOR_POINTS (loop, i, j) {
        const vta_step at = vta_point(loop, i, j);
        for (const vta_step *step = device->steps; step < end; step++)
            if (!written[at.dst + step->dst]
                || !(loop->use_imm || written[at.src + step->src]))
                return 0;
    }
    return 1;
}

static int is_far(int32_t distance) { return distance > 31 || distance < -31; }

static int shift_near(int32_t *x, const int32_t *y, size_t lanes)
{
    for (size_t lane = 0; lane < lanes; lane++) {
        if (is_far(y[lane])) return 0;
        x[lane] = shift(x[lane], y[lane]);
    }
    return 1;
}

/* Shifts by register; none of them if a distance is undefined. */
static uint32_t run_near_shifts(vta_device *device, const vta_loop *loop)
{
    const size_t lanes = device->lanes;
    const size_t bytes = vta_depth(&device->config, VTA_ACC) * lanes * sizeof *device->acc;
    const vta_step *end = device->steps + (loop->end - loop->begin);
    memcpy(device->saved, device->acc, bytes);
    VTA_FOR_POINTS (loop, i, j) {
        const vta_step at = vta_point(loop, i, j);
        for (const vta_step *step = device->steps; step < end; step++) {
            int32_t *x = device->acc + (at.dst + step->dst) * lanes;
            if (shift_near(x, device->acc + (at.src + step->src) * lanes, lanes)) continue;
            memcpy(device->acc, device->saved, bytes);
            return VTA_SHIFT_DISTANCE;
        }
    }
    return VTA_OK;
}

uint32_t vta_run_alu(vta_device *device, const vta_loop *loop)
{
    if (device->checking) {
        if (!all_written(device, loop)) return VTA_UNWRITTEN;
        if (loop->operation == VTA_SHR && !loop->use_imm) return run_near_shifts(device, loop);
        if (loop->operation == VTA_SHR && is_far(loop->imm)) return VTA_SHIFT_DISTANCE;
    }
    if (device->lanes % CHUNK)
        run_nest(device, loop, loop->operation, loop->use_imm, 1);
    else if (loop->use_imm)
        run_form(device, loop, 1);
    else
        run_form(device, loop, 0);
    return VTA_OK;
}
