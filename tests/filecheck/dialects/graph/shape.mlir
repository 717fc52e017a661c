// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @shape(%x: tensor<1x4x2x2xf32>, %y: tensor<1x3x2x2xf32>) {
  %0 = graph.reshape %x {shape = array<i64: 4, 4>} : (tensor<1x4x2x2xf32>) -> tensor<4x4xf32>
  %1 = graph.flatten %x {axis = 1 : i64} : (tensor<1x4x2x2xf32>) -> tensor<1x16xf32>
  %2 = graph.flatten %x {axis = 0 : i64} : (tensor<1x4x2x2xf32>) -> tensor<1x16xf32>
  %3 = graph.squeeze %x {axes = array<i64: 0>} : (tensor<1x4x2x2xf32>) -> tensor<4x2x2xf32>
  %4 = graph.unsqueeze %x {axes = array<i64: 0, 3>} : (tensor<1x4x2x2xf32>) -> tensor<1x1x4x1x2x2xf32>
  %5 = graph.transpose %x {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x4x2x2xf32>) -> tensor<1x2x2x4xf32>
  %6 = graph.concat %x, %y {axis = 1 : i64} : (tensor<1x4x2x2xf32>, tensor<1x3x2x2xf32>) -> tensor<1x7x2x2xf32>
  func.return
}

// CHECK: %0 = graph.reshape %x {shape = array<i64: 4, 4>} : (tensor<1x4x2x2xf32>) -> tensor<4x4xf32>
// CHECK-NEXT: %1 = graph.flatten %x {axis = 1 : i64} : (tensor<1x4x2x2xf32>) -> tensor<1x16xf32>
// CHECK-NEXT: %2 = graph.flatten %x {axis = 0 : i64} : (tensor<1x4x2x2xf32>) -> tensor<1x16xf32>
// CHECK-NEXT: %3 = graph.squeeze %x {axes = array<i64: 0>} : (tensor<1x4x2x2xf32>) -> tensor<4x2x2xf32>
// CHECK-NEXT: %4 = graph.unsqueeze %x {axes = array<i64: 0, 3>} : (tensor<1x4x2x2xf32>) -> tensor<1x1x4x1x2x2xf32>
// CHECK-NEXT: %5 = graph.transpose %x {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x4x2x2xf32>) -> tensor<1x2x2x4xf32>
// CHECK-NEXT: %6 = graph.concat %x, %y {axis = 1 : i64} : (tensor<1x4x2x2xf32>, tensor<1x3x2x2xf32>) -> tensor<1x7x2x2xf32>
