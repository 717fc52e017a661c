/* A net of oneDNN primitives: built once, run many times. Values are numbers that the functions give;
   what follows a mistake does nothing, and dnnl_net_open gives its code. */
#ifndef DNNL_NET_H
#define DNNL_NET_H

#include <oneapi/dnnl/dnnl.h>

#if DNNL_VERSION_MAJOR < 3
#error "expected oneDNN 3 or newer"
#endif

typedef struct dnnl_net dnnl_net;
typedef void (*dnnl_net_builder)(dnnl_net *net, const unsigned char *data);

/* Makes a net; `build` calls the functions below. 0, what oneDNN gave, or that it would be wrong on
   this processor. */
#define DNNL_NET_NO_VNNI 100
#define DNNL_NET_NO_BF16 101
int dnnl_net_open(void **net, dnnl_net_builder build, const void *data, int threads);
int dnnl_net_run(void *net, const void *const *inputs, void *const *outputs);
void dnnl_net_close(void *net);

/* Arrays in row-major order: inputs and outputs come in the order of these calls. */
int dnnl_net_input(dnnl_net *n, dnnl_data_type_t type, int rank, const dnnl_dims_t dims);
int dnnl_net_constant(dnnl_net *n, dnnl_data_type_t type, int rank, const dnnl_dims_t dims,
                      const void *data);
void dnnl_net_output(dnnl_net *n, int x);

/* The same elements in another shape, or with dimension i at the place permutation[i]. */
int dnnl_net_reshape(dnnl_net *n, int x, int rank, const dnnl_dims_t dims);
int dnnl_net_transpose(dnnl_net *n, int x, const int *permutation);

/* What the next primitive does with each element of its result, in order. The value that is added
   becomes the result's place if nothing reads it later; it is as many bytes. */
void dnnl_net_then(dnnl_net *n, dnnl_alg_kind_t alg, float alpha, float beta);
void dnnl_net_then_with(dnnl_net *n, dnnl_alg_kind_t alg, int value);
void dnnl_net_then_add(dnnl_net *n, int value, float scale, int is_read_later);

/* What the next primitive takes off each element that it reads, also where it reads pads: a value
   of one s32. */
void dnnl_net_zero_point(dnnl_net *n, int value);

/* Primitives; `bias` may be DNNL_NET_NONE. */
#define DNNL_NET_NONE (-1)
int dnnl_net_conv(dnnl_net *n, int x, int weights, int bias, dnnl_data_type_t type, int rank,
                  const dnnl_dims_t dims, const dnnl_dims_t strides, const dnnl_dims_t dilations,
                  const dnnl_dims_t begins, const dnnl_dims_t ends);
int dnnl_net_matmul(dnnl_net *n, int x, int weights, dnnl_data_type_t type, int rank,
                    const dnnl_dims_t dims);
int dnnl_net_pool(dnnl_net *n, int x, dnnl_alg_kind_t alg, int rank, const dnnl_dims_t dims,
                  const dnnl_dims_t strides, const dnnl_dims_t kernel,
                  const dnnl_dims_t dilations, const dnnl_dims_t begins, const dnnl_dims_t ends);
int dnnl_net_eltwise(dnnl_net *n, int x, dnnl_alg_kind_t alg, float alpha, float beta);
int dnnl_net_binary(dnnl_net *n, int x, int y, dnnl_alg_kind_t alg, dnnl_data_type_t type,
                    int rank, const dnnl_dims_t dims);
/* Bytes to floats: `scale` is a value of one f32, `zero_point` of one s32. */
int dnnl_net_dequantize(dnnl_net *n, int x, int scale, int zero_point);
int dnnl_net_softmax(dnnl_net *n, int x, dnnl_alg_kind_t alg, int axis);
int dnnl_net_layer_norm(dnnl_net *n, int x, int scale, int shift, float epsilon);
int dnnl_net_concat(dnnl_net *n, int count, const int *parts, int axis);

#endif
