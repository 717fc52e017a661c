/* The rival in vta_sim.py: VTA's default config as plain scalar loops, in stream order, no checks. */
#include <stdint.h>
#include <string.h>

static uint32_t uop[8192];
static int8_t inp[2048][16], wgt[1024][16][16];
static int32_t acc[2048][16];

static uint32_t take(uint64_t *word, int width)
{
    uint32_t value = (uint32_t)(*word & ((1ull << width) - 1));
    *word >>= width;
    return value;
}

static void transfer(uint64_t low, uint64_t high, uint8_t *dram, int store)
{
    uint32_t memory = take(&low, 3), sram = take(&low, 16);
    uint64_t base = take(&low, 32);
    uint32_t rows = take(&high, 16), columns = take(&high, 16), stride = take(&high, 16);
    uint8_t *out[] = {(uint8_t *)uop, (uint8_t *)wgt, (uint8_t *)inp, (uint8_t *)acc};
    const uint32_t bytes[] = {4, 256, 16, 64};
    for (uint32_t y = 0; y < rows; y++)
        for (uint32_t x = 0; x < columns; x++) {
            uint64_t from = base + y * stride + x;
            uint32_t to = sram + y * columns + x;
            if (store)
                for (int k = 0; k < 16; k++) dram[from * 16 + k] = (uint8_t)acc[to][k];
            else if (memory == 5)
                for (int k = 0; k < 16; k++) acc[to][k] = (int8_t)dram[from * 16 + k];
            else
                memcpy(out[memory] + to * bytes[memory], dram + from * bytes[memory], bytes[memory]);
        }
}

static void gemm(int32_t *a, const int8_t *x, int8_t (*w)[16])
{
    for (int o = 0; o < 16; o++) {
        int32_t sum = a[o];
        for (int k = 0; k < 16; k++) sum += x[k] * w[o][k];
        a[o] = sum;
    }
}

static void alu(int32_t *a, const int32_t *b, uint32_t operation, int use_imm, int32_t imm)
{
    for (int k = 0; k < 16; k++) {
        int32_t x = a[k], y = use_imm ? imm : b[k];
        switch (operation) {
        case 0: a[k] = x < y ? x : y; break;
        case 1: a[k] = x > y ? x : y; break;
        case 2: a[k] = (int32_t)((uint32_t)x + (uint32_t)y); break;
        case 3: a[k] = y >= 0 ? x >> y : (int32_t)((uint32_t)x << -y); break;
        default: a[k] = (int32_t)((uint32_t)x * (uint32_t)y);
        }
    }
}

static void nest(uint64_t low, uint64_t high, int is_gemm)
{
    take(&low, 1);
    uint32_t begin = take(&low, 13), end = take(&low, 14), outer = take(&low, 14);
    uint32_t inner = take(&low, 14), d0 = take(&high, 11), d1 = take(&high, 11);
    uint32_t s0 = take(&high, 11), s1 = take(&high, 11);
    uint64_t rest = high;
    uint32_t w0 = take(&high, 10), w1 = take(&high, 10);
    uint32_t operation = take(&rest, 3), use_imm = take(&rest, 1);
    int32_t imm = (int16_t)take(&rest, 16);
    for (uint32_t i = 0; i < outer; i++)
        for (uint32_t j = 0; j < inner; j++)
            for (uint32_t u = begin; u < end; u++) {
                uint32_t d = (uop[u] & 2047) + i * d0 + j * d1;
                uint32_t s = (uop[u] >> 11 & 2047) + i * s0 + j * s1;
                uint32_t w = (uop[u] >> 22) + i * w0 + j * w1;
                if (is_gemm)
                    gemm(acc[d], inp[s], wgt[w]);
                else
                    alu(acc[d], acc[s], operation, (int)use_imm, imm);
            }
}

void vta_scalar_run(const uint64_t *insns, uint64_t count, uint8_t *dram)
{
    memset(acc, 0, sizeof acc);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t low = insns[2 * i], high = insns[2 * i + 1];
        int opcode = (int)(low & 7);
        if (opcode == 0 || opcode == 1)
            transfer(low >> 7, high, dram, opcode);
        else if (opcode == 2 || opcode == 4)
            nest(low >> 7, high, opcode == 2);
    }
}
