// RUN: byocir-opt --no-debuginfo -p 'fix-point{rounding=float_scale}' %s | filecheck %s

// The quotient of the two scales, rounded to f32 once.
// CHECK-LABEL:   func.func @one_scale
// CHECK:         graph.constant #graph.array<[0.10000000149011612] : tensor<f32>>
// CHECK:         graph.requantize %x, %{{.*}} {rounding = #graph.float_half_even} : (tensor<4xi32>, tensor<f32>) -> tensor<4xi8>
func.func @one_scale(%x: tensor<4xi32>) -> tensor<4xi8> {
  %a = graph.constant #graph.array<[0.05] : tensor<f32>>
  %b = graph.constant #graph.array<[0.5] : tensor<f32>>
  %0 = graph.requantize %x, %a, %b {rounding = #graph.float_half_even, to = i8} : (tensor<4xi32>, tensor<f32>, tensor<f32>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}

// Terms are rounded on the grid of the sum, where they fit into its bytes.
// CHECK-LABEL:   func.func @sum
// CHECK:         graph.requantize %x, %{{.*}} {rounding = #graph.float_half_even} : (tensor<4xi8>, tensor<f32>) -> tensor<4xi8>
// CHECK:         graph.cast
// CHECK:         graph.requantize %y, %{{.*}} {rounding = #graph.float_half_even} : (tensor<4xi8>, tensor<f32>) -> tensor<4xi8>
// CHECK:         graph.cast
// CHECK:         graph.add {{.*}} -> tensor<4xi32>
// CHECK:         graph.requantize {{.*}} (tensor<4xi32>, tensor<f32>) -> tensor<4xi8>
// CHECK-NOT:     graph.quantize
func.func @sum(%x: tensor<4xi8>, %y: tensor<4xi8>) -> tensor<4xi8> {
  %a = graph.constant #graph.array<[0.05] : tensor<f32>>
  %b = graph.constant #graph.array<[0.5] : tensor<f32>>
  %zero = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %a, %zero {axis = 0 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.dequantize %y, %b, %zero {axis = 0 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %2 = graph.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.quantize %2, %b, %zero {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  func.return %3 : tensor<4xi8>
}

// A term on a wider grid than that of the sum would saturate alone: it stays in float.
// CHECK-LABEL:   func.func @saturates
// CHECK:         graph.quantize
func.func @saturates(%x: tensor<4xi8>, %y: tensor<4xi8>) -> tensor<4xi8> {
  %a = graph.constant #graph.array<[0.05] : tensor<f32>>
  %b = graph.constant #graph.array<[0.5] : tensor<f32>>
  %zero = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %a, %zero {axis = 0 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.dequantize %y, %b, %zero {axis = 0 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %2 = graph.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.quantize %2, %a, %zero {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  func.return %3 : tensor<4xi8>
}
