// RUN: byocir-opt --verify-diagnostics --parsing-diagnostics --split-input-file %s | filecheck %s

func.func @conv_channels(%x: tensor<1x3x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: expected 4 x group 1 input channels, found 3
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x3x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @conv_groups(%x: tensor<1x4x8x8xf32>, %w: tensor<5x2x3x3xf32>) {
  // CHECK: expected output channels divisible by group 2, found 5
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x4x8x8xf32>, tensor<5x2x3x3xf32>) -> tensor<1x5x6x6xf32>
  func.return
}

// -----

func.func @conv_rank(%x: tensor<4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: expected input and weight of one rank >= 3, found 4x8x8 and 6x4x3x3
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<6x6x6xf32>
  func.return
}

// -----

func.func @conv_element(%x: tensor<1x4x8x8xi8>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: expected operands of one element type, found i8 and f32
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xi8>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xi32>
  func.return
}

// -----

func.func @conv_integers(%x: tensor<1x4x8x8xi32>, %w: tensor<6x4x3x3xi32>) {
  // CHECK: expected floating-point or 8-bit operands, found i32
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xi32>, tensor<6x4x3x3xi32>) -> tensor<1x6x6x6xi32>
  func.return
}

// -----

func.func @conv_bias(%x: tensor<1x4x8x8xi8>, %w: tensor<6x4x3x3xi8>, %b: tensor<6xi8>) {
  // CHECK: expected bias tensor<6xi32>, found tensor<6xi8>
  %0 = graph.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xi8>, tensor<6x4x3x3xi8>, tensor<6xi8>) -> tensor<1x6x6x6xi32>
  func.return
}

// -----

func.func @conv_result(%x: tensor<1x4x8x8xi8>, %w: tensor<6x4x3x3xi8>) {
  // CHECK: expected result type tensor<1x6x6x6xi32> to match operands, found tensor<1x6x8x8xi32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xi8>, tensor<6x4x3x3xi8>) -> tensor<1x6x8x8xi32>
  func.return
}

// -----

