// RUN: byocir-opt -p split-phases %s | filecheck %s

// A transposed convolution with stride 2 and a kernel of 3: results at even places meet positions 0
// and 2 of the kernel, those at odd places position 1. Sums keep their order.

func.func @main(%x: tensor<4x5xf32>, %w: tensor<4x6x3xf32>) -> tensor<6x11xf32> {
  %0 = tir.fill 0.0 : f32 : tensor<6x11xf32>
  %1 = tir.block [o: 6, i: 11 | c: 4, k: 3]
      ins(%x[c, (i - k) floordiv 2] pad 0.0 : f32 : tensor<4x5xf32>, %w[c, o, k] : tensor<4x6x3xf32>)
      outs(%0[o, i] : tensor<6x11xf32>) where(-((i - k) mod 2) >= 0) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    tir.yield %s : f32
  }
  func.return %1 : tensor<6x11xf32>
}

// CHECK:      %[[Y:.*]] = tir.fill 0.000000e+00 : f32 : tensor<6x11xf32>
// CHECK:      %[[W:.*]] = tir.block [i0: 4, i1: 6, i2: 2] ins(%w[i0, i1, 2 * i2] : tensor<4x6x3xf32>)
// CHECK:      %[[EVEN:.*]] = tir.block [o: 6, i: 6 | c: 4, k: 2] ins(%x[c, i - k] pad 0.000000e+00 : f32 : tensor<4x5xf32>, %[[W]][c, o, k] : tensor<4x6x2xf32>)
// CHECK:      %[[PART:.*]] = tir.block [i0: 6, i1: 6] ins(%[[EVEN]][i0, i1] : tensor<6x6xf32>) outs(%[[Y]][i0, 2 * i1] : tensor<6x11xf32>)
// CHECK:      %[[V:.*]] = tir.block [i0: 4, i1: 6, i2: 1] ins(%w[i0, i1, 2 * i2 + 1] : tensor<4x6x3xf32>)
// CHECK:      %[[ODD:.*]] = tir.block [o: 6, i: 5 | c: 4, k: 1] ins(%x[c, i - k] pad 0.000000e+00 : f32 : tensor<4x5xf32>, %[[V]][c, o, k] : tensor<4x6x1xf32>)
// CHECK:      tir.block [i0: 6, i1: 5] ins(%[[ODD]][i0, i1] : tensor<6x5xf32>) outs(%[[PART]][i0, 2 * i1 + 1] : tensor<6x11xf32>)
