// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @window(%x: tensor<1x4x8x8xf32>, %w: tensor<4x3x2x2xf32>, %b: tensor<6xf32>) {
  %0 = graph.conv_transpose %x, %w, %b {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64, output_padding = array<i64: 0, 1>} : (tensor<1x4x8x8xf32>, tensor<4x3x2x2xf32>, tensor<6xf32>) -> tensor<1x6x16x17xf32>
  %1 = graph.conv_transpose %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64, output_padding = array<i64: 0, 0>} : (tensor<1x4x8x8xf32>, tensor<4x3x2x2xf32>) -> tensor<1x3x16x16xf32>
  %2 = graph.lp_pool %x {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64, p = 2 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
  %3 = graph.global_max_pool %x : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>
  func.return
}

// CHECK: %0 = graph.conv_transpose %x, %w, %b {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64, output_padding = array<i64: 0, 1>} : (tensor<1x4x8x8xf32>, tensor<4x3x2x2xf32>, tensor<6xf32>) -> tensor<1x6x16x17xf32>
// CHECK-NEXT: %1 = graph.conv_transpose %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64, output_padding = array<i64: 0, 0>} : (tensor<1x4x8x8xf32>, tensor<4x3x2x2xf32>) -> tensor<1x3x16x16xf32>
// CHECK-NEXT: %2 = graph.lp_pool %x {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64, p = 2 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
// CHECK-NEXT: %3 = graph.global_max_pool %x : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>
