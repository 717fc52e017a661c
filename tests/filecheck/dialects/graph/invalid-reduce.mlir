// RUN: byocir-opt --verify-diagnostics --parsing-diagnostics --split-input-file %s | filecheck %s

func.func @reduce_sum_bool(%x: tensor<2xi1>) {
  // CHECK: expected an input of numbers, found i1
  %0 = graph.reduce_sum %x {axes = array<i64: 0>, keepdims = 0 : i64} : (tensor<2xi1>) -> tensor<i1>
  func.return
}

// -----

func.func @reduce_l2_integers(%x: tensor<2xi32>) {
  // CHECK: expected a floating-point tensor, found tensor<2xi32>
  %0 = graph.reduce_l2 %x {axes = array<i64: 0>, keepdims = 0 : i64} : (tensor<2xi32>) -> tensor<i32>
  func.return
}

// -----

func.func @reduce_max_empty(%x: tensor<0x2xf32>) {
  // CHECK: expected elements to choose from, found none
  %0 = graph.reduce_max %x {axes = array<i64: 0>, keepdims = 0 : i64} : (tensor<0x2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @reduce_keepdims(%x: tensor<2xf32>) {
  // CHECK: expected keepdims 0 or 1, found 2
  %0 = graph.reduce_sum %x {axes = array<i64: 0>, keepdims = 2 : i64} : (tensor<2xf32>) -> tensor<1xf32>
  func.return
}

// -----

func.func @arg_max_axis(%x: tensor<2xf32>) {
  // CHECK: expected axis from 0 to 0, found 1
  %0 = graph.arg_max %x {axis = 1 : i64, keepdims = 0 : i64, select_last_index = 0 : i64} : (tensor<2xf32>) -> tensor<i64>
  func.return
}

// -----

func.func @arg_max_last(%x: tensor<2xf32>) {
  // CHECK: expected select_last_index 0 or 1, found 3
  %0 = graph.arg_max %x {axis = 0 : i64, keepdims = 0 : i64, select_last_index = 3 : i64} : (tensor<2xf32>) -> tensor<i64>
  func.return
}

// -----

func.func @arg_min_empty(%x: tensor<0xf32>) {
  // CHECK: expected elements to choose from, found none
  %0 = graph.arg_min %x {axis = 0 : i64, keepdims = 0 : i64, select_last_index = 0 : i64} : (tensor<0xf32>) -> tensor<i64>
  func.return
}

// -----

func.func @arg_min_bool(%x: tensor<2xi1>) {
  // CHECK: expected an input of numbers, found i1
  %0 = graph.arg_min %x {axis = 0 : i64, keepdims = 0 : i64, select_last_index = 0 : i64} : (tensor<2xi1>) -> tensor<i64>
  func.return
}

// -----

func.func @hardmax_integers(%x: tensor<2xi32>) {
  // CHECK: expected a floating-point tensor, found tensor<2xi32>
  %0 = graph.hardmax %x {axis = 0 : i64} : (tensor<2xi32>) -> tensor<2xi32>
  func.return
}

// -----

func.func @lp_norm_p(%x: tensor<2xf32>) {
  // CHECK: expected p 1 or 2, found 3
  %0 = graph.lp_norm %x {axis = 0 : i64, p = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @cum_sum_flag(%x: tensor<2xf32>) {
  // CHECK: expected reverse 0 or 1, found 2
  %0 = graph.cum_sum %x {axis = 0 : i64, exclusive = 0 : i64, reverse = 2 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @cum_sum_bool(%x: tensor<2xi1>) {
  // CHECK: expected an input of numbers, found i1
  %0 = graph.cum_sum %x {axis = 0 : i64, exclusive = 0 : i64, reverse = 0 : i64} : (tensor<2xi1>) -> tensor<2xi1>
  func.return
}
