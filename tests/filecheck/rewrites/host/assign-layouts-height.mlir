// RUN: byocir-opt --no-debuginfo -p 'convert-graph-to-tir,assign-layouts{frames=copied least=1 height=true},order-weights' %s | filecheck %s

// A convolution of one dimension and what follows it get a height of 1; windows and weights have an
// iterator over it.

func.func @main(%x: tensor<1x3x6xf32>) -> tensor<1x8x3xf32> {
  %w = graph.constant #graph.array<[1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9,
    1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9,
    1, 2, 3, 4, 5, 6, 7, 8, 9] : tensor<8x3x3xf32>>
  %0 = graph.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, group = 1 : i64}
    : (tensor<1x3x6xf32>, tensor<8x3x3xf32>) -> tensor<1x8x6xf32>
  %1 = graph.relu %0 : (tensor<1x8x6xf32>) -> tensor<1x8x6xf32>
  %2 = graph.max_pool %1 {kernel_shape = array<i64: 2>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = 0 : i64}
    : (tensor<1x8x6xf32>) -> tensor<1x8x3xf32>
  func.return %2 : tensor<1x8x3xf32>
}

// CHECK:      %[[X:.*]] = tir.block [i0: 1, i1: 6, i2: 3] ins(%x[i0, i2, i1] : {{.*}}) outs(%{{.*}}[i0, 0, i1 + 1, i2] : tensor<1x1x8x3xf32>)
// CHECK:      %[[W:.*]] = tir.constant {{.*}} : tensor<3x1x3x8xf32>
// CHECK:      %[[Y:.*]] = tir.block [n: 1, h0: 1, h: 6, o: 8 | c: 3, r0: 1, r: 3] ins(%[[X]][n, h0 + r0, h + r, c] : {{.*}}, %[[W]][c, r0, r, o] :
// CHECK-SAME:   outs(%{{.*}}[n, h0, h, o] : tensor<1x1x6x8xf32>)
// CHECK:      %[[R:.*]] = tir.block [i0: 1, h0: 1, i2: 6, i1: 8] ins(%[[Y]][i0, h0, i2, i1] :
// CHECK:      %[[P:.*]] = tir.block [n: 1, h0: 1, h: 3, c: 8 | r0: 1, r: 2] ins(%[[R]][n, h0 + r0, 2 * h + r, c] :
// CHECK:      tir.block [i0: 1, i1: 8, i2: 3] ins(%[[P]][i0, 0, i2, i1] : {{.*}}) outs(%{{.*}}[i0, i1, i2] : tensor<1x8x3xf32>)
// CHECK-NOT:  tir.block
