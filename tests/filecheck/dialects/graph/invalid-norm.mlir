// RUN: byocir-opt --verify-diagnostics --parsing-diagnostics --split-input-file %s | filecheck %s

func.func @batch_norm_scale(%x: tensor<1x4x8xf32>, %c: tensor<4xf32>, %d: tensor<3xf32>) {
  // CHECK: expected mean tensor<4xf32>, found tensor<3xf32>
  %0 = graph.batch_norm %x, %c, %c, %d, %c {epsilon = 1.0e-3 : f32} : (tensor<1x4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<3xf32>, tensor<4xf32>) -> tensor<1x4x8xf32>
  func.return
}

// -----

func.func @instance_norm_rank(%x: tensor<1x4xf32>, %c: tensor<4xf32>) {
  // CHECK: expected an input of rank >= 3, found 1x4
  %0 = graph.instance_norm %x, %c, %c {epsilon = 1.0e-3 : f32} : (tensor<1x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  func.return
}

// -----

func.func @instance_norm_empty(%x: tensor<1x4x0xf32>, %c: tensor<4xf32>) {
  // CHECK: expected values to average, found 1x4x0
  %0 = graph.instance_norm %x, %c, %c {epsilon = 1.0e-3 : f32} : (tensor<1x4x0xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x0xf32>
  func.return
}

// -----

func.func @group_norm_groups(%x: tensor<1x4x8xf32>, %c: tensor<4xf32>) {
  // CHECK: expected num_groups that divides 4 channels, found 3
  %0 = graph.group_norm %x, %c, %c {epsilon = 1.0e-3 : f32, num_groups = 3 : i64} : (tensor<1x4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8xf32>
  func.return
}

// -----

func.func @layer_norm_scale(%x: tensor<1x4x8xf32>, %c: tensor<4xf32>) {
  // CHECK: expected shapes that broadcast, found 8 and 4
  %0 = graph.layer_norm %x, %c {axis = 2 : i64, epsilon = 1.0e-3 : f32} : (tensor<1x4x8xf32>, tensor<4xf32>) -> tensor<1x4x8xf32>
  func.return
}

// -----

func.func @layer_norm_tail(%x: tensor<1x4x8xf32>, %c: tensor<4x8xf32>) {
  // CHECK: expected scale that broadcasts to 8, found 4x8
  %0 = graph.layer_norm %x, %c {axis = 2 : i64, epsilon = 1.0e-3 : f32} : (tensor<1x4x8xf32>, tensor<4x8xf32>) -> tensor<1x4x8xf32>
  func.return
}

// -----

func.func @layer_norm_element(%x: tensor<1x8xf32>, %c: tensor<8xf16>) {
  // CHECK: expected scale of f32, found f16
  %0 = graph.layer_norm %x, %c {axis = 1 : i64, epsilon = 1.0e-3 : f32} : (tensor<1x8xf32>, tensor<8xf16>) -> tensor<1x8xf32>
  func.return
}

// -----

func.func @rms_norm_axis(%x: tensor<1x8xf32>, %c: tensor<8xf32>) {
  // CHECK: expected axis from 0 to 1, found 2
  %0 = graph.rms_norm %x, %c {axis = 2 : i64, epsilon = 1.0e-3 : f32} : (tensor<1x8xf32>, tensor<8xf32>) -> tensor<1x8xf32>
  func.return
}

// -----

func.func @lrn_size(%x: tensor<1x8x2xf32>) {
  // CHECK: expected size >= 1, found 0
  %0 = graph.lrn %x {alpha = 1.0 : f32, beta = 1.0 : f32, bias = 1.0 : f32, size = 0 : i64} : (tensor<1x8x2xf32>) -> tensor<1x8x2xf32>
  func.return
}

// -----

func.func @conv_transpose_channels(%x: tensor<1x4x8xf32>, %w: tensor<3x2x2xf32>) {
  // CHECK: expected 3 input channels, divisible by group 1, found 4
  %0 = graph.conv_transpose %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64, output_padding = array<i64: 0>} : (tensor<1x4x8xf32>, tensor<3x2x2xf32>) -> tensor<1x2x9xf32>
  func.return
}

// -----

func.func @conv_transpose_pads(%x: tensor<1x4x2xf32>, %w: tensor<4x2x2xf32>) {
  // CHECK: expected pads that leave something, found [2, 2]
  %0 = graph.conv_transpose %x, %w {strides = array<i64: 1>, pads = array<i64: 2, 2>, dilations = array<i64: 1>, group = 1 : i64, output_padding = array<i64: 0>} : (tensor<1x4x2xf32>, tensor<4x2x2xf32>) -> tensor<1x2x1xf32>
  func.return
}

// -----

func.func @conv_transpose_padding(%x: tensor<1x4x2xf32>, %w: tensor<4x2x2xf32>) {
  // CHECK: expected 1 output_padding, found 2
  %0 = graph.conv_transpose %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64, output_padding = array<i64: 0, 0>} : (tensor<1x4x2xf32>, tensor<4x2x2xf32>) -> tensor<1x2x3xf32>
  func.return
}

// -----

func.func @conv_transpose_bias(%x: tensor<1x4x2xf32>, %w: tensor<4x2x2xf32>, %b: tensor<3xf32>) {
  // CHECK: expected bias tensor<2xf32>, found tensor<3xf32>
  %0 = graph.conv_transpose %x, %w, %b {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64, output_padding = array<i64: 0>} : (tensor<1x4x2xf32>, tensor<4x2x2xf32>, tensor<3xf32>) -> tensor<1x2x3xf32>
  func.return
}

// -----

func.func @lp_pool_p(%x: tensor<1x4x2xf32>) {
  // CHECK: expected p >= 1, found 0
  %0 = graph.lp_pool %x {kernel_shape = array<i64: 1>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = 0 : i64, p = 0 : i64} : (tensor<1x4x2xf32>) -> tensor<1x4x2xf32>
  func.return
}

// -----

func.func @global_max_pool_empty(%x: tensor<1x4x0xf32>) {
  // CHECK: expected values to pool, found 1x4x0
  %0 = graph.global_max_pool %x : (tensor<1x4x0xf32>) -> tensor<1x4x1xf32>
  func.return
}
