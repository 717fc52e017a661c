/* What the parts of the model share: decoded instructions, programs, the device. */
#ifndef VTA_INTERNAL_H
#define VTA_INTERNAL_H

#include <string.h>

#include "vta_device.h"
#include "vta_dot.h"

#if defined(__GNUC__)
#define VTA_INLINE static inline __attribute__((always_inline))
#else
#define VTA_INLINE static inline
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the VTA model needs a little-endian host"
#endif

enum { VTA_LOAD = 0, VTA_STORE = 1, VTA_GEMM = 2, VTA_FINISH = 3, VTA_ALU = 4, VTA_OPCODES = 5 };
enum { VTA_MIN = 0, VTA_MAX = 1, VTA_ADD = 2, VTA_SHR = 3, VTA_MUL = 4 };
enum { VTA_POP_PREV = 1, VTA_POP_NEXT = 2, VTA_PUSH_PREV = 4, VTA_PUSH_NEXT = 8 };

typedef struct vta_insn {
    uint64_t word[2];
} vta_insn;

typedef struct vta_transfer {
    uint32_t memory, sram, rows, columns, stride, top, bottom, left, right;
    uint64_t dram;
} vta_transfer;

/* Factors are of the outer and of the inner loop. */
typedef struct vta_loop {
    uint32_t reset, begin, end, outer, inner;
    uint32_t dst[2], src[2], wgt[2];
    uint32_t operation, use_imm;
    int32_t imm;
} vta_loop;

/* Fields of a micro-op, from bit 0 up: ACC index, INP or ACC index, WGT index. */
typedef struct vta_fields {
    uint32_t dst_mask, src_shift, src_mask, wgt_shift, wgt_mask;
} vta_fields;

typedef struct vta_step {
    uint32_t dst, src, wgt;
} vta_step;

VTA_INLINE vta_fields vta_uop_fields(const vta_config *config)
{
    const uint32_t acc = config->log_acc_depth, inp = config->log_inp_depth;
    const uint32_t src = acc > inp ? acc : inp;
    vta_fields fields;
    fields.dst_mask = ((uint32_t)1 << acc) - 1;
    fields.src_mask = ((uint32_t)1 << src) - 1;
    fields.wgt_mask = ((uint32_t)1 << config->log_wgt_depth) - 1;
    fields.src_shift = acc;
    fields.wgt_shift = acc + src;
    return fields;
}

VTA_INLINE vta_step vta_split(uint32_t uop, vta_fields fields)
{
    vta_step step;
    step.dst = uop & fields.dst_mask;
    step.src = uop >> fields.src_shift & fields.src_mask;
    step.wgt = (uint32_t)((uint64_t)uop >> fields.wgt_shift) & fields.wgt_mask;
    return step;
}

struct vta_program {
    vta_config config;
    size_t count;
    vta_insn *insns;
    uint32_t *order;
    vta_counters counters;
};

/* `inp` and `wgt` are kept twice: as DRAM has them, and packed for the products (vta_dot.h). */
struct vta_device {
    vta_config config;
    int checking;
    size_t block, batch, lanes; /* lanes: of an accumulator, batch * block */
    uint32_t *uop;
    vta_step *steps; /* the micro-ops of the nest that runs, split */
    int8_t *inp, *wgt;
    int32_t *acc;
    vta_packed_inp *packed_inp;
    vta_packed_wgt *packed_wgt;
    int32_t *bias;
    uint8_t *written[4]; /* by memory id; NULL unless checking */
    int32_t *saved;      /* as large as `acc`; NULL unless checking */
    void *storage;
};

/* Take the lowest bits of a word away. */
VTA_INLINE uint32_t vta_take(uint64_t *word, uint32_t width)
{
    const uint32_t value = (uint32_t)(*word & (((uint64_t)1 << width) - 1));
    *word >>= width;
    return value;
}

VTA_INLINE uint32_t vta_opcode(vta_insn insn) { return (uint32_t)(insn.word[0] & 7); }
VTA_INLINE uint32_t vta_tokens(vta_insn insn) { return (uint32_t)(insn.word[0] >> 3 & 15); }

