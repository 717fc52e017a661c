// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @resize(%x: tensor<1x4x8x8xf32>, %v: tensor<2xf32>) {
  %0 = graph.resize %x {sizes = array<i64: 1, 4, 16, 16>, mode = "linear", coordinate_transformation_mode = "half_pixel", nearest_mode = "floor", cubic_coeff_a = -7.500000e-01 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.000000e+00 : f32, antialias = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x16x16xf32>
  %1 = graph.resize %v {sizes = array<i64: 5>, scales = array<f32: 2.500000e+00>, mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor", cubic_coeff_a = -7.500000e-01 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.000000e+00 : f32, antialias = 0 : i64} : (tensor<2xf32>) -> tensor<5xf32>
  %2 = graph.resize %v {sizes = array<i64: 5>, roi = array<f32: 0.000000e+00, 5.000000e-01>, mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize", nearest_mode = "floor", cubic_coeff_a = -7.500000e-01 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.000000e+00 : f32, antialias = 0 : i64} : (tensor<2xf32>) -> tensor<5xf32>
  func.return
}

// CHECK: %0 = graph.resize %x {sizes = array<i64: 1, 4, 16, 16>, mode = "linear", coordinate_transformation_mode = "half_pixel", nearest_mode = "floor", cubic_coeff_a = -7.500000e-01 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.000000e+00 : f32, antialias = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x16x16xf32>
// CHECK-NEXT: %1 = graph.resize %v {sizes = array<i64: 5>, scales = array<f32: 2.500000e+00>, mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor", cubic_coeff_a = -7.500000e-01 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.000000e+00 : f32, antialias = 0 : i64} : (tensor<2xf32>) -> tensor<5xf32>
// CHECK-NEXT: %2 = graph.resize %v {sizes = array<i64: 5>, roi = array<f32: 0.000000e+00, 5.000000e-01>, mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize", nearest_mode = "floor", cubic_coeff_a = -7.500000e-01 : f32, exclude_outside = 0 : i64, extrapolation_value = 0.000000e+00 : f32, antialias = 0 : i64} : (tensor<2xf32>) -> tensor<5xf32>
