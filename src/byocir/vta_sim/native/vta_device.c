/* The device: scratchpads, transfers between them and DRAM, and the run over a stream. */
#include <stdlib.h>

#include "vta_internal.h"

enum { ALIGNMENT = 64, GARBAGE = 0xa5 };

static size_t scratchpad_bytes(const vta_config *config, uint32_t memory)
{
    return vta_depth(config, memory) * vta_element_bytes(config, memory);
}

/* The next `bytes` of the device's storage, aligned; without storage, the sum of what was asked. */
static void *carve(uint8_t *storage, size_t *used, size_t bytes)
{
    void *part = storage ? storage + *used : NULL;
    *used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return part;
}

/* Place all arrays; returns the bytes they take. */
static size_t place(vta_device *device, uint8_t *storage)
{
    const vta_config *config = &device->config;
    const size_t inp = scratchpad_bytes(config, VTA_INP), wgt = scratchpad_bytes(config, VTA_WGT);
    const size_t wgt_rows = vta_depth(config, VTA_WGT) << config->log_block;
    size_t used = 0;
    device->uop = carve(storage, &used, scratchpad_bytes(config, VTA_UOP));
    device->steps = carve(storage, &used, vta_depth(config, VTA_UOP) * sizeof *device->steps);
    device->inp = carve(storage, &used, inp);
    device->wgt = carve(storage, &used, wgt);
    device->acc = carve(storage, &used, scratchpad_bytes(config, VTA_ACC));
    device->packed_inp = carve(storage, &used, inp * sizeof *device->packed_inp);
    device->packed_wgt = carve(storage, &used, wgt * sizeof *device->packed_wgt);
    device->bias = carve(storage, &used, wgt_rows * sizeof *device->bias);
    if (!device->checking) return used;
    for (uint32_t memory = VTA_UOP; memory <= VTA_ACC; memory++)
        device->written[memory] = carve(storage, &used, vta_depth(config, memory));
    device->saved = carve(storage, &used, scratchpad_bytes(config, VTA_ACC));
    return used;
}

static void fill_with_garbage(vta_device *device)
{
    const vta_config *config = &device->config;
    memset(device->uop, GARBAGE, scratchpad_bytes(config, VTA_UOP));
    memset(device->inp, GARBAGE, scratchpad_bytes(config, VTA_INP));
    memset(device->wgt, GARBAGE, scratchpad_bytes(config, VTA_WGT));
    memset(device->acc, GARBAGE, scratchpad_bytes(config, VTA_ACC));
    vta_pack_wgt(device, 0, vta_depth(config, VTA_WGT));
}

vta_device *vta_device_open(const vta_config *config, int checking)
{
    vta_device *device = calloc(1, sizeof *device);
    if (device == NULL) return NULL;
    device->config = *config;
    device->checking = checking;
    device->block = (size_t)1 << config->log_block;
    device->batch = (size_t)1 << config->log_batch;
    device->lanes = device->batch * device->block;
    device->storage = calloc(1, place(device, NULL) + ALIGNMENT);
    if (device->storage == NULL) {
        vta_device_close(device);
        return NULL;
    }
    uint8_t *storage = device->storage;
    place(device, storage + (ALIGNMENT - (uintptr_t)storage % ALIGNMENT));
    if (checking) fill_with_garbage(device);
    vta_pack_inp(device, 0, vta_depth(config, VTA_INP));
    return device;
}

void vta_device_close(vta_device *device)
{
    if (device == NULL) return;
    free(device->storage);
    free(device);
}

static uint8_t *elements(const vta_device *device, uint32_t memory)
{
    switch (memory) {
    case VTA_UOP: return (uint8_t *)device->uop;
    case VTA_INP: return (uint8_t *)device->inp;
    case VTA_WGT: return (uint8_t *)device->wgt;
    default: return (uint8_t *)device->acc;
    }
}

/* To be called after each write of UOP, INP, WGT or ACC that is no result of compute. */
static void note_write(vta_device *device, uint32_t memory, size_t first, size_t count)
{
    if (memory == VTA_INP) vta_pack_inp(device, first, count);
    if (memory == VTA_WGT) vta_pack_wgt(device, first, count);
    if (device->checking) memset(device->written[memory] + first, 1, count);
}

void vta_device_read(const vta_device *device, enum vta_memory memory, size_t first, size_t count,
                     void *out)
{
    const size_t size = vta_element_bytes(&device->config, memory);
    memcpy(out, elements(device, memory) + first * size, count * size);
}

void vta_device_write(vta_device *device, enum vta_memory memory, size_t first, size_t count,
                      const void *in)
{
    const size_t size = vta_element_bytes(&device->config, memory);
    memcpy(elements(device, memory) + first * size, in, count * size);
    note_write(device, memory, first, count);
}

const uint8_t *vta_device_written(const vta_device *device, enum vta_memory memory)
{
    return device->written[memory];
}

/* Whether a transfer's rows end within DRAM; `size` is in bytes per element. */
static int fits_dram(const vta_transfer *t, size_t size, size_t dram_bytes)
{
    const uint64_t last = (uint64_t)(t->rows - 1) * t->stride + t->columns;
    return (t->dram + last) * size <= dram_bytes;
}

static void widen(int32_t *out, const uint8_t *in, size_t lanes)
{
    for (size_t lane = 0; lane < lanes; lane++) out[lane] = (int8_t)in[lane];
}

