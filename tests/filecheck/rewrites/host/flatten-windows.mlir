// RUN: byocir-opt -p flatten-windows %s | filecheck %s

// A padded 1x3 window over rows of 4: the rows of the copy are 6 long, the contraction walks over
// all of them, and what it computes at their ends is left out.

func.func @main(%x: tensor<2x3x4xf32>, %w: tensor<5x2x3xf32>) -> tensor<5x3x4xf32> {
  %0 = tir.fill 0.0 : f32 : tensor<5x3x4xf32>
  %1 = tir.block [o: 5, h: 3, w: 4 | c: 2, s: 3]
      ins(%x[c, h, w + s - 1] pad 0.0 : f32 : tensor<2x3x4xf32>, %w[o, c, s] : tensor<5x2x3xf32>)
      outs(%0[o, h, w] : tensor<5x3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    tir.yield %s : f32
  }
  func.return %1 : tensor<5x3x4xf32>
}

// CHECK:      %[[P:.*]] = tir.fill 0.000000e+00 : f32 : tensor<2x1x1x20xf32>
// CHECK-NEXT: %[[X:.*]] = tir.block [i0: 2, i1: 3, i2: 4] ins(%x[i0, i1, i2] : tensor<2x3x4xf32>) outs(%[[P]][i0, 0, 0, 6 * i1 + i2 + 1] : tensor<2x1x1x20xf32>) {
// CHECK:      %[[Z:.*]] = tir.fill 0.000000e+00 : f32 : tensor<5x18xf32>
// CHECK-NEXT: %[[Y:.*]] = tir.block [o: 5, h_w: 18 | c: 2, s: 3] ins(%[[X]][c, 0, 0, h_w + s] : tensor<2x1x1x20xf32>, %w[o, c, s] : tensor<5x2x3xf32>) outs(%[[Z]][o, h_w] : tensor<5x18xf32>) {
// CHECK:      tir.block [i0: 5, i1: 3, i2: 4] ins(%[[Y]][i0, 6 * i1 + i2] : tensor<5x18xf32>)
