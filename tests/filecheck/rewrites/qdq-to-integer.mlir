// RUN: byocir-opt --no-debuginfo -p qdq-to-integer %s | filecheck %s

// CHECK-LABEL: @conv
// CHECK:         %[[A:.*]] = graph.conv %x, %w, %b {{.*}} : (tensor<1x2x4x4xi8>, tensor<3x2x3x3xi8>, tensor<3xi32>) -> tensor<1x3x4x4xi32>
// CHECK-NEXT:    %[[R:.*]] = graph.relu %[[A]] : (tensor<1x3x4x4xi32>)
// CHECK-NEXT:    %[[IN:.*]] = graph.constant #graph.array<[0.125] : tensor<f32>>
// CHECK-NEXT:    %[[OUT:.*]] = graph.constant #graph.array<[2.0] : tensor<f32>>
// CHECK-NEXT:    %[[Y:.*]] = graph.requantize %[[R]], %[[IN]], %[[OUT]] {rounding = #graph.float_half_even{{.*}}} : {{.*}} -> tensor<1x3x4x4xi8>
// CHECK-NEXT:    func.return %[[Y]]
func.func @conv(%x: tensor<1x2x4x4xi8>) -> tensor<1x3x4x4xi8> {
  %w = graph.constant #graph.array<"weights" : tensor<3x2x3x3xi8>>
  %b = graph.constant #graph.array<[5, -6, 7] : tensor<3xi32>>
  %sx = graph.constant #graph.array<[0.5] : tensor<f32>>
  %sw = graph.constant #graph.array<[0.25] : tensor<f32>>
  %sb = graph.constant #graph.array<[0.125] : tensor<f32>>
  %sy = graph.constant #graph.array<[2.0] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %zb = graph.constant #graph.array<[0] : tensor<i32>>
  %0 = graph.dequantize %x, %sx, %z {axis = 1 : i64} : (tensor<1x2x4x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4x4xf32>
  %1 = graph.dequantize %w, %sw, %z {axis = 1 : i64} : (tensor<3x2x3x3xi8>, tensor<f32>, tensor<i8>) -> tensor<3x2x3x3xf32>
  %2 = graph.dequantize %b, %sb, %zb {axis = 1 : i64} : (tensor<3xi32>, tensor<f32>, tensor<i32>) -> tensor<3xf32>
  %3 = graph.conv %0, %1, %2 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<1x3x4x4xf32>
  %4 = graph.relu %3 : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %5 = graph.quantize %4, %sy, %z {axis = 1 : i64} : (tensor<1x3x4x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x3x4x4xi8>
  func.return %5 : tensor<1x3x4x4xi8>
}

// Scales per output channel broadcast along NCHW; clip bounds become integers behind requantize.
// CHECK-LABEL: @per_channel_conv_with_clip
// CHECK:         graph.conv %x, %w {{.*}} -> tensor<1x2x4x4xi32>
// CHECK-NEXT:    graph.constant #graph.array<[0.125, 0.25] : tensor<2x1x1xf32>>
// CHECK:         %[[R:.*]] = graph.requantize
// CHECK-NEXT:    graph.clip %[[R]] {min = #graph.array<[-2] : tensor<i8>>, max = #graph.array<[12] : tensor<i8>>} : (tensor<1x2x4x4xi8>)
func.func @per_channel_conv_with_clip(%x: tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi8> {
  %w = graph.constant #graph.array<"weights" : tensor<2x2x1x1xi8>>
  %sx = graph.constant #graph.array<[0.5] : tensor<f32>>
  %sw = graph.constant #graph.array<[0.25, 0.5] : tensor<2xf32>>
  %sy = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %zw = graph.constant #graph.array<[0, 0] : tensor<2xi8>>
  %0 = graph.dequantize %x, %sx, %z {axis = 1 : i64} : (tensor<1x2x4x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4x4xf32>
  %1 = graph.dequantize %w, %sw, %zw {axis = 0 : i64} : (tensor<2x2x1x1xi8>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x2x1x1xf32>
  %2 = graph.conv %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %3 = graph.clip %2 {min = #graph.array<[-1.0] : tensor<f32>>, max = #graph.array<[6.0] : tensor<f32>>} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %4 = graph.quantize %3, %sy, %z {axis = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x2x4x4xi8>
  func.return %4 : tensor<1x2x4x4xi8>
}

// CHECK-LABEL: @matmul_with_bias
// CHECK:         %[[P:.*]] = graph.matmul %x, %w : (tensor<2x3xi8>, tensor<3x4xi8>) -> tensor<2x4xi32>
// CHECK-NEXT:    %[[S:.*]] = graph.add %[[P]], %b : (tensor<2x4xi32>, tensor<4xi32>)
// CHECK:         graph.requantize %[[S]], {{.*}} -> tensor<2x4xi8>
func.func @matmul_with_bias(%x: tensor<2x3xi8>) -> tensor<2x4xi8> {
  %w = graph.constant #graph.array<"weights" : tensor<3x4xi8>>
  %b = graph.constant #graph.array<[1, 2, 3, 4] : tensor<4xi32>>
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %sb = graph.constant #graph.array<[0.25] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %zb = graph.constant #graph.array<[0] : tensor<i32>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<2x3xi8>, tensor<f32>, tensor<i8>) -> tensor<2x3xf32>
  %1 = graph.dequantize %w, %s, %z {axis = 1 : i64} : (tensor<3x4xi8>, tensor<f32>, tensor<i8>) -> tensor<3x4xf32>
  %2 = graph.dequantize %b, %sb, %zb {axis = 1 : i64} : (tensor<4xi32>, tensor<f32>, tensor<i32>) -> tensor<4xf32>
  %3 = graph.matmul %0, %1 : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %4 = graph.add %2, %3 : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = graph.quantize %4, %s, %z {axis = 1 : i64} : (tensor<2x4xf32>, tensor<f32>, tensor<i8>) -> tensor<2x4xi8>
  func.return %5 : tensor<2x4xi8>
}

// CHECK-LABEL: @relu_between_grids
// CHECK:         %[[R:.*]] = graph.relu %x : (tensor<4xi8>) -> tensor<4xi8>
// CHECK:         graph.requantize %[[R]], {{.*}} : (tensor<4xi8>, tensor<f32>, tensor<f32>) -> tensor<4xi8>
func.func @relu_between_grids(%x: tensor<4xi8>) -> tensor<4xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %t = graph.constant #graph.array<[0.25] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.quantize %1, %t, %z {axis = 1 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  func.return %2 : tensor<4xi8>
}

// On one grid nothing is rescaled.
// CHECK-LABEL: @clip_on_one_grid
// CHECK:         %[[C:.*]] = graph.clip %x {max = #graph.array<[12] : tensor<i8>>} : (tensor<4xi8>)
// CHECK-NEXT:    func.return %[[C]]
func.func @clip_on_one_grid(%x: tensor<4xi8>) -> tensor<4xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.clip %0 {max = #graph.array<[6.0] : tensor<f32>>} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.quantize %1, %s, %z {axis = 1 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  func.return %2 : tensor<4xi8>
}
