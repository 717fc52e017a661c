// RUN: byocir-opt --no-debuginfo --load-target %S/../../../../examples/float_npu.py:FloatNpu -p 'split-bodies' %s | filecheck %s

// The squares that a norm adds up are computed first, each operation by a block of its own.
// CHECK-LABEL: func.func @squares
// CHECK:       %[[CENTRED:.*]] = tir.block [r: 8, c: 32] ins(%{{.*}}[r, c] : tensor<8x32xf32>, %{{.*}}[r] : tensor<8xf32>)
// CHECK:         arith.subf
// CHECK:       %[[SQUARES:.*]] = tir.block [r: 8, c: 32] ins(%[[CENTRED]][r, c] : tensor<8x32xf32>, %[[CENTRED]][r, c] : tensor<8x32xf32>)
// CHECK:         arith.mulf
// CHECK:       tir.block [r: 8 | c: 32] ins(%[[SQUARES]][r, c] : tensor<8x32xf32>)
// CHECK:         arith.addf %{{.*}} fastmath<reassoc> : f32
func.func @squares(%a: tensor<8x32xf32>, %b: tensor<8xf32>) -> tensor<8xf32> attributes {byoc.target = #byoc.target<"fnpu", {}>} {
  %r = byoc.composite "fnpu.any" at "tensor" (%x = %a : tensor<8x32xf32>, %mean = %b : tensor<8xf32>) -> tensor<8xf32> {
    %z = tir.fill 0.0 : f32 : tensor<8xf32>
    %out = tir.block [r: 8 | c: 32] ins(%x[r, c] : tensor<8x32xf32>, %mean[r] : tensor<8xf32>) outs(%z[r] : tensor<8xf32>) {
    ^bb0(%p: f32, %m: f32, %old: f32):
      %0 = arith.subf %p, %m : f32
      %1 = arith.mulf %0, %0 : f32
      %2 = arith.addf %old, %1 fastmath<reassoc> : f32
      tir.yield %2 : f32
    }
    byoc.yield %out : tensor<8xf32>
  }
  func.return %r : tensor<8xf32>
}

// No input has an element for each point of a product of matrices: it stays as it is.
// CHECK-LABEL: func.func @product
// CHECK:       tir.block
// CHECK-NOT:   tir.block
func.func @product(%a: tensor<8x4xf32>, %b: tensor<4x6xf32>) -> tensor<8x6xf32> attributes {byoc.target = #byoc.target<"fnpu", {}>} {
  %r = byoc.composite "fnpu.any" at "tensor" (%x = %a : tensor<8x4xf32>, %y = %b : tensor<4x6xf32>) -> tensor<8x6xf32> {
    %z = tir.fill 0.0 : f32 : tensor<8x6xf32>
    %out = tir.block [m: 8, n: 6 | k: 4] ins(%x[m, k] : tensor<8x4xf32>, %y[k, n] : tensor<4x6xf32>) outs(%z[m, n] : tensor<8x6xf32>) {
    ^bb0(%p: f32, %q: f32, %old: f32):
      %0 = arith.subf %p, %q : f32
      %1 = arith.addf %old, %0 : f32
      tir.yield %1 : f32
    }
    byoc.yield %out : tensor<8x6xf32>
  }
  func.return %r : tensor<8x6xf32>
}

// A number that all elements are divided by is part of the instruction, where that has one.
// CHECK-LABEL: func.func @scaled
// CHECK:       tir.block [i: 8, j: 32] ins(%{{.*}}[i, j] : tensor<8x32xf32>) outs
// CHECK:         arith.constant 4.000000e+00 : f32
// CHECK:         arith.divf
func.func @scaled(%a: tensor<8x32xf32>) -> tensor<8x32xf32> attributes {byoc.target = #byoc.target<"fnpu", {}>} {
  %r = byoc.composite "fnpu.any" at "tensor" (%x = %a : tensor<8x32xf32>) -> tensor<8x32xf32> {
    %s = tir.constant <[4.0] : tensor<f32>> : tensor<f32>
    %e = tir.empty : tensor<8x32xf32>
    %y = tir.block [i: 8, j: 32] ins(%x[i, j] : tensor<8x32xf32>, %s[] : tensor<f32>) outs(%e[i, j] : tensor<8x32xf32>) {
    ^bb0(%p: f32, %q: f32, %old: f32):
      %0 = arith.divf %p, %q : f32
      tir.yield %0 : f32
    }
    byoc.yield %y : tensor<8x32xf32>
  }
  func.return %r : tensor<8x32xf32>
}
