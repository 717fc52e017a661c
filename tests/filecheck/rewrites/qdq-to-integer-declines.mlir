// RUN: byocir-opt --no-debuginfo -p qdq-to-integer %s | filecheck %s

// A residual add rounds once, in float: it stays.
// CHECK-LABEL: @residual_add
// CHECK:         graph.add %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    graph.quantize
func.func @residual_add(%x: tensor<4xi8>, %y: tensor<4xi8>) -> tensor<4xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.dequantize %y, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %2 = graph.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.quantize %2, %s, %z {axis = 1 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  func.return %3 : tensor<4xi8>
}

// A zero point whose weight is no constant stays in float.
// CHECK-LABEL: @asymmetric
// CHECK:         graph.matmul %{{.*}} -> tensor<2x2xf32>
func.func @asymmetric(%x: tensor<2x2xi8>, %y: tensor<2x2xi8>) -> tensor<2x2xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %a = graph.constant #graph.array<[3] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %a {axis = 1 : i64} : (tensor<2x2xi8>, tensor<f32>, tensor<i8>) -> tensor<2x2xf32>
  %1 = graph.dequantize %y, %s, %z {axis = 1 : i64} : (tensor<2x2xi8>, tensor<f32>, tensor<i8>) -> tensor<2x2xf32>
  %2 = graph.matmul %0, %1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = graph.quantize %2, %s, %z {axis = 1 : i64} : (tensor<2x2xf32>, tensor<f32>, tensor<i8>) -> tensor<2x2xi8>
  func.return %3 : tensor<2x2xi8>
}

// The bias is on another grid than the products.
// CHECK-LABEL: @bias_on_another_grid
// CHECK:         graph.matmul %{{.*}} -> tensor<2x2xf32>
func.func @bias_on_another_grid(%x: tensor<2x2xi8>, %y: tensor<2x2xi8>) -> tensor<2x2xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %b = graph.constant #graph.array<[1, 2] : tensor<2xi32>>
  %sb = graph.constant #graph.array<[0.2501] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %zb = graph.constant #graph.array<[0] : tensor<i32>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<2x2xi8>, tensor<f32>, tensor<i8>) -> tensor<2x2xf32>
  %1 = graph.dequantize %y, %s, %z {axis = 1 : i64} : (tensor<2x2xi8>, tensor<f32>, tensor<i8>) -> tensor<2x2xf32>
  %2 = graph.matmul %0, %1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = graph.dequantize %b, %sb, %zb {axis = 1 : i64} : (tensor<2xi32>, tensor<f32>, tensor<i32>) -> tensor<2xf32>
  %4 = graph.add %2, %3 : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %5 = graph.quantize %4, %s, %z {axis = 1 : i64} : (tensor<2x2xf32>, tensor<f32>, tensor<i8>) -> tensor<2x2xi8>
  func.return %5 : tensor<2x2xi8>
}

// The float sum is used elsewhere: computing both would be more work, not less.
// CHECK-LABEL: @float_result_used
// CHECK:         graph.matmul %{{.*}} -> tensor<2x2xf32>
func.func @float_result_used(%x: tensor<2x2xi8>, %y: tensor<2x2xi8>) -> (tensor<2x2xi8>, tensor<2x2xf32>) {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<2x2xi8>, tensor<f32>, tensor<i8>) -> tensor<2x2xf32>
  %1 = graph.dequantize %y, %s, %z {axis = 1 : i64} : (tensor<2x2xi8>, tensor<f32>, tensor<i8>) -> tensor<2x2xf32>
  %2 = graph.matmul %0, %1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = graph.quantize %2, %s, %z {axis = 1 : i64} : (tensor<2x2xf32>, tensor<f32>, tensor<i8>) -> tensor<2x2xi8>
  func.return %3, %2 : tensor<2x2xi8>, tensor<2x2xf32>
}

// Scales that are arguments say nothing yet.
// CHECK-LABEL: @scale_is_an_argument
// CHECK:         graph.dequantize
// CHECK-NEXT:    graph.quantize
func.func @scale_is_an_argument(%x: tensor<4xi8>, %s: tensor<f32>) -> tensor<4xi8> {
  %t = graph.constant #graph.array<[0.25] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.quantize %0, %t, %z {axis = 1 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  func.return %1 : tensor<4xi8>
}
