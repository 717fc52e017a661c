// RUN: byocir-opt -p convert-bounded-to-tir %s | filecheck %s

// What turns leave is written into an array that holds all of it.
// CHECK-LABEL: @turns
// CHECK: %[[rows:.*]] = tir.empty : tensor<3x2xf32>
// CHECK: %{{.*}}, %[[last:.*]], %[[all:.*]] = tir.for %[[t:.*]] = 0 to 3 serial carry(%{{.*}} = %{{.*}} : tensor<i64>, %[[h:.*]] = %x : tensor<2xf32>, %{{.*}} = %[[rows]] : tensor<3x2xf32>) {
// CHECK: %[[k:.*]] = graph.exp %[[h]]
// CHECK: tir.block [t: 1, i0: 2] at(%[[t]], %{{.*}}) ins(%[[k]][i0] : tensor<2xf32>) outs(%{{.*}}[t, i0] : tensor<3x2xf32>)
// CHECK: tir.extern "pack"(%[[all]]) with {open = 0 : i64} within [array<i64: 3, 2>]
func.func @turns(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<?x2xf32>) {
  %n = graph.constant #graph.array<[3] : tensor<i64>>
  %0, %1 = graph.foreign "Loop" 21 (%n, none, %x) {} : (tensor<i64>, tensor<2xf32>) -> (tensor<2xf32>, tensor<?x2xf32>) "body" {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %h: tensor<2xf32>):
    %k = graph.exp %h : (tensor<2xf32>) -> tensor<2xf32>
    graph.yield %c, %k, %k : tensor<i1>, tensor<2xf32>, tensor<2xf32>
  }
  func.return %0, %1 : tensor<2xf32>, tensor<?x2xf32>
}

// Nobody knows how many rows there will be.
// CHECK-LABEL: @open
// CHECK: graph.foreign "Loop"
func.func @open(%n: tensor<i64>, %x: tensor<2xf32>) -> tensor<?x2xf32> {
  %0, %1 = graph.foreign "Loop" 21 (%n, none, %x) {} : (tensor<i64>, tensor<2xf32>) -> (tensor<2xf32>, tensor<?x2xf32>) "body" {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %h: tensor<2xf32>):
    %k = graph.exp %h : (tensor<2xf32>) -> tensor<2xf32>
    graph.yield %c, %k, %k : tensor<i1>, tensor<2xf32>, tensor<2xf32>
  }
  func.return %1 : tensor<?x2xf32>
}
