#include "routine.h"

/* numbers: count. The size to which some sizes broadcast. */
static int joint_size(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    int64_t joint = 1;
    for (int64_t i = 0; i < numbers[0]; i++) {
        const int64_t size = *(const int64_t *)in[i].data;
        if (size == 1 || size == joint) continue;
        if (joint != 1) return ROUTINE_UNFIT;
        joint = size;
    }
    *(int64_t *)out->data = joint;
    return 0;
}
