// RUN: byocir-opt --no-debuginfo -p fold-constants{max-growth=64} %s | filecheck %s

// CHECK-LABEL: @arithmetic
// CHECK-NEXT:    %[[C:.*]] = graph.constant #graph.array<[4.5, 7.0] : tensor<2xf32>>
// CHECK-NEXT:    func.return %[[C]]
func.func @arithmetic() -> tensor<2xf32> {
  %a = graph.constant #graph.array<[1.5, 2.0] : tensor<2xf32>>
  %b = graph.constant #graph.array<[3.0] : tensor<f32>>
  %0 = graph.mul %a, %b : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %c = graph.constant #graph.array<[0.0, 1.0] : tensor<2xf32>>
  %1 = graph.add %0, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %1 : tensor<2xf32>
}

// CHECK-LABEL: @integer_weight
// CHECK:         graph.constant #graph.array<[1, 3, 2, 4] : tensor<2x2xi8>>
// CHECK-NEXT:    graph.dequantize
func.func @integer_weight() -> tensor<2x2xf32> {
  %w = graph.constant #graph.array<[1, 2, 3, 4] : tensor<2x2xi8>>
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.transpose %w {perm = array<i64: 1, 0>} : (tensor<2x2xi8>) -> tensor<2x2xi8>
  %1 = graph.dequantize %0, %s, %z {axis = 1 : i64} : (tensor<2x2xi8>, tensor<f32>, tensor<i8>) -> tensor<2x2xf32>
  func.return %1 : tensor<2x2xf32>
}

// A weight that is quantised when the model runs.
// CHECK-LABEL: @quantised_weight
// CHECK:         graph.constant #graph.array<[-128, 2, 127] : tensor<3xi8>>
// CHECK-NEXT:    graph.dequantize
func.func @quantised_weight() -> tensor<3xf32> {
  %w = graph.constant #graph.array<[-99.0, 1.25, 99.0] : tensor<3xf32>>
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.quantize %w, %s, %z {axis = 1 : i64} : (tensor<3xf32>, tensor<f32>, tensor<i8>) -> tensor<3xi8>
  %1 = graph.dequantize %0, %s, %z {axis = 1 : i64} : (tensor<3xi8>, tensor<f32>, tensor<i8>) -> tensor<3xf32>
  func.return %1 : tensor<3xf32>
}

// Sums of floats depend on their order: not folded.
// CHECK-LABEL: @float_contraction
// CHECK:         graph.matmul
func.func @float_contraction() -> tensor<2x2xf32> {
  %a = graph.constant #graph.array<[1.0, 2.0, 3.0, 4.0] : tensor<2x2xf32>>
  %0 = graph.matmul %a, %a : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %0 : tensor<2x2xf32>
}

// CHECK-LABEL: @integer_contraction
// CHECK:         graph.constant #graph.array<[7, 10, 15, 22] : tensor<2x2xi32>>
// CHECK-NEXT:    func.return
func.func @integer_contraction() -> tensor<2x2xi32> {
  %a = graph.constant #graph.array<[1, 2, 3, 4] : tensor<2x2xi8>>
  %0 = graph.matmul %a, %a : (tensor<2x2xi8>, tensor<2x2xi8>) -> tensor<2x2xi32>
  func.return %0 : tensor<2x2xi32>
}

// Would grow by more than 64 bytes.
// CHECK-LABEL: @growth
// CHECK:         graph.add
func.func @growth() -> tensor<10x10xi32> {
  %a = graph.constant #graph.array<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9] : tensor<10xi32>>
  %b = graph.reshape %a {shape = array<i64: 10, 1>} : (tensor<10xi32>) -> tensor<10x1xi32>
  %0 = graph.add %a, %b : (tensor<10xi32>, tensor<10x1xi32>) -> tensor<10x10xi32>
  func.return %0 : tensor<10x10xi32>
}

// The values are not at hand.
// CHECK-LABEL: @absent
// CHECK:         graph.transpose
func.func @absent() -> tensor<5x4xi8> {
  %w = graph.constant #graph.array<"elsewhere" : tensor<4x5xi8>>
  %0 = graph.transpose %w {perm = array<i64: 1, 0>} : (tensor<4x5xi8>) -> tensor<5x4xi8>
  func.return %0 : tensor<5x4xi8>
}

// CHECK-LABEL: @movement
// CHECK:         graph.constant #graph.array<[0, 3, 1] : tensor<3xi32>>
// CHECK-NEXT:    func.return
func.func @movement() -> tensor<3xi32> {
  %a = graph.constant #graph.array<[1.5, 2.5, 3.5] : tensor<3xf32>>
  %0 = graph.slice %a {starts = array<i64: 2>, sizes = array<i64: 2>, steps = array<i64: -2>} : (tensor<3xf32>) -> tensor<2xf32>
  %1 = graph.pad %0 {pads = array<i64: 1, 0>, mode = "constant"} : (tensor<2xf32>) -> tensor<3xf32>
  %2 = graph.cast %1 {to = i32} : (tensor<3xf32>) -> tensor<3xi32>
  func.return %2 : tensor<3xi32>
}

// Libraries differ in the last bit of an exponential.
// CHECK-LABEL: @exponential
// CHECK:         graph.exp
func.func @exponential() -> tensor<2xf32> {
  %a = graph.constant #graph.array<[1.5, 2.0] : tensor<2xf32>>
  %0 = graph.exp %a : (tensor<2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}

// A sum of integers is exact, one of floats is not.
// CHECK-LABEL: @sums
// CHECK:         graph.constant #graph.array<[3] : tensor<i32>>
// CHECK:         graph.reduce_sum
func.func @sums() -> (tensor<i32>, tensor<f32>) {
  %a = graph.constant #graph.array<[1, 2] : tensor<2xi32>>
  %b = graph.constant #graph.array<[1.5, 2.0] : tensor<2xf32>>
  %0 = graph.reduce_sum %a {axes = array<i64: 0>, keepdims = 0 : i64} : (tensor<2xi32>) -> tensor<i32>
  %1 = graph.reduce_sum %b {axes = array<i64: 0>, keepdims = 0 : i64} : (tensor<2xf32>) -> tensor<f32>
  func.return %0, %1 : tensor<i32>, tensor<f32>
}

// What has no elements is known, whatever it is made from.
// CHECK-LABEL: @nothing
// CHECK-NEXT:    %[[E:.*]] = graph.constant #graph.array<[] : tensor<0x4xf32>>
// CHECK-NEXT:    func.return %[[E]]
func.func @nothing(%x: tensor<0x3xf32>, %w: tensor<3x4xf32>) -> tensor<0x4xf32> {
  %0 = graph.matmul %x, %w : (tensor<0x3xf32>, tensor<3x4xf32>) -> tensor<0x4xf32>
  func.return %0 : tensor<0x4xf32>
}
