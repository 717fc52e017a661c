// RUN: byocir-opt -p convert-graph-to-tir,relax-contractions,pack-weights{cpu=x86-64-v2},fold-copies %s | filecheck %s

// The constant is laid out in panels as wide as a tile, the last of which is filled up with zeros.

func.func @main(%x: tensor<1x2xf32>) -> tensor<1x7xf32> {
  %w = graph.constant #graph.array<[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14] : tensor<2x7xf32>>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x7xf32>) -> tensor<1x7xf32>
  func.return %0 : tensor<1x7xf32>
}

// CHECK:      %[[W:.*]] = tir.constant <[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 8.0,
// CHECK:      %[[Z:.*]] = tir.fill 0.000000e+00 : f32 : tensor<1x8xf32>
// CHECK:      %[[P:.*]] = tir.block [m: 1, np: 1, n: 8 | k: 2] ins(%x[m, k] : tensor<1x2xf32>, %[[W]][np, k, n] : tensor<1x2x8xf32>) outs(%[[Z]][m, 8 * np + n] : tensor<1x8xf32>)
// CHECK:        arith.mulf {{.*}} fastmath<reassoc,contract> : f32
// CHECK:        arith.addf {{.*}} fastmath<reassoc,contract> : f32
// CHECK:      tir.block [i0: 1, i1: 7] ins(%[[P]][i0, i1] : tensor<1x8xf32>)
