/* A functional model of the VTA accelerator.
 *
 *     vta_program *program = vta_program_open(&config, insns, count, &fault);
 *     vta_program_schedule(program, NULL, &fault);
 *     vta_device *device = vta_device_open(&config, 0);
 *     vta_device_run(device, program, dram, dram_bytes, &fault);
 *
 * Instructions are 16 bytes each, encoded for the same config as the device. Values are those of
 * upstream's functional simulator; what that one leaves undefined is a fault (ranges) or has one
 * meaning: scratchpads start as zeros, a shift by more than 31 gives what an unbounded shift would.
 * Nothing here is global: devices and programs of different threads do not meet. A little-endian
 * host is required.
 */
#ifndef VTA_DEVICE_H
#define VTA_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Base 2 logarithms: rows of an INP element, side of the GEMM unit, elements per scratchpad. Then
 * what not every VTA has, 0 or 1: the ALU's MUL, loads of ACC_8BIT.
 * Inputs and weights have 8 bits, accumulators 32. */
typedef struct vta_config {
    uint32_t log_batch, log_block;
    uint32_t log_uop_depth, log_inp_depth, log_wgt_depth, log_acc_depth;
    uint32_t alu_mul, acc_8bit;
} vta_config;

enum vta_memory { VTA_UOP = 0, VTA_WGT = 1, VTA_INP = 2, VTA_ACC = 3, VTA_OUT = 4, VTA_ACC_8BIT = 5 };

/* What is wrong. Form of instructions: 102-106; execution: 201-206; tokens and FINISH: 301-305. */
enum vta_code {
    VTA_OK = 0,
    VTA_NO_MEMORY = 1,            /* of the host */
    VTA_BAD_OPCODE = 102,
    VTA_BAD_MEMORY = 103,
    VTA_BAD_ALU_OPCODE = 104,
    VTA_PADDED_STORE = 105,
    VTA_FORBIDDEN_TOKEN = 106,    /* load has no previous module, store no next one */
    VTA_SRAM_RANGE = 201,
    VTA_DRAM_RANGE = 202,
    VTA_UOP_RANGE = 203,
    VTA_INDEX_RANGE = 204,
    VTA_UNWRITTEN = 205,          /* checking devices only: reads what was never written */
    VTA_SHIFT_DISTANCE = 206,     /* checking devices only: beyond 31 */
    VTA_OTHER_CONFIG = 208,       /* of what loads programs: one is for another VTA */
    VTA_DEADLOCK = 301,
    VTA_TOKENS_LEFT = 302,
    VTA_NO_FINISH = 303,
    VTA_AFTER_FINISH = 304,
    VTA_NOT_BEFORE_FINISH = 305
};

/* A vta_code and the index of the instruction it is about, 0 if it is about none. */
typedef struct vta_fault {
    uint32_t code;
    uint32_t instruction;
} vta_fault;

/* Counts of one run: bytes without padding (ACC_8BIT at the size of ACC elements), micro-op
 * executions (GEMM resets not counted), instructions by opcode. */
typedef struct vta_counters {
    uint64_t inp_load_bytes, wgt_load_bytes, acc_load_bytes, uop_load_bytes, out_store_bytes;
    uint64_t gemm_steps, alu_steps;
    uint64_t instructions[5];
} vta_counters;

typedef struct vta_program vta_program;
typedef struct vta_device vta_device;

/* Copy a stream and check the form of its instructions. NULL and `fault` on failure. The program
 * runs in stream order until it is scheduled. */
vta_program *vta_program_open(const vta_config *config, const void *insns, size_t count,
                              vta_fault *fault);
void vta_program_close(vta_program *program);

/* Choose an order that the tokens allow: without `seed` each queue in turn runs as far as it can,
 * with it at random. Returns a vta_code: deadlock, tokens left over, no FINISH or not the last. */
uint32_t vta_program_schedule(vta_program *program, const uint64_t *seed, vta_fault *fault);

/* The instructions' indices in the order in which they run. */
const uint32_t *vta_program_order(const vta_program *program);
const vta_counters *vta_program_counters(const vta_program *program);

/* A device with scratchpads of zeros; NULL without memory. A checking one notes which elements were
 * written, refuses reads of others and shifts beyond 31, and starts with garbage. */
vta_device *vta_device_open(const vta_config *config, int checking);
void vta_device_close(vta_device *device);

/* Run a program; scratchpads keep what they hold. Returns a vta_code; on a fault all instructions
 * before the one named have run, and that one has changed nothing. */
uint32_t vta_device_run(vta_device *device, const vta_program *program, uint8_t *dram,
                        size_t dram_bytes, vta_fault *fault);

/* Copy `count` elements of a scratchpad (UOP, INP, WGT or ACC), in DRAM's layout, from element
 * `first` on. The caller keeps within the depth. Writing counts as written. */
void vta_device_read(const vta_device *device, enum vta_memory memory, size_t first, size_t count,
                     void *elements);
void vta_device_write(vta_device *device, enum vta_memory memory, size_t first, size_t count,
                      const void *elements);

/* The flags of a checking device, a byte per element of UOP, INP, WGT or ACC; else NULL. */
const uint8_t *vta_device_written(const vta_device *device, enum vta_memory memory);

#ifdef __cplusplus
}
#endif

#endif
