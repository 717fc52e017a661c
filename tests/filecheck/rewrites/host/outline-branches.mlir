// RUN: byocir-opt -p outline-branches %s | filecheck %s

// Constants from outside are copied, other values passed; the graphs of an If in a graph follow.
// CHECK-LABEL: @main
// CHECK: %1 = graph.relu %x
// CHECK: graph.foreign "If" 21 (%c) {}
// CHECK-SAME: "then_branch" {
// CHECK-NEXT: %[[A:.*]] = func.call @branch_1(%1) : (tensor<3xf32>) -> tensor<3xf32>
// CHECK-NEXT: graph.yield %[[A]] : tensor<3xf32>
// CHECK-NEXT: } "else_branch" {
// CHECK-NEXT: %[[B:.*]] = func.call @branch_2(%c, %1) : (tensor<i1>, tensor<3xf32>) -> tensor<3xf32>
// CHECK: func.func @branch_0
func.func @main(%x: tensor<3xf32>, %c: tensor<i1>) -> tensor<3xf32> {
  %0 = graph.constant #graph.array<[1.0, 2.0, 3.0] : tensor<3xf32>>
  %1 = graph.relu %x : (tensor<3xf32>) -> tensor<3xf32>
  %2 = graph.foreign "If" 21 (%c) {} : (tensor<i1>) -> tensor<3xf32> "then_branch" {
    %3 = graph.add %1, %0 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    graph.yield %3 : tensor<3xf32>
  } "else_branch" {
    %4 = graph.foreign "If" 21 (%c) {} : (tensor<i1>) -> tensor<3xf32> "then_branch" {
      %5 = graph.neg %1 : (tensor<3xf32>) -> tensor<3xf32>
      graph.yield %5 : tensor<3xf32>
    } "else_branch" {
      graph.yield %1 : tensor<3xf32>
    }
    graph.yield %4 : tensor<3xf32>
  }
  func.return %2 : tensor<3xf32>
}
func.func @branch_0() {
  func.return
}
// What mostly runs in the evaluator stays in one piece.
// CHECK-LABEL: @foreign
// CHECK-NOT: func.call
func.func @foreign(%x: tensor<3xf32>, %c: tensor<i1>) -> tensor<?x?xi64> {
  %0 = graph.foreign "If" 21 (%c) {} : (tensor<i1>) -> tensor<?x?xi64> "then_branch" {
    %1 = graph.neg %x : (tensor<3xf32>) -> tensor<3xf32>
    %2 = graph.foreign "NonZero" 13 (%1) {} : (tensor<3xf32>) -> tensor<1x?xi64>
    %3 = graph.foreign "Transpose" 21 (%2) {} : (tensor<1x?xi64>) -> tensor<?x?xi64>
    graph.yield %3 : tensor<?x?xi64>
  } "else_branch" {
    %4 = graph.foreign "NonZero" 13 (%x) {} : (tensor<3xf32>) -> tensor<?x?xi64>
    graph.yield %4 : tensor<?x?xi64>
  }
  func.return %0 : tensor<?x?xi64>
}
// CHECK: func.func private @branch_1(%{{.*}}: tensor<3xf32>) -> tensor<3xf32> {
// CHECK-NEXT: %[[K:.*]] = graph.constant #graph.array<[1.0, 2.0, 3.0] : tensor<3xf32>>
// CHECK-NEXT: graph.add %{{.*}}, %[[K]]
// CHECK: func.func private @branch_2(
// CHECK: func.call @branch_3(
// CHECK: func.func private @branch_3(
// CHECK: graph.neg
// CHECK: func.func private @branch_4(
