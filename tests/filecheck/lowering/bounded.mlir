// RUN: byocir-opt -p convert-bounded-to-tir %s | filecheck %s

// Each result has the shape of the largest that it can be; what knows its size is static again.
// CHECK-LABEL: @places
// CHECK: %0 = tir.extern "non_zero"(%x) with {} within [array<i64: 2, 12>] : (tensor<3x4xf32>) -> tensor<2x?xi64>
// CHECK: tir.extern "sizes_of"(%0) with {start = 1 : i64, end = 2 : i64} : (tensor<2x?xi64>) -> tensor<1xi64>
// CHECK: tir.extern "permute"(%0) with {order = 1 : i64} within [array<i64: 12, 2>] : (tensor<2x?xi64>) -> tensor<?x2xi64>
// CHECK: graph.concat
func.func @places(%x: tensor<3x4xf32>) -> (tensor<2xi64>, tensor<?x2xi64>) {
  %0 = graph.foreign "NonZero" 13 (%x) {} : (tensor<3x4xf32>) -> tensor<2x?xi64>
  %1 = graph.foreign "Transpose" 21 (%0) {perm = array<i64: 1, 0>} : (tensor<2x?xi64>) -> tensor<?x2xi64>
  %2 = graph.foreign "Shape" 21 (%1) {} : (tensor<?x2xi64>) -> tensor<2xi64>
  func.return %2, %1 : tensor<2xi64>, tensor<?x2xi64>
}

// Arithmetic is that of the largest shape; a sum takes zeros beside the array.
// CHECK-LABEL: @sum
// CHECK: %0 = tir.extern "compress"
// CHECK: %[[held:.*]] = tir.extern "unpack"(%0, %{{.*}}) with {} : (tensor<?xf32>, tensor<1xi64>) -> tensor<8xf32>
// CHECK: %[[size:.*]] = tir.extern "sizes_of"(%0)
// CHECK: %[[exp:.*]] = graph.exp %[[held]]
// CHECK: tir.extern "pack"(%[[exp]], %[[size]]) with {open = 1 : i64} within [array<i64: 8>]
// CHECK: %[[inside:.*]] = graph.less %{{.*}}, %[[size]]
// CHECK: %[[zeros:.*]] = graph.where %[[inside]], %[[exp]]
// CHECK: graph.reduce_sum %[[zeros]]
func.func @sum(%x: tensor<8xf32>, %c: tensor<8xi1>) -> (tensor<f32>, tensor<?xf32>) {
  %0 = graph.foreign "Compress" 11 (%x, %c) {axis = 0 : i64} : (tensor<8xf32>, tensor<8xi1>) -> tensor<?xf32>
  %1 = graph.foreign "Exp" 13 (%0) {} : (tensor<?xf32>) -> tensor<?xf32>
  %2 = graph.foreign "ReduceSum" 13 (%1) {keepdims = 0 : i64} : (tensor<?xf32>) -> tensor<f32>
  func.return %2, %1 : tensor<f32>, tensor<?xf32>
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

// Of what steps back a start far before the first element is the first one.
// CHECK-LABEL: @slice
// CHECK: tir.extern "part"(%{{.*}}) with {} within [array<i64: 3, 1>]
func.func @slice(%x: tensor<3x4xf32>, %c: tensor<3xi1>) -> tensor<?x?xf32> {
  %from = graph.constant #graph.array<[-10] : tensor<1xi64>>
  %to = graph.constant #graph.array<[-100] : tensor<1xi64>>
  %axes = graph.constant #graph.array<[1] : tensor<1xi64>>
  %back = graph.constant #graph.array<[-1] : tensor<1xi64>>
  %0 = graph.foreign "Compress" 11 (%x, %c) {axis = 0 : i64} : (tensor<3x4xf32>, tensor<3xi1>) -> tensor<?x4xf32>
  %1 = graph.foreign "Slice" 13 (%0, %from, %to, %axes, %back) {} : (tensor<?x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x?xf32>
  func.return %1 : tensor<?x?xf32>
}

// The index of nothing ends the run.
// CHECK-LABEL: @choice
// CHECK: %[[size:.*]] = tir.extern "sizes_of"
// CHECK: %[[some:.*]] = tir.extern "not_empty"(%[[size]]) with {} : (tensor<1xi64>) -> tensor<1xi64>
// CHECK: %[[inside:.*]] = graph.less %{{.*}}, %[[some]]
// CHECK: %[[least:.*]] = graph.where %[[inside]]
// CHECK: graph.arg_max %[[least]]
func.func @choice(%x: tensor<8xf32>, %c: tensor<8xi1>) -> tensor<1xi64> {
  %0 = graph.foreign "Compress" 11 (%x, %c) {axis = 0 : i64} : (tensor<8xf32>, tensor<8xi1>) -> tensor<?xf32>
  %1 = graph.foreign "ArgMax" 13 (%0) {axis = 0 : i64, keepdims = 1 : i64} : (tensor<?xf32>) -> tensor<1xi64>
  func.return %1 : tensor<1xi64>
}
