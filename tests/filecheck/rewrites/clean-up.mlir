// RUN: byocir-opt --no-debuginfo -p clean-up %s | filecheck %s

// CHECK-LABEL: @unused
// CHECK-NEXT:    func.return %x
func.func @unused(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = graph.constant #graph.array<[1.0] : tensor<f32>>
  %0 = graph.add %x, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %x : tensor<4xf32>
}

// CHECK-LABEL: @equal_ops
// CHECK-NEXT:    %[[C:.*]] = graph.constant
// CHECK-NEXT:    %[[Y:.*]] = graph.mul %x, %[[C]]
// CHECK-NEXT:    graph.add %[[Y]], %[[Y]]
func.func @equal_ops(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = graph.constant #graph.array<[1.0, 2.0] : tensor<2xf32>>
  %d = graph.constant #graph.array<[1.0, 2.0] : tensor<2xf32>>
  %0 = graph.mul %x, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = graph.mul %x, %d : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = graph.add %0, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %2 : tensor<2xf32>
}

// The first user of `%0` is looked at before the second op that `%0` stands for, the other behind it.
// CHECK-LABEL: @equal_behind_equal_ops
// CHECK-NEXT:    %[[A:.*]] = graph.neg %x
// CHECK-NEXT:    %[[B:.*]] = graph.tanh %[[A]]
// CHECK-NEXT:    func.return %[[B]], %[[B]]
func.func @equal_behind_equal_ops(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.tanh %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.tanh %2 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1, %3 : tensor<4xf32>, tensor<4xf32>
}

// Properties and types tell ops apart.
// CHECK-LABEL: @unequal_ops
// CHECK-NEXT:    graph.reshape
// CHECK-NEXT:    graph.reshape
func.func @unequal_ops(%x: tensor<4xf32>) -> (tensor<2x2xf32>, tensor<4x1xf32>) {
  %0 = graph.reshape %x {shape = array<i64: 2, 2>} : (tensor<4xf32>) -> tensor<2x2xf32>
  %1 = graph.reshape %x {shape = array<i64: 4, 1>} : (tensor<4xf32>) -> tensor<4x1xf32>
  func.return %0, %1 : tensor<2x2xf32>, tensor<4x1xf32>
}

