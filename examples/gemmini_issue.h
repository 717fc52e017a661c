/* Issues a word of Gemmini's code: (funct, rs1, rs2). Moves name an array and a byte in it. */
#include "gemmini.h"

#define ISSUE(funct) ROCC_INSTRUCTION_RS1_RS2(XCUSTOM_ACC, rs1, rs2, funct)

static void gemmini_issue(const uint64_t *word, void *const *arrays)
{
    const int funct = (int)word[0];
    uint64_t rs1 = word[1], rs2 = word[2];
    if (funct == k_MVIN || funct == k_MVOUT)
        rs1 = (uintptr_t)arrays[(rs1 >> 32) - 1] + (uint32_t)rs1;
    switch (funct) { /* what an instruction is must be known to the assembler */
    case k_CONFIG: ISSUE(k_CONFIG); break;
    case k_MVIN: ISSUE(k_MVIN); break;
    case k_MVOUT: ISSUE(k_MVOUT); break;
    case k_PRELOAD: ISSUE(k_PRELOAD); break;
    case k_COMPUTE_PRELOADED: ISSUE(k_COMPUTE_PRELOADED); break;
    case k_COMPUTE_ACCUMULATE: ISSUE(k_COMPUTE_ACCUMULATE); break;
    default: gemmini_fence();
    }
}

static void gemmini_finish(void)
{
    gemmini_fence();
}
