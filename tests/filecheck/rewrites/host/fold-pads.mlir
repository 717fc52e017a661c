// RUN: byocir-opt --no-debuginfo -p convert-graph-to-tir,fold-pads %s | filecheck %s
// RUN: byocir-opt --no-debuginfo -p convert-graph-to-tir,fold-pads,assign-layouts %s | filecheck --check-prefix=LAYOUT %s

// A convolution reads what is around its input itself; then that is stored around the input.

func.func @main(%x: tensor<1x4x6x6xi8>) -> tensor<1x4x6x6xi32> {
  %w = graph.constant #graph.array<"w" : tensor<4x4x3x3xi8>>
  %0 = graph.pad %x {pads = array<i64: 0, 0, 1, 1, 0, 0, 1, 1>, mode = "constant", value = #graph.array<[-5] : tensor<i8>>} : (tensor<1x4x6x6xi8>) -> tensor<1x4x8x8xi8>
  %1 = graph.conv %0, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xi8>, tensor<4x4x3x3xi8>) -> tensor<1x4x6x6xi32>
  func.return %1 : tensor<1x4x6x6xi32>
}

// CHECK-NOT:  tensor<1x4x8x8xi8>
// CHECK:      tir.block [n: 1, o: 4, h: 6, w: 6 | c: 4, r: 3, s: 3] ins(%x[n, c, h + r - 1, w + s - 1] pad -5

// LAYOUT:     %[[F:.*]] = tir.fill -5 : i8 : tensor<1x8x8x4xi8>
// LAYOUT:     tir.block {{.*}} outs(%[[F]][i0, i1 + 1, i2 + 1, i3] : tensor<1x8x8x4xi8>)
