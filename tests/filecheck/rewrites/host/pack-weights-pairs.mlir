// RUN: byocir-opt -p convert-graph-to-tir,pack-weights{cpu=x86-64-v2},fold-copies %s | filecheck %s

// Weights of 8 bits are widened, with neighbours along k side by side.

func.func @main(%x: tensor<1x4xi8>) -> tensor<1x4xi32> {
  %w = graph.constant #graph.array<[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16] : tensor<4x4xi8>>
  %0 = graph.matmul %x, %w : (tensor<1x4xi8>, tensor<4x4xi8>) -> tensor<1x4xi32>
  func.return %0 : tensor<1x4xi32>
}

// CHECK:      %[[W:.*]] = tir.constant <[1, 5, 2, 6, 3, 7, 4, 8, 9, 13, 10, 14, 11, 15, 12, 16] : tensor<2x4x2xi16>>
// CHECK:      tir.block [m: 1, n: 4 | kp: 2, k: 2] ins(%x[m, 2 * kp + k] : tensor<1x4xi8>, %[[W]][kp, n, k] : tensor<2x4x2xi16>)
// CHECK:        arith.extsi %{{.*}} : i16 to i32