func.func @conv_pads(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: expected 4 pads, found 2
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @conv_strides(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: expected strides >= 1, found [0, 1]
  %0 = graph.conv %x, %w {strides = array<i64: 0, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @conv_window(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: expected windows of at most 8, found 9
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 4, 4>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x1x1xf32>
  func.return
}

// -----

func.func @matmul_inner(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  // CHECK: expected inner dimensions to agree, found 2x3 and 4x5
  %0 = graph.matmul %a, %b : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

func.func @matmul_scalar(%a: tensor<f32>, %b: tensor<4x5xf32>) {
  // CHECK: expected operands of rank >= 1, found scalar and 4x5
  %0 = graph.matmul %a, %b : (tensor<f32>, tensor<4x5xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @average_pool_integers(%x: tensor<1x4x8x8xi8>) {
  // CHECK: expected a floating-point tensor, found tensor<1x4x8x8xi8>
  %0 = graph.average_pool %x {kernel_shape = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64, count_include_pad = 0 : i64} : (tensor<1x4x8x8xi8>) -> tensor<1x4x7x7xi8>
  func.return
}

// -----

func.func @sum_pool_floats(%x: tensor<1x4x8x8xf32>) {
  // CHECK: expected an 8-bit input, found f32
  %0 = graph.sum_pool %x {kernel_shape = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x7x7xf32>
  func.return
}

// -----

func.func @max_pool_ceil(%x: tensor<1x4x8x8xf32>) {
  // CHECK: expected ceil_mode 0 or 1, found 2
  %0 = graph.max_pool %x {kernel_shape = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = 2 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x7x7xf32>
  func.return
}

// -----

func.func @add_element(%a: tensor<2xf32>, %b: tensor<2xi32>) {
  // CHECK: expected operands of one element type, found f32 and i32
  %0 = graph.add %a, %b : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @add_shapes(%a: tensor<2x3xf32>, %b: tensor<2xf32>) {
  // CHECK: expected shapes that broadcast, found 2x3 and 2
  %0 = graph.add %a, %b : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @relu_unsigned(%a: tensor<2xui8>) {
  // CHECK: expected an input of signed numbers, found ui8
  %0 = graph.relu %a : (tensor<2xui8>) -> tensor<2xui8>
  func.return
}

// -----

func.func @clip_bound(%a: tensor<2xi8>) {
  // CHECK: expected min of type tensor<i8>, found tensor<f32>
  %0 = graph.clip %a {min = #graph.array<[0.0] : tensor<f32>>} : (tensor<2xi8>) -> tensor<2xi8>
  func.return
}

// -----

func.func @reduce_mean_axes(%a: tensor<2x3xf32>) {
  // CHECK: expected rising axes from 0 to 1, found [1, 0]
  %0 = graph.reduce_mean %a {axes = array<i64: 1, 0>, keepdims = 0 : i64} : (tensor<2x3xf32>) -> tensor<f32>
  func.return
}

// -----

func.func @softmax_axis(%a: tensor<2x3xf32>) {
  // CHECK: expected axis from 0 to 1, found -1
  %0 = graph.softmax %a {axis = -1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @reshape_elements(%a: tensor<2x3xf32>) {
  // CHECK: expected a shape of 6 elements, found 2x2
  %0 = graph.reshape %a {shape = array<i64: 2, 2>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @reshape_inferred(%a: tensor<2x3xf32>) {
  // CHECK: expected sizes >= 0, found 2x-1
  %0 = graph.reshape %a {shape = array<i64: 2, -1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @flatten_axis(%a: tensor<2x3xf32>) {
  // CHECK: expected axis from 0 to 2, found 3
  %0 = graph.flatten %a {axis = 3 : i64} : (tensor<2x3xf32>) -> tensor<6x1xf32>
  func.return
}

// -----

func.func @squeeze_size(%a: tensor<1x3xf32>) {
  // CHECK: expected dimensions of size 1, found 3
  %0 = graph.squeeze %a {axes = array<i64: 1>} : (tensor<1x3xf32>) -> tensor<1xf32>
  func.return
}

// -----

func.func @transpose_perm(%a: tensor<2x3xf32>) {
  // CHECK: expected a permutation of 2 dimensions, found [1, 1]
  %0 = graph.transpose %a {perm = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<3x3xf32>
  func.return
}

// -----

func.func @concat_others(%a: tensor<2x3xf32>, %b: tensor<3x3xf32>) {
  // CHECK: expected inputs that differ in axis 1 only, found 2x3 and 3x3
  %0 = graph.concat %a, %b {axis = 1 : i64} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

func.func @quantize_scale(%x: tensor<1x4xf32>, %s: tensor<3xf32>, %z: tensor<3xi8>) {
  // CHECK: expected a scale of shape 4 or scalar, found 3
  %0 = graph.quantize %x, %s, %z {axis = 1 : i64} : (tensor<1x4xf32>, tensor<3xf32>, tensor<3xi8>) -> tensor<1x4xi8>
  func.return
}

// -----

func.func @quantize_to(%x: tensor<1x4xf32>, %s: tensor<f32>, %z: tensor<i32>) {
  // CHECK: expected a zero point of 8-bit or 16-bit integers, found i32
  %0 = graph.quantize %x, %s, %z {axis = 1 : i64} : (tensor<1x4xf32>, tensor<f32>, tensor<i32>) -> tensor<1x4xi32>
  func.return
}

// -----

func.func @dequantize_zero_point(%x: tensor<1x4xi8>, %s: tensor<f32>, %z: tensor<ui8>) {
  // CHECK: expected a zero point of i8, found ui8
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<1x4xi8>, tensor<f32>, tensor<ui8>) -> tensor<1x4xf32>
  func.return
}

// -----

func.func @requantize_count(%x: tensor<1x4xi32>, %s: tensor<f32>) {
  // CHECK: expected 1 or 2 scales for #graph.float_half_even, found 3
  %0 = graph.requantize %x, %s, %s, %s {rounding = #graph.float_half_even} : (tensor<1x4xi32>, tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<1x4xi8>
  func.return
}

// -----

func.func @requantize_multiplier(%x: tensor<1x4xi32>, %s: tensor<f32>) {
  // CHECK: expected scales of i32, found f32
  %0 = graph.requantize %x, %s {rounding = #graph.fixed<shift = 3, half_up>} : (tensor<1x4xi32>, tensor<f32>) -> tensor<1x4xi8>
  func.return
}

// -----

func.func @requantize_broadcast(%x: tensor<1x4xi32>, %s: tensor<2x4xi32>) {
  // CHECK: expected scales that broadcast to 1x4, found 2x4
  %0 = graph.requantize %x, %s {rounding = #graph.fixed<shift = 3, half_up>} : (tensor<1x4xi32>, tensor<2x4xi32>) -> tensor<1x4xi8>
  func.return
}

// -----

func.func @requantize_to(%x: tensor<1x4xi32>, %s: tensor<f32>) {
  // CHECK: expected a result of i8 or ui8, found i32
  %0 = graph.requantize %x, %s, %s {rounding = #graph.float_half_even, to = i32} : (tensor<1x4xi32>, tensor<f32>, tensor<f32>) -> tensor<1x4xi32>
  func.return
}

// -----

func.func @fixed_shift(%x: tensor<4xi32>, %m: tensor<i32>) {
  // CHECK: expected shift from 0 to 62, found 63
  %0 = graph.requantize %x, %m {rounding = #graph.fixed<shift = 63, half_up>} : (tensor<4xi32>, tensor<i32>) -> tensor<4xi8>
  func.return
}

// -----

func.func @fixed_ties(%x: tensor<4xi32>, %m: tensor<i32>) {
  // CHECK: expected half_up, half_even, floor, found half_down
  %0 = graph.requantize %x, %m {rounding = #graph.fixed<shift = 3, half_down>} : (tensor<4xi32>, tensor<i32>) -> tensor<4xi8>
  func.return
}

// -----

func.func @constant_elements() {
  // CHECK: expected 2 elements, found 3
  %0 = graph.constant #graph.array<[1, 2, 3] : tensor<2xi8>>
  func.return
}

// -----

func.func @constant_value() {
  // CHECK: expected an array, #graph.array<...>
  %0 = graph.constant 3 : i32
  func.return
}

// -----

func.func @held_elements(%x: tensor<2x!graph.string>) {
  // CHECK: expected operands of core element types, found tensor<2x!graph.string>
  %0 = graph.reshape %x {shape = array<i64: 1, 2>} : (tensor<2x!graph.string>) -> tensor<1x2x!graph.string>
  func.return
}

// -----

func.func @open_size(%x: tensor<2x?xf32>) {
  // CHECK: expected static shapes, found tensor<2x?xf32>
  %0 = graph.relu %x : (tensor<2x?xf32>) -> tensor<2x?xf32>
  func.return
}
