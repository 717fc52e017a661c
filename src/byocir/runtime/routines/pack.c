#include "box.h"

/* numbers: open. The part at the start of an array: of each dimension whose bit is set the sizes are
   given, of the others all is taken. */
static int pack(const routine_in *in, const routine_out *out, const int64_t *numbers)
{
    int next = 1;
    for (int d = 0; d < in->rank; d++) {
        const int is_open = (int)(numbers[0] >> d & 1);
        out->shape[d] = is_open ? *(const int64_t *)in[next].data : in->shape[d];
        next += is_open;
    }
    copy_box(in->data, in->shape, out->data, out->shape, out->shape, in->rank,
             routine_size(in->type));
    return 0;
}
