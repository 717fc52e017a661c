#include "routine.h"

/* The boxes of an image: corners, or centers and sizes, and the score of each for one class. */
typedef struct nms_boxes {
    const float *boxes, *scores;
    int center;
} nms_boxes;

/* The least and the greatest of both coordinates of a box. */
static void nms_corners(const nms_boxes *of, int64_t index, float corners[4])
{
    const float *const box = of->boxes + 4 * index;
    for (int i = 0; i < 2; i++) {
        const float a = box[i], b = box[i + 2], half = b / 2.0f;
        corners[i] = of->center ? a - half : a < b ? a : b;
        corners[i + 2] = of->center ? a + half : a < b ? b : a;
    }
}

/* Whether two boxes share more than this part of what they cover together. */
static int nms_overlap(const nms_boxes *of, int64_t i, int64_t j, float most)
{
    float a[4], b[4], sizes[2];
    nms_corners(of, i, a);
    nms_corners(of, j, b);
    for (int d = 0; d < 2; d++) {
        const float low = a[d] > b[d] ? a[d] : b[d];
        const float high = a[d + 2] < b[d + 2] ? a[d + 2] : b[d + 2];
        if (!(high > low)) return 0;
        sizes[d] = high - low;
    }
    const float shared = sizes[0] * sizes[1];
    const float first = (a[2] - a[0]) * (a[3] - a[1]), second = (b[2] - b[0]) * (b[3] - b[1]);
    const float both = first + second - shared;
    return shared > 0.0f && first > 0.0f && second > 0.0f && both > 0.0f && shared / both > most;
}

/* Whether box `i` comes before box `j`: the greater score, of equal ones the first. */
static int nms_before(const nms_boxes *of, int64_t i, int64_t j)
{
    return of->scores[i] == of->scores[j] ? i < j : of->scores[i] > of->scores[j];
}

/* Puts a box into a heap of `count`, whose last in order is on top, from a free place down. */
static void nms_sink(const nms_boxes *of, int64_t *heap, int64_t count, int64_t place, int64_t box)
{
    for (int64_t child = 2 * place + 1; child < count; child = 2 * place + 1) {
        if (child + 1 < count && nms_before(of, heap[child], heap[child + 1])) child++;
        if (!nms_before(of, box, heap[child])) break;
        heap[place] = heap[child];
        place = child;
    }
    heap[place] = box;
}

static void nms_sort(const nms_boxes *of, int64_t *order, int64_t count)
{
    for (int64_t i = count / 2 - 1; i >= 0; i--) nms_sink(of, order, count, i, order[i]);
    for (int64_t left = count - 1; left > 0; left--) {
        const int64_t last = order[0];
        nms_sink(of, order, left, 0, order[left]);
        order[left] = last;
    }
}

/* numbers: center, least. Of boxes [batches, boxes, 4] and scores [batches, classes, boxes], by
   class, those of the greatest scores that overlap no better one by more than a threshold: [batch,
   class, box]. Then come the most boxes of a class, that threshold, and the score that they must
   exceed, which counts if `least` is 1. The second result is memory to work in. */
static int non_max_suppression(const routine_in *in, const routine_out *out,
                               const int64_t *numbers)
{
    const int64_t batches = in[1].shape[0], classes = in[1].shape[1], boxes = in[1].shape[2];
    const int64_t most = *(const int64_t *)in[2].data;
    const float overlap = *(const float *)in[3].data, least = *(const float *)in[4].data;
    int64_t *const found = out->data, *const order = out[1].data;
    int64_t count = 0;
    for (int64_t group = 0; group < batches * classes; group++) {
        const nms_boxes of = {(const float *)in->data + group / classes * boxes * 4,
                              (const float *)in[1].data + group * boxes, (int)numbers[0]};
        const int64_t start = count;
        int64_t candidates = 0;
        for (int64_t i = 0; i < boxes; i++)
            if (numbers[1] ? of.scores[i] > least : of.scores[i] == of.scores[i])
                order[candidates++] = i;
        nms_sort(&of, order, candidates);
        for (int64_t i = 0; i < candidates && count - start < most; i++) {
            int64_t other = start;
            while (other < count && !nms_overlap(&of, order[i], found[3 * other + 2], overlap))
                other++;
            if (other < count) continue;
            found[3 * count] = group / classes;
            found[3 * count + 1] = group % classes;
            found[3 * count + 2] = order[i];
            count++;
        }
    }
    for (int64_t i = 0; i < boxes; i++) order[i] = 0;
    out->shape[0] = count;
    out->shape[1] = 3;
    return 0;
}
