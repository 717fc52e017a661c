// RUN: byocir-opt -p convert-graph-to-tir %s | filecheck %s

// Bodies cannot divide 64-bit unsigned integers: the op stays.

func.func @main(%x: tensor<4xui64>) -> tensor<4xui64> {
  %0 = graph.div %x, %x : (tensor<4xui64>, tensor<4xui64>) -> tensor<4xui64> loc("Div_7")
  func.return %0 : tensor<4xui64>
}

// CHECK: %0 = graph.div %x, %x : (tensor<4xui64>, tensor<4xui64>) -> tensor<4xui64>