VTA_INLINE vta_transfer vta_decode_transfer(vta_insn insn)
{
    uint64_t low = insn.word[0] >> 7, high = insn.word[1];
    vta_transfer t;
    t.memory = vta_take(&low, 3);
    t.sram = vta_take(&low, 16);
    t.dram = vta_take(&low, 32);
    t.rows = vta_take(&high, 16);
    t.columns = vta_take(&high, 16);
    t.stride = vta_take(&high, 16);
    t.top = vta_take(&high, 4);
    t.bottom = vta_take(&high, 4);
    t.left = vta_take(&high, 4);
    t.right = vta_take(&high, 4);
    return t;
}

VTA_INLINE vta_loop vta_decode_loop(vta_insn insn, const vta_config *config)
{
    const uint32_t acc = config->log_acc_depth, wgt = config->log_wgt_depth;
    const int gemm = vta_opcode(insn) == VTA_GEMM;
    const uint32_t src = gemm ? config->log_inp_depth : acc;
    uint64_t low = insn.word[0] >> 7, high = insn.word[1];
    vta_loop loop;
    memset(&loop, 0, sizeof loop);
    loop.reset = vta_take(&low, 1);
    loop.begin = vta_take(&low, config->log_uop_depth);
    loop.end = vta_take(&low, config->log_uop_depth + 1);
    loop.outer = vta_take(&low, 14);
    loop.inner = vta_take(&low, 14);
    loop.dst[0] = vta_take(&high, acc);
    loop.dst[1] = vta_take(&high, acc);
    loop.src[0] = vta_take(&high, src);
    loop.src[1] = vta_take(&high, src);
    if (gemm) {
        loop.wgt[0] = vta_take(&high, wgt);
        loop.wgt[1] = vta_take(&high, wgt);
        return loop;
    }
    loop.operation = vta_take(&high, 3);
    loop.use_imm = vta_take(&high, 1);
    loop.imm = (int16_t)(uint16_t)vta_take(&high, 16);
    return loop;
}

VTA_INLINE uint64_t vta_steps(const vta_loop *loop)
{
    const uint32_t uops = loop->end > loop->begin ? loop->end - loop->begin : 0;
    return (uint64_t)loop->outer * loop->inner * uops;
}

VTA_INLINE size_t vta_depth(const vta_config *config, uint32_t memory)
{
    switch (memory) {
    case VTA_UOP: return (size_t)1 << config->log_uop_depth;
    case VTA_INP: return (size_t)1 << config->log_inp_depth;
    case VTA_WGT: return (size_t)1 << config->log_wgt_depth;
    default: return (size_t)1 << config->log_acc_depth;
    }
}

/* Bytes of an element in DRAM. */
VTA_INLINE size_t vta_element_bytes(const vta_config *config, uint32_t memory)
{
    const size_t lanes = (size_t)1 << (config->log_batch + config->log_block);
    switch (memory) {
    case VTA_UOP: return 4;
    case VTA_WGT: return (size_t)1 << (2 * config->log_block);
    case VTA_ACC: return 4 * lanes;
    default: return lanes;
    }
}

/* What the loops add to all indices of a micro-op. */
VTA_INLINE vta_step vta_point(const vta_loop *loop, uint32_t i, uint32_t j)
{
    vta_step point;
    point.dst = i * loop->dst[0] + j * loop->dst[1];
    point.src = i * loop->src[0] + j * loop->src[1];
    point.wgt = i * loop->wgt[0] + j * loop->wgt[1];
    return point;
}

/* The order of a nest: all its micro-ops at one point of the loops, then at the next. */
#define VTA_FOR_POINTS(loop, i, j)               \
    for (uint32_t i = 0; i < (loop)->outer; i++) \
        for (uint32_t j = 0; j < (loop)->inner; j++)

/* vta_gemm.c, vta_alu.c: run a nest of `device->steps`, not empty and within range;
 * return a vta_code. */
uint32_t vta_run_gemm(vta_device *device, const vta_loop *loop);
uint32_t vta_run_alu(vta_device *device, const vta_loop *loop);
void vta_pack_inp(vta_device *device, size_t first, size_t count);
void vta_pack_wgt(vta_device *device, size_t first, size_t count);

#endif
