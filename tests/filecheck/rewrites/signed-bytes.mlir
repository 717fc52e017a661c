// RUN: byocir-opt --no-debuginfo -p signed-bytes,clean-up %s | filecheck %s

// What is quantised is signed, with a zero point that is 128 less, and dequantised so.
// CHECK-LABEL: @inside
// CHECK:         %[[Z:.*]] = graph.constant #graph.array<[-125] : tensor<i8>>
// CHECK:         %[[Q:.*]] = graph.quantize %x, %{{.*}}, %[[Z]] {{.*}} -> tensor<1x4xi8>
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %[[Q]] {shape = array<i64: 4, 1>} : (tensor<1x4xi8>) -> tensor<4x1xi8>
// CHECK:         graph.dequantize %[[R]], {{.*}} : (tensor<4x1xi8>, tensor<f32>, tensor<i8>)
func.func @inside(%x: tensor<1x4xf32>) -> tensor<4x1xf32> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[3] : tensor<ui8>>
  %0 = graph.quantize %x, %s, %z {axis = 1 : i64} : (tensor<1x4xf32>, tensor<f32>, tensor<ui8>) -> tensor<1x4xui8>
  %1 = graph.reshape %0 {shape = array<i64: 4, 1>} : (tensor<1x4xui8>) -> tensor<4x1xui8>
  %2 = graph.dequantize %1, %s, %z {axis = 1 : i64} : (tensor<4x1xui8>, tensor<f32>, tensor<ui8>) -> tensor<4x1xf32>
  func.return %2 : tensor<4x1xf32>
}

// At the borders 128 is taken off and added, and nothing else happens.
// CHECK-LABEL: @borders
// CHECK:         %[[X:.*]] = graph.requantize %x, %{{.*}}rounding = #graph.fixed<shift = 0, half_up>, zero_point = -128 : i64} : (tensor<4xui8>, tensor<i32>) -> tensor<4xi8>
// CHECK:         graph.dequantize %[[X]]
// CHECK:         %[[Q:.*]] = graph.quantize
// CHECK:         graph.requantize %[[Q]], %{{.*}}zero_point = 128 : i64} : (tensor<4xi8>, tensor<i32>) -> tensor<4xui8>
func.func @borders(%x: tensor<4xui8>) -> tensor<4xui8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<ui8>>
  %0 = graph.dequantize %x, %s, %z {axis = 0 : i64} : (tensor<4xui8>, tensor<f32>, tensor<ui8>) -> tensor<4xf32>
  %1 = graph.abs %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.quantize %1, %s, %z {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<ui8>) -> tensor<4xui8>
  func.return %2 : tensor<4xui8>
}

// Weights are other numbers, for one zero point or one for each channel.
// CHECK-LABEL: @weights
// CHECK:         graph.constant #graph.array<[-127, 0, 1] : tensor<3xi8>>
// CHECK:         graph.constant #graph.array<[-128, 0, 127] : tensor<3xi8>>
// CHECK-NOT:     ui8
func.func @weights() -> tensor<3xf32> {
  %w = graph.constant #graph.array<[0, 128, 255] : tensor<3xui8>>
  %s = graph.constant #graph.array<[0.5, 0.25, 1.0] : tensor<3xf32>>
  %z = graph.constant #graph.array<[1, 128, 129] : tensor<3xui8>>
  %0 = graph.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<3xui8>, tensor<3xf32>, tensor<3xui8>) -> tensor<3xf32>
  func.return %0 : tensor<3xf32>
}
