// RUN: byocir-opt --no-debuginfo -p qdq-to-integer %s | filecheck %s

// The input's zero point stands around it where the convolution is padded, and what it brings into
// the sums, 3 * (2 + 3), is taken off; the weight's zero point is taken off the
// weight; that of the result is added to what is rounded.

// CHECK-LABEL: @asymmetric
// CHECK:         %[[P:.*]] = graph.pad %x {pads = array<i64: 0, 0, 1, 1, 0, 0, 1, 1>, mode = "constant", value = #graph.array<[3] : tensor<ui8>>}
// CHECK:         %[[W:.*]] = graph.constant #graph.array<[2, 3] : tensor<1x2x1x1xi8>>
// CHECK:         %[[B:.*]] = graph.constant #graph.array<[-15] : tensor<1xi32>>
// CHECK:         %[[A:.*]] = graph.conv %[[P]], %[[W]], %[[B]] {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
// CHECK:         graph.requantize %[[A]], {{.*}}zero_point = -7
func.func @asymmetric(%x: tensor<1x2x2x2xui8>) -> tensor<1x1x2x2xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %zx = graph.constant #graph.array<[3] : tensor<ui8>>
  %zw = graph.constant #graph.array<[-1] : tensor<i8>>
  %zy = graph.constant #graph.array<[-7] : tensor<i8>>
  %w = graph.constant #graph.array<[1, 2] : tensor<1x2x1x1xi8>>
  %0 = graph.dequantize %x, %s, %zx {axis = 1 : i64} : (tensor<1x2x2x2xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x2x2x2xf32>
  %1 = graph.dequantize %w, %s, %zw {axis = 1 : i64} : (tensor<1x2x1x1xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x1x1xf32>
  %2 = graph.conv %0, %1 {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x2x2xf32>, tensor<1x2x1x1xf32>) -> tensor<1x1x2x2xf32>
  %3 = graph.quantize %2, %s, %zy {axis = 1 : i64} : (tensor<1x1x2x2xf32>, tensor<f32>, tensor<i8>) -> tensor<1x1x2x2xi8>
  func.return %3 : tensor<1x1x2x2xi8>
}
