// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @norm(%x: tensor<1x4x8x8xf32>, %c: tensor<4xf32>, %t: tensor<8x8xf32>) {
  %0 = graph.batch_norm %x, %c, %c, %c, %c {epsilon = 1.000000e-03 : f32} : (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.instance_norm %x, %c, %c {epsilon = 1.000000e-03 : f32} : (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  %2 = graph.group_norm %x, %c, %c {epsilon = 1.000000e-03 : f32, num_groups = 2 : i64} : (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  %3 = graph.layer_norm %x, %t, %t {axis = 2 : i64, epsilon = 1.000000e-03 : f32} : (tensor<1x4x8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8x8xf32>
  %4 = graph.layer_norm %x, %t {axis = 2 : i64, epsilon = 1.000000e-03 : f32} : (tensor<1x4x8x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8x8xf32>
  %5 = graph.rms_norm %x, %t {axis = 2 : i64, epsilon = 1.000000e-03 : f32} : (tensor<1x4x8x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8x8xf32>
  %6 = graph.lrn %x {alpha = 1.250000e-01 : f32, beta = 7.500000e-01 : f32, bias = 1.000000e+00 : f32, size = 3 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return
}

// CHECK: %0 = graph.batch_norm %x, %c, %c, %c, %c {epsilon = 1.000000e-03 : f32} : (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
// CHECK-NEXT: %1 = graph.instance_norm %x, %c, %c {epsilon = 1.000000e-03 : f32} : (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
// CHECK-NEXT: %2 = graph.group_norm %x, %c, %c {epsilon = 1.000000e-03 : f32, num_groups = 2 : i64} : (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
// CHECK-NEXT: %3 = graph.layer_norm %x, %t, %t {axis = 2 : i64, epsilon = 1.000000e-03 : f32} : (tensor<1x4x8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8x8xf32>
// CHECK-NEXT: %4 = graph.layer_norm %x, %t {axis = 2 : i64, epsilon = 1.000000e-03 : f32} : (tensor<1x4x8x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8x8xf32>
// CHECK-NEXT: %5 = graph.rms_norm %x, %t {axis = 2 : i64, epsilon = 1.000000e-03 : f32} : (tensor<1x4x8x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8x8xf32>
// CHECK-NEXT: %6 = graph.lrn %x {alpha = 1.250000e-01 : f32, beta = 7.500000e-01 : f32, bias = 1.000000e+00 : f32, size = 3 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
