/* Streams: the form of instructions, their counts, and an order that the tokens allow. */
#include <stdlib.h>

#include "vta_internal.h"

/* The modules, each with a queue of its own that runs in stream order. */
enum { LOAD = 0, COMPUTE = 1, STORE = 2, QUEUES = 3 };
/* The token queues. */
enum { LOAD_COMPUTE = 0, COMPUTE_LOAD = 1, COMPUTE_STORE = 2, STORE_COMPUTE = 3, FIFOS = 4 };

/* Per module, the tokens queue behind each of its bits; load has no previous module, store no next
 * one, and their bits there are refused before. */
static const int POPS[QUEUES][2] = {
    {-1, COMPUTE_LOAD}, {LOAD_COMPUTE, STORE_COMPUTE}, {COMPUTE_STORE, -1}};
static const int PUSHES[QUEUES][2] = {
    {-1, LOAD_COMPUTE}, {COMPUTE_LOAD, COMPUTE_STORE}, {STORE_COMPUTE, -1}};

typedef struct queues {
    const uint32_t *rows[QUEUES]; /* instructions of each queue, in stream order */
    size_t length[QUEUES], head[QUEUES];
    size_t tokens[FIFOS];
} queues;

static int route(vta_insn insn)
{
    const uint32_t opcode = vta_opcode(insn), memory = (uint32_t)(insn.word[0] >> 7 & 7);
    if (opcode == VTA_STORE) return STORE;
    return opcode == VTA_LOAD && (memory == VTA_INP || memory == VTA_WGT) ? LOAD : COMPUTE;
}

static uint32_t check_transfer(const vta_config *config, uint32_t opcode, const vta_transfer *t)
{
    if (opcode == VTA_LOAD && t->memory == VTA_ACC_8BIT && !config->acc_8bit) return VTA_BAD_MEMORY;
    if (opcode == VTA_LOAD)
        return t->memory > VTA_ACC_8BIT || t->memory == VTA_OUT ? VTA_BAD_MEMORY : VTA_OK;
    if (t->columns == 0) return VTA_OK; /* carries tokens only */
    if (t->memory != VTA_OUT) return VTA_BAD_MEMORY;
    return t->top || t->bottom || t->left || t->right ? VTA_PADDED_STORE : VTA_OK;
}

static void count_transfer(vta_counters *counters, const vta_config *config, uint32_t opcode,
                           const vta_transfer *t)
{
    const uint32_t memory = t->memory == VTA_ACC_8BIT ? (uint32_t)VTA_ACC : t->memory;
    const uint64_t elements = (uint64_t)t->rows * t->columns;
    if (elements == 0) return;
    const uint64_t bytes = elements * vta_element_bytes(config, memory);
    if (opcode == VTA_STORE)
        counters->out_store_bytes += bytes;
    else if (memory == VTA_UOP)
        counters->uop_load_bytes += bytes;
    else if (memory == VTA_WGT)
        counters->wgt_load_bytes += bytes;
    else if (memory == VTA_INP)
        counters->inp_load_bytes += bytes;
    else
        counters->acc_load_bytes += bytes;
}

static uint32_t admit(vta_program *program, vta_insn insn)
{
    const uint32_t opcode = vta_opcode(insn), tokens = vta_tokens(insn);
    const int queue = route(insn);
    if (opcode >= VTA_OPCODES) return VTA_BAD_OPCODE;
    program->counters.instructions[opcode]++;
    if (queue == LOAD && tokens & (VTA_POP_PREV | VTA_PUSH_PREV)) return VTA_FORBIDDEN_TOKEN;
    if (queue == STORE && tokens & (VTA_POP_NEXT | VTA_PUSH_NEXT)) return VTA_FORBIDDEN_TOKEN;
    if (opcode == VTA_LOAD || opcode == VTA_STORE) {
        const vta_transfer transfer = vta_decode_transfer(insn);
        count_transfer(&program->counters, &program->config, opcode, &transfer);
        return check_transfer(&program->config, opcode, &transfer);
    }
    if (opcode == VTA_FINISH) return VTA_OK;
    const vta_loop loop = vta_decode_loop(insn, &program->config);
    if (opcode == VTA_GEMM) {
        program->counters.gemm_steps += loop.reset ? 0 : vta_steps(&loop);
        return VTA_OK;
    }
    program->counters.alu_steps += vta_steps(&loop);
    const uint32_t last = program->config.alu_mul ? (uint32_t)VTA_MUL : (uint32_t)VTA_MUL - 1;
    return loop.operation > last ? VTA_BAD_ALU_OPCODE : VTA_OK;
}

static uint32_t fail(vta_fault *fault, uint32_t code, size_t instruction)
{
    fault->code = code;
    fault->instruction = (uint32_t)instruction;
    return code;
}

