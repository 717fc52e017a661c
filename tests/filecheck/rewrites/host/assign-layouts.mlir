// RUN: byocir-opt -p convert-graph-to-tir,assign-layouts %s | filecheck %s

// Channels are last from the first convolution to the end; what the second one reads around its
// input is stored there by the block before it, and windows need no pad.

func.func @main(%x: tensor<1x3x6x6xf32>) -> tensor<1x8x6x6xf32> {
  %w = graph.constant #graph.array<"w" : tensor<8x3x1x1xf32>>
  %v = graph.constant #graph.array<"v" : tensor<8x8x3x3xf32>>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64}
    : (tensor<1x3x6x6xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x6x6xf32>
  %1 = graph.relu %0 : (tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>
  %2 = graph.conv %1, %v {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, group = 1 : i64}
    : (tensor<1x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x6x6xf32>
  func.return %2 : tensor<1x8x6x6xf32>
}

// CHECK:      %[[X:.*]] = tir.block [i0: 1, i1: 6, i2: 6, i3: 3] ins(%x[i0, i3, i1, i2] :
// CHECK:      %[[A:.*]] = tir.block [n: 1, h: 6, w: 6, o: 8 | c: 3, r: 1, s: 1] ins(%[[X]][n, h + r, w + s, c] :
// CHECK-SAME:   outs(%{{.*}}[n, h, w, o] : tensor<1x6x6x8xf32>)
// CHECK:      %[[Z:.*]] = tir.fill 0.000000e+00 : f32 : tensor<1x8x8x8xf32>
// CHECK:      %[[B:.*]] = tir.block [i0: 1, i2: 6, i3: 6, i1: 8] ins(%[[A]][i0, i2, i3, i1] :
// CHECK-SAME:   outs(%[[Z]][i0, i2 + 1, i3 + 1, i1] : tensor<1x8x8x8xf32>)
// CHECK:      %[[C:.*]] = tir.block [n: 1, h: 6, w: 6, o: 8 | c: 8, r: 3, s: 3] ins(%[[B]][n, h + r, w + s, c] : tensor<1x8x8x8xf32>,
// CHECK-NOT:  pad
// CHECK:      tir.block [i0: 1, i1: 8, i2: 6, i3: 6] ins(%[[C]][i0, i2, i3, i1] :
// CHECK-SAME:   outs(%{{.*}}[i0, i1, i2, i3] : tensor<1x8x6x6xf32>)
// CHECK-NOT:  tir.block
