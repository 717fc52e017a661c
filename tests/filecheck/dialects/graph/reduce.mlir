// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @reduce(%x: tensor<1x4x8x8xf32>, %i: tensor<2x3xi8>) {
  %0 = graph.reduce_sum %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
  %1 = graph.reduce_mean %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
  %2 = graph.reduce_max %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
  %3 = graph.reduce_min %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
  %4 = graph.reduce_prod %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
  %5 = graph.reduce_l1 %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
  %6 = graph.reduce_l2 %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
  %7 = graph.reduce_sum_square %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
  %8 = graph.reduce_log_sum %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
  %9 = graph.reduce_log_sum_exp %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
  %10 = graph.reduce_mean %x {axes = array<i64: 2, 3>, keepdims = 1 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>
  %11 = graph.reduce_sum %i {axes = array<i64: 0>, keepdims = 1 : i64} : (tensor<2x3xi8>) -> tensor<1x3xi8>
  %12 = graph.arg_max %x {axis = 1 : i64, keepdims = 0 : i64, select_last_index = 1 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x8x8xi64>
  %13 = graph.arg_min %x {axis = 1 : i64, keepdims = 0 : i64, select_last_index = 1 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x8x8xi64>
  %14 = graph.softmax %x {axis = 3 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %15 = graph.log_softmax %x {axis = 3 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %16 = graph.hardmax %x {axis = 3 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %17 = graph.lp_norm %x {axis = 1 : i64, p = 2 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %18 = graph.cum_sum %i {axis = 1 : i64, exclusive = 0 : i64, reverse = 1 : i64} : (tensor<2x3xi8>) -> tensor<2x3xi8>
  func.return
}

// CHECK: %0 = graph.reduce_sum %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %1 = graph.reduce_mean %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %2 = graph.reduce_max %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %3 = graph.reduce_min %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %4 = graph.reduce_prod %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %5 = graph.reduce_l1 %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %6 = graph.reduce_l2 %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %7 = graph.reduce_sum_square %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %8 = graph.reduce_log_sum %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %9 = graph.reduce_log_sum_exp %x {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %10 = graph.reduce_mean %x {axes = array<i64: 2, 3>, keepdims = 1 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>
// CHECK-NEXT: %11 = graph.reduce_sum %i {axes = array<i64: 0>, keepdims = 1 : i64} : (tensor<2x3xi8>) -> tensor<1x3xi8>
// CHECK-NEXT: %12 = graph.arg_max %x {axis = 1 : i64, keepdims = 0 : i64, select_last_index = 1 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x8x8xi64>
// CHECK-NEXT: %13 = graph.arg_min %x {axis = 1 : i64, keepdims = 0 : i64, select_last_index = 1 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x8x8xi64>
// CHECK-NEXT: %14 = graph.softmax %x {axis = 3 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
// CHECK-NEXT: %15 = graph.log_softmax %x {axis = 3 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
// CHECK-NEXT: %16 = graph.hardmax %x {axis = 3 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
// CHECK-NEXT: %17 = graph.lp_norm %x {axis = 1 : i64, p = 2 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
// CHECK-NEXT: %18 = graph.cum_sum %i {axis = 1 : i64, exclusive = 0 : i64, reverse = 1 : i64} : (tensor<2x3xi8>) -> tensor<2x3xi8>
