// RUN: byocir-opt --verify-diagnostics --parsing-diagnostics --split-input-file %s | filecheck %s

func.func @resize_sizes(%x: tensor<2xf32>) {
  // CHECK: expected 1 sizes, found 2
  %0 = graph.resize %x {sizes = array<i64: 5, 5>, mode = "linear", coordinate_transformation_mode = "half_pixel", nearest_mode = "floor", cubic_coeff_a = -0.75 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.0 : f32, antialias = 0 : i64} : (tensor<2xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @resize_empty(%x: tensor<2xf32>) {
  // CHECK: expected sizes >= 1, found 0
  %0 = graph.resize %x {sizes = array<i64: 0>, mode = "linear", coordinate_transformation_mode = "half_pixel", nearest_mode = "floor", cubic_coeff_a = -0.75 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.0 : f32, antialias = 0 : i64} : (tensor<2xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @resize_nothing(%x: tensor<0xf32>) {
  // CHECK: expected elements to resample, found 0
  %0 = graph.resize %x {sizes = array<i64: 5>, mode = "linear", coordinate_transformation_mode = "half_pixel", nearest_mode = "floor", cubic_coeff_a = -0.75 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.0 : f32, antialias = 0 : i64} : (tensor<0xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @resize_mode(%x: tensor<2xf32>) {
  // CHECK: expected mode nearest, linear, cubic, found area
  %0 = graph.resize %x {sizes = array<i64: 5>, mode = "area", coordinate_transformation_mode = "half_pixel", nearest_mode = "floor", cubic_coeff_a = -0.75 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.0 : f32, antialias = 0 : i64} : (tensor<2xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @resize_nearest(%x: tensor<2xf32>) {
  // CHECK: expected nearest_mode round_prefer_floor, round_prefer_ceil, floor, ceil, found up
  %0 = graph.resize %x {sizes = array<i64: 5>, mode = "linear", coordinate_transformation_mode = "half_pixel", nearest_mode = "up", cubic_coeff_a = -0.75 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.0 : f32, antialias = 0 : i64} : (tensor<2xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @resize_nearest_smooth(%x: tensor<2xf32>) {
  // CHECK: expected mode linear, cubic for antialias, found nearest
  %0 = graph.resize %x {sizes = array<i64: 5>, mode = "nearest", coordinate_transformation_mode = "half_pixel", nearest_mode = "floor", cubic_coeff_a = -0.75 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.0 : f32, antialias = 1 : i64} : (tensor<2xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @resize_scales(%x: tensor<2xf32>) {
  // CHECK: expected sizes 4 for these scales, found 5
  %0 = graph.resize %x {sizes = array<i64: 5>, scales = array<f32: 2.0>, mode = "linear", coordinate_transformation_mode = "half_pixel", nearest_mode = "floor", cubic_coeff_a = -0.75 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.0 : f32, antialias = 0 : i64} : (tensor<2xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @resize_scale(%x: tensor<2xf32>) {
  // CHECK: expected scales > 0, found
  %0 = graph.resize %x {sizes = array<i64: 5>, scales = array<f32: -2.0>, mode = "linear", coordinate_transformation_mode = "half_pixel", nearest_mode = "floor", cubic_coeff_a = -0.75 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.0 : f32, antialias = 0 : i64} : (tensor<2xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @resize_roi(%x: tensor<2xf32>) {
  // CHECK: expected a roi of 2 numbers, found 0
  %0 = graph.resize %x {sizes = array<i64: 5>, mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize", nearest_mode = "floor", cubic_coeff_a = -0.75 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.0 : f32, antialias = 0 : i64} : (tensor<2xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @rnn_direction(%a0: tensor<5x2x3xf32>, %a1: tensor<1x4x3xf32>, %a2: tensor<1x4x4xf32>, %a3: tensor<1x8xf32>, %a4: tensor<2xi32>, %a5: tensor<1x2x4xf32>) {
  // CHECK: expected forward, reverse, bidirectional, found sideways
  %0, %1 = graph.rnn %a0, %a1, %a2, %a3, %a4, %a5 {direction = "sideways"} : (tensor<5x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>, tensor<1x8xf32>, tensor<2xi32>, tensor<1x2x4xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)
  func.return
}

// -----

func.func @rnn_directions(%a0: tensor<5x2x3xf32>, %a1: tensor<1x4x3xf32>, %a2: tensor<1x4x4xf32>, %a3: tensor<1x8xf32>, %a4: tensor<2xi32>, %a5: tensor<1x2x4xf32>) {
  // CHECK: expected weight tensor<2x4x3xf32>, found tensor<1x4x3xf32>
  %0, %1 = graph.rnn %a0, %a1, %a2, %a3, %a4, %a5 {direction = "bidirectional"} : (tensor<5x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>, tensor<1x8xf32>, tensor<2xi32>, tensor<1x2x4xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)
  func.return
}

// -----

func.func @rnn_weight(%a0: tensor<5x2x3xf32>, %a1: tensor<1x4x2xf32>, %a2: tensor<1x4x4xf32>, %a3: tensor<1x8xf32>, %a4: tensor<2xi32>, %a5: tensor<1x2x4xf32>) {
  // CHECK: expected weight tensor<1x4x3xf32>, found tensor<1x4x2xf32>
  %0, %1 = graph.rnn %a0, %a1, %a2, %a3, %a4, %a5 {direction = "forward"} : (tensor<5x2x3xf32>, tensor<1x4x2xf32>, tensor<1x4x4xf32>, tensor<1x8xf32>, tensor<2xi32>, tensor<1x2x4xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)
  func.return
}

// -----

func.func @rnn_rank(%a0: tensor<5x2xf32>, %a1: tensor<1x4x3xf32>, %a2: tensor<1x4x4xf32>, %a3: tensor<1x8xf32>, %a4: tensor<2xi32>, %a5: tensor<1x2x4xf32>) {
  // CHECK: expected an input of rank 3, found 5x2
  %0, %1 = graph.rnn %a0, %a1, %a2, %a3, %a4, %a5 {direction = "forward"} : (tensor<5x2xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>, tensor<1x8xf32>, tensor<2xi32>, tensor<1x2x4xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)
  func.return
}

// -----

func.func @rnn_recurrence(%a0: tensor<5x2x3xf32>, %a1: tensor<1x4x3xf32>, %a2: tensor<4x4xf32>, %a3: tensor<1x8xf32>, %a4: tensor<2xi32>, %a5: tensor<1x2x4xf32>) {
  // CHECK: expected a recurrence of rank 3, found tensor<4x4xf32>
  %0, %1 = graph.rnn %a0, %a1, %a2, %a3, %a4, %a5 {direction = "forward"} : (tensor<5x2x3xf32>, tensor<1x4x3xf32>, tensor<4x4xf32>, tensor<1x8xf32>, tensor<2xi32>, tensor<1x2x4xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)
  func.return
}

// -----

func.func @rnn_lengths(%a0: tensor<5x2x3xf32>, %a1: tensor<1x4x3xf32>, %a2: tensor<1x4x4xf32>, %a3: tensor<1x8xf32>, %a4: tensor<2xi64>, %a5: tensor<1x2x4xf32>) {
  // CHECK: expected lengths tensor<2xi32>, found tensor<2xi64>
  %0, %1 = graph.rnn %a0, %a1, %a2, %a3, %a4, %a5 {direction = "forward"} : (tensor<5x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>, tensor<1x8xf32>, tensor<2xi64>, tensor<1x2x4xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)
  func.return
}
