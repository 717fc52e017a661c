// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @nn(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<6xf32>, %xi: tensor<1x4x8x8xi8>, %wi: tensor<6x2x3x3xi8>, %bi: tensor<6xi32>, %u: tensor<1x4x8x8xui8>, %l: tensor<2x3x4xi8>, %r: tensor<4x5xi8>, %v: tensor<4xf32>) {
  %0 = graph.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>) -> tensor<1x6x8x8xf32>
  %1 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  %2 = graph.conv %xi, %wi, %bi {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x4x8x8xi8>, tensor<6x2x3x3xi8>, tensor<6xi32>) -> tensor<1x6x8x8xi32>
  %3 = graph.conv %u, %wi {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x4x8x8xui8>, tensor<6x2x3x3xi8>) -> tensor<1x6x8x8xi32>
  %4 = graph.matmul %l, %r : (tensor<2x3x4xi8>, tensor<4x5xi8>) -> tensor<2x3x5xi32>
  %5 = graph.matmul %v, %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  %6 = graph.max_pool %xi {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64} : (tensor<1x4x8x8xi8>) -> tensor<1x4x4x4xi8>
  %7 = graph.max_pool %x {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 1 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x5x5xf32>
  %8 = graph.average_pool %x {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64, count_include_pad = 1 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
  %9 = graph.sum_pool %xi {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64} : (tensor<1x4x8x8xi8>) -> tensor<1x4x4x4xi32>
  %10 = graph.global_average_pool %x : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>
  func.return
}

// CHECK: %0 = graph.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>) -> tensor<1x6x8x8xf32>
// CHECK-NEXT: %1 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
// CHECK-NEXT: %2 = graph.conv %xi, %wi, %bi {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x4x8x8xi8>, tensor<6x2x3x3xi8>, tensor<6xi32>) -> tensor<1x6x8x8xi32>
// CHECK-NEXT: %3 = graph.conv %u, %wi {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x4x8x8xui8>, tensor<6x2x3x3xi8>) -> tensor<1x6x8x8xi32>
// CHECK-NEXT: %4 = graph.matmul %l, %r : (tensor<2x3x4xi8>, tensor<4x5xi8>) -> tensor<2x3x5xi32>
// CHECK-NEXT: %5 = graph.matmul %v, %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
// CHECK-NEXT: %6 = graph.max_pool %xi {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64} : (tensor<1x4x8x8xi8>) -> tensor<1x4x4x4xi8>
// CHECK-NEXT: %7 = graph.max_pool %x {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 1 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x5x5xf32>
// CHECK-NEXT: %8 = graph.average_pool %x {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64, count_include_pad = 1 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
// CHECK-NEXT: %9 = graph.sum_pool %xi {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64} : (tensor<1x4x8x8xi8>) -> tensor<1x4x4x4xi32>
// CHECK-NEXT: %10 = graph.global_average_pool %x : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>
