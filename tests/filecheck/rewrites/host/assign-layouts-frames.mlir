// RUN: byocir-opt --no-debuginfo -p 'convert-graph-to-tir,assign-layouts{frames=read}' %s | filecheck %s
// RUN: byocir-opt --no-debuginfo -p 'convert-graph-to-tir,assign-layouts{frames=zeros}' %s | filecheck --check-prefix=ZEROS %s

// Where all numbers around images are loaded, windows read past the copy that puts one there.

func.func @main(%x: tensor<1x4x6x6xi8>) -> tensor<1x4x6x6xi32> {
  %v = graph.constant #graph.array<"v" : tensor<4x4x1x1xi8>>
  %w = graph.constant #graph.array<"w" : tensor<4x4x3x3xi8>>
  %0 = graph.conv %x, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x6x6xi8>, tensor<4x4x1x1xi8>) -> tensor<1x4x6x6xi32>
  %1 = graph.cast %0 {to = i8} : (tensor<1x4x6x6xi32>) -> tensor<1x4x6x6xi8>
  %2 = graph.pad %1 {pads = array<i64: 0, 0, 1, 1, 0, 0, 1, 1>, mode = "constant", value = #graph.array<[-5] : tensor<i8>>} : (tensor<1x4x6x6xi8>) -> tensor<1x4x8x8xi8>
  %3 = graph.conv %2, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xi8>, tensor<4x4x3x3xi8>) -> tensor<1x4x6x6xi32>
  func.return %3 : tensor<1x4x6x6xi32>
}

// CHECK-NOT:  tensor<1x8x8x4xi8>
// CHECK:      tir.block [n: 1, h: 6, w: 6, o: 4 | r: 3, s: 3, c: 4] ins(%{{.*}}[n, h + r - 1, w + s - 1, c] pad -5

// ZEROS:      pad -5 {{.*}} tensor<1x8x8x4xi8>
// ZEROS:      ins(%{{.*}}[n, h + r, w + s, c] : tensor<1x8x8x4xi8>