vta_program *vta_program_open(const vta_config *config, const void *insns, size_t count,
                              vta_fault *fault)
{
    vta_program *program = calloc(1, sizeof *program);
    fail(fault, VTA_NO_MEMORY, 0);
    if (program == NULL || count > UINT32_MAX) goto failed;
    program->config = *config;
    program->count = count;
    program->insns = malloc(count * sizeof *program->insns + 1);
    program->order = malloc(count * sizeof *program->order + 1);
    if (program->insns == NULL || program->order == NULL) goto failed;
    if (count) memcpy(program->insns, insns, count * sizeof *program->insns);
    for (size_t i = 0; i < count; i++) {
        program->order[i] = (uint32_t)i;
        if (fail(fault, admit(program, program->insns[i]), i)) goto failed;
    }
    fail(fault, VTA_OK, 0);
    return program;
failed:
    vta_program_close(program);
    return NULL;
}

void vta_program_close(vta_program *program)
{
    if (program == NULL) return;
    free(program->insns);
    free(program->order);
    free(program);
}

const uint32_t *vta_program_order(const vta_program *program) { return program->order; }
const vta_counters *vta_program_counters(const vta_program *program) { return &program->counters; }

/* Whether the head of a queue has all its tokens; they are taken all or none. */
static int is_ready(const vta_program *program, const queues *q, int queue)
{
    if (q->head[queue] == q->length[queue]) return 0;
    const uint32_t tokens = vta_tokens(program->insns[q->rows[queue][q->head[queue]]]);
    if (tokens & VTA_POP_PREV && !q->tokens[POPS[queue][0]]) return 0;
    return !(tokens & VTA_POP_NEXT) || q->tokens[POPS[queue][1]];
}

static uint32_t take_head(const vta_program *program, queues *q, int queue)
{
    const uint32_t index = q->rows[queue][q->head[queue]++];
    const uint32_t tokens = vta_tokens(program->insns[index]);
    if (tokens & VTA_POP_PREV) q->tokens[POPS[queue][0]]--;
    if (tokens & VTA_POP_NEXT) q->tokens[POPS[queue][1]]--;
    if (tokens & VTA_PUSH_PREV) q->tokens[PUSHES[queue][0]]++;
    if (tokens & VTA_PUSH_NEXT) q->tokens[PUSHES[queue][1]]++;
    return index;
}

/* Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014). token_order.py has it, too:
 * a seed means the same order there. */
static uint64_t split_mix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint32_t interleave(vta_program *program, queues *q, const uint64_t *seed)
{
    uint64_t state = seed ? *seed : 0;
    int current = 0;
    for (size_t done = 0; done < program->count; done++) {
        int ready[QUEUES], turns = 0;
        for (int next = 0; next < QUEUES; next++) {
            const int queue = (current + next) % QUEUES;
            if (is_ready(program, q, queue)) ready[turns++] = queue;
            if (turns && !seed) break;
        }
        if (!turns) return VTA_DEADLOCK;
        current = ready[seed ? split_mix(&state) % (uint64_t)turns : 0];
        program->order[done] = take_head(program, q, current);
    }
    return VTA_OK;
}

/* One FINISH that runs after all else. With balanced tokens, load and store are wholly ordered
 * before it exactly when their last instruction pushes to compute. */
static uint32_t check_end(const vta_program *program, const queues *q, vta_fault *fault)
{
    const uint32_t push[QUEUES] = {VTA_PUSH_NEXT, 0, VTA_PUSH_PREV};
    if (!program->counters.instructions[VTA_FINISH]) return fail(fault, VTA_NO_FINISH, 0);
    for (size_t at = 0; at + 1 < q->length[COMPUTE]; at++) {
        const uint32_t *rows = q->rows[COMPUTE];
        if (vta_opcode(program->insns[rows[at]]) == VTA_FINISH)
            return fail(fault, VTA_AFTER_FINISH, rows[at + 1]);
    }
    for (int fifo = 0; fifo < FIFOS; fifo++)
        if (q->tokens[fifo]) return fail(fault, VTA_TOKENS_LEFT, 0);
    for (int queue = LOAD; queue <= STORE; queue += STORE - LOAD) {
        if (!q->length[queue]) continue;
        const uint32_t last = q->rows[queue][q->length[queue] - 1];
        if (!(vta_tokens(program->insns[last]) & push[queue]))
            return fail(fault, VTA_NOT_BEFORE_FINISH, last);
    }
    return fail(fault, VTA_OK, 0);
}

uint32_t vta_program_schedule(vta_program *program, const uint64_t *seed, vta_fault *fault)
{
    uint32_t *rows = malloc(program->count * sizeof *rows + 1), code;
    queues q;
    if (rows == NULL) return fail(fault, VTA_NO_MEMORY, 0);
    memset(&q, 0, sizeof q);
    for (size_t i = 0; i < program->count; i++) q.length[route(program->insns[i])]++;
    size_t at[QUEUES] = {0, q.length[LOAD], q.length[LOAD] + q.length[COMPUTE]};
    for (int queue = 0; queue < QUEUES; queue++) q.rows[queue] = rows + at[queue];
    for (size_t i = 0; i < program->count; i++)
        rows[at[route(program->insns[i])]++] = (uint32_t)i;
    code = interleave(program, &q, seed);
    code = code ? fail(fault, code, 0) : check_end(program, &q, fault);
    free(rows);
    return code;
}
