// RUN: byocir-opt --no-debuginfo -p 'convert-graph-to-tir,assign-layouts{frames=copied pools=true}' %s | filecheck %s

// A pool that follows no convolution has channels last, and reads around its image as before.

func.func @main(%x: tensor<1x3x6x6xi8>) -> tensor<1x3x3x3xi8> {
  %0 = graph.max_pool %x {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64}
    : (tensor<1x3x6x6xi8>) -> tensor<1x3x3x3xi8>
  func.return %0 : tensor<1x3x3x3xi8>
}

// CHECK:      %[[X:.*]] = tir.block [i0: 1, i1: 6, i2: 6, i3: 3] ins(%x[i0, i3, i1, i2] :
// CHECK:      %[[P:.*]] = tir.block [n: 1, h: 3, w: 3, c: 3 | r: 3, s: 3] ins(%[[X]][n, 2 * h + r - 1, 2 * w + s - 1, c] pad -128 : i8 : tensor<1x6x6x3xi8>)
// CHECK-SAME:   outs(%{{.*}}[n, h, w, c] : tensor<1x3x3x3xi8>)
// CHECK:      tir.block [i0: 1, i1: 3, i2: 3, i3: 3] ins(%[[P]][i0, i2, i3, i1] :
// CHECK-NOT:  tir.block
