// RUN: not byocir-opt -p convert-graph-to-tir %s 2>&1 | filecheck %s

func.func @main(%x: tensor<4xui64>) -> tensor<4xui64> {
  %0 = graph.div %x, %x : (tensor<4xui64>, tensor<4xui64>) -> tensor<4xui64> loc("Div_7")
  func.return %0 : tensor<4xui64>
}

// CHECK: error[B311]: expected an op with a tensor-level form, found graph.div: bodies cannot compare or divide 64-bit unsigned integers
// CHECK-NEXT: at Div_7
// CHECK-NEXT: help give it to a target that takes it at graph level
