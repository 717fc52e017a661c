// RUN: byocir-opt -p group-foreign %s | filecheck %s

// What can run one after the other is one model, with the constants that it uses.
// CHECK-LABEL: @main
// CHECK: %[[e:.*]] = graph.exp %y
// CHECK-NEXT: %[[r:.*]] = func.call @foreign_0(%x, %[[e]]) : (tensor<?xf32>, tensor<4xf32>) -> tensor<?xf32>
// CHECK-NEXT: func.return %[[r]], %[[e]]
func.func @main(%x: tensor<?xf32>, %y: tensor<4xf32>) -> (tensor<?xf32>, tensor<4xf32>) {
  %0 = graph.foreign "Neg" 13 (%x) {} : (tensor<?xf32>) -> tensor<?xf32> loc("a")
  %1 = graph.exp %y : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.constant #graph.array<[2.0] : tensor<f32>>
  %3 = graph.foreign "Mul" 14 (%0, %2) {} : (tensor<?xf32>, tensor<f32>) -> tensor<?xf32> loc("b")
  %4 = graph.foreign "Concat" 13 (%3, %1) {axis = 0 : i64} : (tensor<?xf32>, tensor<4xf32>) -> tensor<?xf32> loc("c")
  func.return %4, %1 : tensor<?xf32>, tensor<4xf32>
}

// What a graph op between them needs ends a group; so does what ONNX Runtime is not asked for.
// CHECK-LABEL: @apart
// CHECK-COUNT-3: graph.foreign
func.func @apart(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = graph.foreign "Size" 21 (%x) {} : (tensor<?xf32>) -> tensor<i64>
  %1 = graph.neg %0 : (tensor<i64>) -> tensor<i64>
  %2 = graph.foreign "Add" 14 (%0, %1) {} : (tensor<i64>, tensor<i64>) -> tensor<?xf32>
  %3 = graph.foreign "Dropout" 13 (%2) {} : (tensor<?xf32>) -> tensor<?xf32>
  func.return %3 : tensor<?xf32>
}

// CHECK-LABEL: func.func private @foreign_0
// CHECK-SAME: attributes {byoc.whole}
// CHECK-NEXT: graph.constant
// CHECK-NEXT: graph.foreign "Neg"
// CHECK-NEXT: graph.foreign "Mul"
// CHECK-NEXT: %[[c:.*]] = graph.foreign "Concat"
// CHECK-NEXT: func.return %[[c]]