// Each sum keeps the terms that fix-point gave it; changes of grid to bytes are merged.
// CHECK-LABEL: @terms_per_use
// CHECK:         graph.requantize %x, {{.*}} -> tensor<4xi32>
// CHECK-NEXT:    graph.requantize %x, {{.*}} -> tensor<4xi32>
// CHECK-NEXT:    %[[Q:.*]] = graph.requantize %x, {{.*}} -> tensor<4xi8>
// CHECK-NEXT:    return {{.*}}, %[[Q]], %[[Q]]
func.func @terms_per_use(%x: tensor<4xi8>) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi8>, tensor<4xi8>) {
  %m = graph.constant #graph.array<[3] : tensor<i32>>
  %0 = graph.requantize %x, %m {to = i32, rounding = #graph.fixed<shift = 0, half_up>, zero_point = 5 : i64} : (tensor<4xi8>, tensor<i32>) -> tensor<4xi32>
  %1 = graph.requantize %x, %m {to = i32, rounding = #graph.fixed<shift = 0, half_up>, zero_point = 5 : i64} : (tensor<4xi8>, tensor<i32>) -> tensor<4xi32>
  %2 = graph.requantize %x, %m {rounding = #graph.fixed<shift = 1, half_up>, zero_point = 5 : i64} : (tensor<4xi8>, tensor<i32>) -> tensor<4xi8>
  %3 = graph.requantize %x, %m {rounding = #graph.fixed<shift = 1, half_up>, zero_point = 5 : i64} : (tensor<4xi8>, tensor<i32>) -> tensor<4xi8>
  func.return %0, %1, %2, %3 : tensor<4xi32>, tensor<4xi32>, tensor<4xi8>, tensor<4xi8>
}

// Each use keeps the dequantize that normalize-qdq gave it.
// CHECK-LABEL: @dequantize_per_use
// CHECK:         %[[A:.*]] = graph.dequantize
// CHECK-NEXT:    %[[B:.*]] = graph.dequantize
// CHECK-NEXT:    graph.add %[[A]], %[[B]]
func.func @dequantize_per_use(%x: tensor<4xi8>) -> tensor<4xf32> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %2 = graph.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// CHECK-LABEL: @reshapes
// CHECK-NEXT:    %[[Y:.*]] = graph.reshape %x {shape = array<i64: 2, 6>}
// CHECK-NEXT:    func.return %[[Y]], %x
func.func @reshapes(%x: tensor<1x3x4xf32>) -> (tensor<2x6xf32>, tensor<1x3x4xf32>) {
  %0 = graph.flatten %x {axis = 1 : i64} : (tensor<1x3x4xf32>) -> tensor<1x12xf32>
  %1 = graph.reshape %0 {shape = array<i64: 2, 6>} : (tensor<1x12xf32>) -> tensor<2x6xf32>
  %2 = graph.squeeze %x {axes = array<i64: 0>} : (tensor<1x3x4xf32>) -> tensor<3x4xf32>
  %3 = graph.unsqueeze %2 {axes = array<i64: 0>} : (tensor<3x4xf32>) -> tensor<1x3x4xf32>
  func.return %1, %3 : tensor<2x6xf32>, tensor<1x3x4xf32>
}

// CHECK-LABEL: @transposes
// CHECK-NEXT:    %[[Y:.*]] = graph.transpose %x {perm = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
// CHECK-NEXT:    func.return %[[Y]], %x
func.func @transposes(%x: tensor<2x3x4xf32>) -> (tensor<4x2x3xf32>, tensor<2x3x4xf32>) {
  %0 = graph.transpose %x {perm = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = graph.transpose %0 {perm = array<i64: 1, 2, 0>} : (tensor<3x4x2xf32>) -> tensor<4x2x3xf32>
  %2 = graph.transpose %0 {perm = array<i64: 2, 0, 1>} : (tensor<3x4x2xf32>) -> tensor<2x3x4xf32>
  func.return %1, %2 : tensor<4x2x3xf32>, tensor<2x3x4xf32>
}

// CHECK-LABEL: @activations
// CHECK-NEXT:    %[[R:.*]] = graph.relu %x
// CHECK-NEXT:    %[[C:.*]] = graph.clip %x
// CHECK-NEXT:    func.return %[[R]], %[[C]], %x
func.func @activations(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.clip %x {min = #graph.array<[0.0] : tensor<f32>>, max = #graph.array<[6.0] : tensor<f32>>} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.relu %2 : (tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.clip %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: @movement_of_nothing
// CHECK-NEXT:    func.return %x
func.func @movement_of_nothing(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = graph.cast %x {to = f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = graph.expand %0 {shape = array<i64: 2, 3>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = graph.tile %1 {repeats = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = graph.slice %2 {starts = array<i64: 0, 0>, sizes = array<i64: 2, 3>, steps = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = graph.pad %3 {pads = array<i64: 0, 0, 0, 0>, mode = "constant"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = graph.split %4 {axis = 1 : i64, split = array<i64: 3>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %5 : tensor<2x3xf32>
}

// The types are the same, the elements are not.
// CHECK-LABEL: @movement
// CHECK-NEXT:    graph.slice
// CHECK-NEXT:    graph.pad
// CHECK-NEXT:    graph.cast
func.func @movement(%x: tensor<2x3xf32>) -> tensor<2x3xi32> {
  %0 = graph.slice %x {starts = array<i64: 0, 2>, sizes = array<i64: 2, 3>, steps = array<i64: 1, -1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = graph.pad %0 {pads = array<i64: 1, 0, -1, 0>, mode = "constant"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = graph.cast %1 {to = i32} : (tensor<2x3xf32>) -> tensor<2x3xi32>
  func.return %2 : tensor<2x3xi32>
}

// A quotient by the scales' own ratio: bytes lose their zero point and get it back.
// CHECK-LABEL: @zero_point_and_back
// CHECK-NEXT:    func.return %x
func.func @zero_point_and_back(%x: tensor<4xi8>) -> tensor<4xi8> {
  %one = graph.constant #graph.array<[1] : tensor<i32>>
  %0 = graph.requantize %x, %one {to = i32, rounding = #graph.fixed<shift = 0, half_up>, zero_point = -9 : i64} : (tensor<4xi8>, tensor<i32>) -> tensor<4xi32>
  %1 = graph.requantize %0, %one {to = i8, rounding = #graph.fixed<shift = 0, half_up>, zero_point = 9 : i64} : (tensor<4xi32>, tensor<i32>) -> tensor<4xi8>
  func.return %1 : tensor<4xi8>
}

// Bytes that saturate do not come back, another zero point is a change, and so is a product.
// CHECK-LABEL: @changes
// CHECK-COUNT-5: graph.requantize
func.func @changes(%x: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi8>, tensor<4xi8>) {
  %one = graph.constant #graph.array<[1] : tensor<i32>>
  %two = graph.constant #graph.array<[2] : tensor<i32>>
  %0 = graph.requantize %x, %one {to = i8, rounding = #graph.fixed<shift = 0, half_up>, zero_point = -9 : i64} : (tensor<4xi8>, tensor<i32>) -> tensor<4xi8>
  %1 = graph.requantize %0, %one {to = i8, rounding = #graph.fixed<shift = 0, half_up>, zero_point = 9 : i64} : (tensor<4xi8>, tensor<i32>) -> tensor<4xi8>
  %2 = graph.requantize %x, %one {to = i32, rounding = #graph.fixed<shift = 0, half_up>, zero_point = -9 : i64} : (tensor<4xi8>, tensor<i32>) -> tensor<4xi32>
  %3 = graph.requantize %2, %one {to = i8, rounding = #graph.fixed<shift = 0, half_up>, zero_point = 8 : i64} : (tensor<4xi32>, tensor<i32>) -> tensor<4xi8>
  %4 = graph.requantize %2, %two {to = i8, rounding = #graph.fixed<shift = 0, half_up>, zero_point = 9 : i64} : (tensor<4xi32>, tensor<i32>) -> tensor<4xi8>
  func.return %1, %3, %4 : tensor<4xi8>, tensor<4xi8>, tensor<4xi8>
}
