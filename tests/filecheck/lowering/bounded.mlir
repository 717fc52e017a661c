// RUN: byocir-opt -p convert-bounded-to-tir %s | filecheck %s

// Each result has the shape of the largest that it can be; what knows its size is static again.
// CHECK-LABEL: @places
// CHECK: tir.extern "non_zero"(%x) with {} within [array<i64: 2, 12>] : (tensor<3x4xf32>) -> tensor<2x?xi64>
// CHECK: tir.extern "permute"(%0) with {order = 1 : i64} within [array<i64: 12, 2>] : (tensor<2x?xi64>) -> tensor<?x2xi64>
// CHECK: tir.extern "sizes_of"(%1) with {start = 0 : i64, end = 2 : i64} : (tensor<?x2xi64>) -> tensor<2xi64>
func.func @places(%x: tensor<3x4xf32>) -> tensor<2xi64> {
  %0 = graph.foreign "NonZero" 13 (%x) {} : (tensor<3x4xf32>) -> tensor<2x?xi64>
  %1 = graph.foreign "Transpose" 21 (%0) {perm = array<i64: 1, 0>} : (tensor<2x?xi64>) -> tensor<?x2xi64>
  %2 = graph.foreign "Shape" 21 (%1) {} : (tensor<?x2xi64>) -> tensor<2xi64>
  func.return %2 : tensor<2xi64>
}

// As many boxes as are asked for, of each class.
// CHECK-LABEL: @boxes
// CHECK: tir.extern "non_max_suppression"
// CHECK-SAME: with {center = 0 : i64, least = 0 : i64} within [array<i64: 6, 3>, array<i64: 9>]
func.func @boxes(%b: tensor<1x9x4xf32>, %s: tensor<1x2x9xf32>, %t: tensor<f32>) -> tensor<?x3xi64> {
  %n = graph.constant #graph.array<[3] : tensor<1xi64>>
  %0 = graph.foreign "NonMaxSuppression" 11 (%b, %s, %n, %t) {} : (tensor<1x9x4xf32>, tensor<1x2x9xf32>, tensor<1xi64>, tensor<f32>) -> tensor<?x3xi64>
  func.return %0 : tensor<?x3xi64>
}

// What has no bound stays.
// CHECK-LABEL: @open
// CHECK-NOT: tir.extern
func.func @open(%x: tensor<?x4xf32>) -> tensor<2x?xi64> {
  %0 = graph.foreign "NonZero" 13 (%x) {} : (tensor<?x4xf32>) -> tensor<2x?xi64>
  func.return %0 : tensor<2x?xi64>
}