static uint32_t load(vta_device *device, const vta_transfer *t, const uint8_t *dram, size_t bytes)
{
    const int narrow = t->memory == VTA_ACC_8BIT;
    const uint32_t memory = narrow ? (uint32_t)VTA_ACC : t->memory;
    const size_t width = t->left + t->columns + t->right;
    const size_t count = width * (t->top + t->rows + t->bottom);
    const size_t from = vta_element_bytes(&device->config, t->memory);
    const size_t to = vta_element_bytes(&device->config, memory);
    if (t->columns == 0) return VTA_OK;
    if (t->sram + count > vta_depth(&device->config, memory)) return VTA_SRAM_RANGE;
    if (t->rows && !fits_dram(t, from, bytes)) return VTA_DRAM_RANGE;
    uint8_t *out = elements(device, memory) + t->sram * to;
    if (count != (size_t)t->rows * t->columns) memset(out, 0, count * to);
    out += (t->top * width + t->left) * to;
    for (uint32_t y = 0; y < t->rows; y++, out += width * to) {
        const uint8_t *row = dram + (t->dram + (uint64_t)y * t->stride) * from;
        if (narrow)
            widen((int32_t *)(void *)out, row, t->columns * device->lanes);
        else
            memcpy(out, row, t->columns * from);
    }
    note_write(device, memory, t->sram, count);
    return VTA_OK;
}

static uint32_t store(const vta_device *device, const vta_transfer *t, uint8_t *dram, size_t bytes)
{
    const size_t count = (size_t)t->rows * t->columns, lanes = device->lanes;
    if (count == 0) return VTA_OK;
    if (t->sram + count > vta_depth(&device->config, VTA_ACC)) return VTA_SRAM_RANGE;
    if (!fits_dram(t, lanes, bytes)) return VTA_DRAM_RANGE;
    if (device->checking && memchr(device->written[VTA_ACC] + t->sram, 0, count))
        return VTA_UNWRITTEN;
    const int32_t *in = device->acc + t->sram * lanes;
    for (uint32_t y = 0; y < t->rows; y++, in += t->columns * lanes) {
        uint8_t *row = dram + (t->dram + (uint64_t)y * t->stride) * lanes;
        for (size_t lane = 0; lane < t->columns * lanes; lane++)
            row[lane] = (uint8_t)((uint32_t)in[lane] & 255);
    }
    return VTA_OK;
}

/* The largest index that an operand takes; factors are never negative. */
static uint64_t reach(const vta_loop *loop, const uint32_t factors[2], uint32_t field)
{
    return (uint64_t)(loop->outer - 1) * factors[0] + (uint64_t)(loop->inner - 1) * factors[1]
           + field;
}

/* Split the micro-ops into `device->steps`; the largest of each index. */
static vta_step split_all(vta_device *device, const vta_loop *loop)
{
    const vta_fields fields = vta_uop_fields(&device->config);
    const uint32_t *uop = device->uop + loop->begin;
    vta_step *steps = device->steps, most = {0, 0, 0};
    for (uint32_t u = 0; u < loop->end - loop->begin; u++) {
        const vta_step step = vta_split(uop[u], fields);
        most.dst = step.dst > most.dst ? step.dst : most.dst;
        most.src = step.src > most.src ? step.src : most.src;
        most.wgt = step.wgt > most.wgt ? step.wgt : most.wgt;
        steps[u] = step;
    }
    return most;
}

/* Check all indices of a nest at once: the loops' parts have their maximum at the last point. */
static uint32_t check_nest(vta_device *device, const vta_loop *loop, int gemm)
{
    const vta_config *config = &device->config;
    const size_t acc = vta_depth(config, VTA_ACC), wgt = vta_depth(config, VTA_WGT);
    if (loop->end > vta_depth(config, VTA_UOP)) return VTA_UOP_RANGE;
    if (device->checking
        && memchr(device->written[VTA_UOP] + loop->begin, 0, loop->end - loop->begin))
        return VTA_UNWRITTEN;
    const vta_step most = split_all(device, loop);
    if (reach(loop, loop->dst, most.dst) >= acc) return VTA_INDEX_RANGE;
    if (gemm && loop->reset) return VTA_OK;
    if (reach(loop, loop->src, most.src) >= (gemm ? vta_depth(config, VTA_INP) : acc))
        return VTA_INDEX_RANGE;
    return gemm && reach(loop, loop->wgt, most.wgt) >= wgt ? VTA_INDEX_RANGE : VTA_OK;
}

static uint32_t compute(vta_device *device, vta_insn insn)
{
    const int gemm = vta_opcode(insn) == VTA_GEMM;
    const vta_loop loop = vta_decode_loop(insn, &device->config);
    if (vta_steps(&loop) == 0) return VTA_OK;
    const uint32_t code = check_nest(device, &loop, gemm);
    if (code) return code;
    return gemm ? vta_run_gemm(device, &loop) : vta_run_alu(device, &loop);
}

static uint32_t execute(vta_device *device, vta_insn insn, uint8_t *dram, size_t dram_bytes)
{
    const uint32_t opcode = vta_opcode(insn);
    if (opcode == VTA_FINISH) return VTA_OK;
    if (opcode == VTA_GEMM || opcode == VTA_ALU) return compute(device, insn);
    const vta_transfer transfer = vta_decode_transfer(insn);
    return opcode == VTA_LOAD ? load(device, &transfer, dram, dram_bytes)
                              : store(device, &transfer, dram, dram_bytes);
}

uint32_t vta_device_run(vta_device *device, const vta_program *program, uint8_t *dram,
                        size_t dram_bytes, vta_fault *fault)
{
    fault->code = VTA_OK;
    fault->instruction = 0;
    for (size_t i = 0; i < program->count; i++) {
        const uint32_t index = program->order[i];
        fault->code = execute(device, program->insns[index], dram, dram_bytes);
        if (fault->code) {
            fault->instruction = index;
            return fault->code;
        }
    }
    return VTA_OK;
}
