// RUN: byocir-opt -p convert-graph-to-tir,pack-weights{cpu=x86-64-v4-vnni},fold-copies %s | filecheck %s

// Four neighbours along k lie side by side; zeros fill up the last four, beside which the other
// operand is read outside.

func.func @main(%x: tensor<1x3xui8>) -> tensor<1x4xi32> {
  %w = graph.constant #graph.array<[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] : tensor<3x4xi8>>
  %0 = graph.matmul %x, %w : (tensor<1x3xui8>, tensor<3x4xi8>) -> tensor<1x4xi32>
  func.return %0 : tensor<1x4xi32>
}

// CHECK:      %[[W:.*]] = tir.constant <[1, 5, 9, 0, 2, 6, 10, 0, 3, 7, 11, 0, 4, 8, 12, 0] : tensor<1x4x4xi8>>
// CHECK:      tir.block [m: 1, n: 4 | kp: 1, k: 4] ins(%x[m, 4 * kp + k] pad 0
