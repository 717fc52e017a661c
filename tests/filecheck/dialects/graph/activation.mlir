// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @activation(%x: tensor<2x3xf32>, %v: tensor<3xf32>) {
  %0 = graph.leaky_relu %x {alpha = 1.000000e-02 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = graph.thresholded_relu %x {alpha = 1.000000e+00 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = graph.elu %x {alpha = 1.000000e+00 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = graph.celu %x {alpha = 1.000000e+00 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = graph.selu %x {alpha = 1.67326319 : f32, gamma = 1.05070102 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = graph.hard_sigmoid %x {alpha = 0.166666672 : f32, beta = 5.000000e-01 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = graph.shrink %x {bias = 0.000000e+00 : f32, lambd = 5.000000e-01 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = graph.gelu %x {approximate = "tanh"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %8 = graph.prelu %x, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK: %0 = graph.leaky_relu %x {alpha = 1.000000e-02 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %1 = graph.thresholded_relu %x {alpha = 1.000000e+00 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %2 = graph.elu %x {alpha = 1.000000e+00 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %3 = graph.celu %x {alpha = 1.000000e+00 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %4 = graph.selu %x {alpha = 1.67326319 : f32, gamma = 1.05070102 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %5 = graph.hard_sigmoid %x {alpha = 0.166666672 : f32, beta = 5.000000e-01 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %6 = graph.shrink %x {bias = 0.000000e+00 : f32, lambd = 5.000000e-01 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %7 = graph.gelu %x {approximate = "tanh"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %8 = graph.prelu %x, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
