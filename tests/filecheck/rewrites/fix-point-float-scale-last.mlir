// RUN: byocir-opt --no-debuginfo -p 'fix-point{rounding=float_scale_last}' %s | filecheck %s

// The zero point, -100 / 0.008, joins the bias, and nothing is added behind the scale.
// CHECK-LABEL:   func.func @product
// CHECK:         %[[BIAS:.*]] = graph.constant #graph.array<[-12493, -12493] : tensor<2xi32>>
// CHECK:         %[[SUMS:.*]] = graph.add %{{.*}}, %[[BIAS]]
// CHECK:         graph.requantize %[[SUMS]], %{{.*}} {rounding = #graph.float_half_even} : (tensor<4x2xi32>, tensor<f32>) -> tensor<4x2xi8>
func.func @product(%x: tensor<4x3xi8>) -> tensor<4x2xi8> {
  %w = graph.constant #graph.array<[1, 2, 3, 4, 5, 6] : tensor<3x2xi8>>
  %bias = graph.constant #graph.array<[7, 7] : tensor<2xi32>>
  %a = graph.constant #graph.array<[0.004] : tensor<f32>>
  %b = graph.constant #graph.array<[0.5] : tensor<f32>>
  %0 = graph.matmul %x, %w : (tensor<4x3xi8>, tensor<3x2xi8>) -> tensor<4x2xi32>
  %1 = graph.add %0, %bias : (tensor<4x2xi32>, tensor<2xi32>) -> tensor<4x2xi32>
  %2 = graph.requantize %1, %a, %b {rounding = #graph.float_half_even, to = i8, zero_point = -100 : i64} : (tensor<4x2xi32>, tensor<f32>, tensor<f32>) -> tensor<4x2xi8>
  func.return %2 : tensor<4x2xi8>
}

// What is rectified is above the zero point, which is a bound behind the scale.
// CHECK-LABEL:   func.func @rectified
// CHECK-NOT:     graph.relu
// CHECK:         graph.add %{{.*}}, %{{.*}} : (tensor<4x2xi32>, tensor<i32>) -> tensor<4x2xi32>
// CHECK:         graph.requantize
// CHECK-NEXT:    graph.clip %{{.*}} {min = #graph.array<[5] : tensor<i8>>}
func.func @rectified(%x: tensor<4x3xi8>, %y: tensor<3x2xi8>) -> tensor<4x2xi8> {
  %a = graph.constant #graph.array<[0.004] : tensor<f32>>
  %b = graph.constant #graph.array<[0.5] : tensor<f32>>
  %0 = graph.matmul %x, %y : (tensor<4x3xi8>, tensor<3x2xi8>) -> tensor<4x2xi32>
  %1 = graph.relu %0 : (tensor<4x2xi32>) -> tensor<4x2xi32>
  %2 = graph.requantize %1, %a, %b {rounding = #graph.float_half_even, to = i8, zero_point = 5 : i64} : (tensor<4x2xi32>, tensor<f32>, tensor<f32>) -> tensor<4x2xi8>
  func.return %2 : tensor<4x2xi8>
}

// 4 * 0.7 is a fifth of a step off the zero point, which stays behind the scale.
// CHECK-LABEL:   func.func @coarse
// CHECK:         graph.requantize {{.*}}zero_point = 3 : i64
func.func @coarse(%x: tensor<4x1xi8>, %y: tensor<1x2xi8>) -> tensor<4x2xi8> {
  %a = graph.constant #graph.array<[0.7] : tensor<f32>>
  %b = graph.constant #graph.array<[1.0] : tensor<f32>>
  %0 = graph.matmul %x, %y : (tensor<4x1xi8>, tensor<1x2xi8>) -> tensor<4x2xi32>
  %1 = graph.requantize %0, %a, %b {rounding = #graph.float_half_even, to = i8, zero_point = 3 : i64} : (tensor<4x2xi32>, tensor<f32>, tensor<f32>) -> tensor<4x2xi8>
  func.return %1 : tensor<4x2xi8>
}

// The second term is rounded on the grid of the first, and one number has all zero points:
// (-128 - 5 * 0.8 - 7 * 0.4) / 0.8.
// CHECK-LABEL:   func.func @sum
// CHECK:         graph.constant #graph.array<[1.0] : tensor<f32>>
// CHECK:         graph.requantize %x, %{{.*}} {rounding = #graph.float_half_even} : (tensor<4xi8>, tensor<f32>) -> tensor<4xi8>
// CHECK:         graph.constant #graph.array<[0.5] : tensor<f32>>
// CHECK:         graph.requantize %y, %{{.*}} {rounding = #graph.float_half_even} : (tensor<4xi8>, tensor<f32>) -> tensor<4xi8>
// CHECK:         %[[SUM:.*]] = graph.add {{.*}} -> tensor<4xi32>
// CHECK:         %[[ZEROS:.*]] = graph.constant #graph.array<[-168] : tensor<i32>>
// CHECK:         %[[ALL:.*]] = graph.add %[[SUM]], %[[ZEROS]]
// CHECK:         graph.constant #graph.array<[0.800000011920929] : tensor<f32>>
// CHECK:         graph.requantize %[[ALL]], %{{.*}} -> tensor<4xi8>
// CHECK-NOT:     graph.clip
func.func @sum(%x: tensor<4xi8>, %y: tensor<4xi8>) -> tensor<4xi8> {
  %a = graph.constant #graph.array<[0.4] : tensor<f32>>
  %b = graph.constant #graph.array<[0.2] : tensor<f32>>
  %c = graph.constant #graph.array<[0.5] : tensor<f32>>
  %five = graph.constant #graph.array<[5] : tensor<i8>>
  %seven = graph.constant #graph.array<[7] : tensor<i8>>
  %low = graph.constant #graph.array<[-128] : tensor<i8>>
  %0 = graph.dequantize %x, %a, %five {axis = 0 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.dequantize %y, %b, %seven {axis = 0 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %2 = graph.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.relu %2 : (tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.quantize %3, %c, %low {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  func.return %4 : tensor<4xi8>
}
