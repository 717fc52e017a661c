// RUN: byocir-opt --no-debuginfo -p unsigned-bytes,clean-up %s | filecheck %s

// What follows a relu, with zero point -128, is unsigned, without a zero point.
// CHECK-LABEL: @inside
// CHECK:         %[[Z:.*]] = graph.constant #graph.array<[0] : tensor<ui8>>
// CHECK:         %[[Q:.*]] = graph.quantize %x, %{{.*}}, %[[Z]] {{.*}} -> tensor<1x4xui8>
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %[[Q]] {shape = array<i64: 4, 1>} : (tensor<1x4xui8>) -> tensor<4x1xui8>
// CHECK:         graph.dequantize %[[R]], {{.*}} : (tensor<4x1xui8>, tensor<f32>, tensor<ui8>)
func.func @inside(%x: tensor<1x4xf32>) -> tensor<4x1xf32> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[-128] : tensor<i8>>
  %0 = graph.quantize %x, %s, %z {axis = 1 : i64} : (tensor<1x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x4xi8>
  %1 = graph.reshape %0 {shape = array<i64: 4, 1>} : (tensor<1x4xi8>) -> tensor<4x1xi8>
  %2 = graph.dequantize %1, %s, %z {axis = 1 : i64} : (tensor<4x1xi8>, tensor<f32>, tensor<i8>) -> tensor<4x1xf32>
  func.return %2 : tensor<4x1xf32>
}

// What would have a zero point then, what comes in or goes out, and weights stay as they are.
// CHECK-LABEL: @stays
// CHECK-NOT:     ui8
// CHECK:         func.return
func.func @stays(%x: tensor<4xf32>, %y: tensor<4xi8>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi8>, tensor<4xf32>) {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[-128] : tensor<i8>>
  %other = graph.constant #graph.array<[-127] : tensor<i8>>
  %0 = graph.quantize %x, %s, %other {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  %1 = graph.dequantize %0, %s, %other {axis = 0 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %2 = graph.dequantize %y, %s, %z {axis = 0 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %3 = graph.quantize %x, %s, %z {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  %w = graph.constant #graph.array<[-128, 0, 1, 127] : tensor<4xi8>>
  %4 = graph.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  func.return %1, %2, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xi8>, tensor<4xf32>
}
