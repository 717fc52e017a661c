#include "routine.h"

/* numbers: count. Where the elements of a dimension of one size are that becomes one of another: the
   same place, or always the first. What is beyond both is any place inside. */
static int stretch(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    const int64_t own = *(const int64_t *)in[0].data, joint = *(const int64_t *)in[1].data;
    const int64_t last = own == 1 && joint != 1 ? 0 : own - 1;
    int64_t *const places = out->data;
    for (int64_t i = 0; i < numbers[0]; i++) places[i] = i < last ? i : (last > 0 ? last : 0);
    return 0;
}
