// RUN: byocir-opt --no-debuginfo --load-target %S/../../../../examples/gemmini.py:Gemmini -p 'fuse-epilogues' %s | filecheck %s

// The sums begin with the bias, and one block rectifies and scales them.
// CHECK-LABEL: func.func @product
// CHECK-NOT:   tir.fill
// CHECK:       %[[BIAS:.*]] = tir.block [i: 2, j: 3] ins(%{{.*}}[j] : tensor<3xi32>) outs
// CHECK:         tir.yield %{{.*}} : i32
// CHECK:       %[[SUMS:.*]] = tir.block [m: 2, n: 3 | k: 4] {{.*}} outs(%[[BIAS]][m, n]
// CHECK:       tir.block [i: 2, j: 3] ins(%{{.*}}[] : tensor<f32>, %[[SUMS]][i, j] : tensor<2x3xi32>)
// CHECK:         arith.maxsi
// CHECK:         arith.sitofp
// CHECK:         arith.mulf
// CHECK-NOT:   tir.block
func.func @product(%a: tensor<2x4xi8>, %b: tensor<4x3xi8>, %bias: tensor<3xi32>, %s: tensor<f32>) -> tensor<2x3xi8> attributes {byoc.target = #byoc.target<"gemmini", {}>} {
  %r = byoc.composite "gemmini.matmul" at "tensor" (%x = %a : tensor<2x4xi8>, %w = %b : tensor<4x3xi8>, %c = %bias : tensor<3xi32>, %f = %s : tensor<f32>) -> tensor<2x3xi8> {
    %z = tir.fill 0 : i32 : tensor<2x3xi32>
    %y = tir.block [m: 2, n: 3 | k: 4] ins(%x[m, k] : tensor<2x4xi8>, %w[k, n] : tensor<4x3xi8>) outs(%z[m, n] : tensor<2x3xi32>) {
    ^bb0(%p: i8, %q: i8, %old: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.extsi %q : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %old, %2 : i32
      tir.yield %3 : i32
    }
    %e = tir.empty : tensor<2x3xi32>
    %biased = tir.block [i: 2, j: 3] ins(%y[i, j] : tensor<2x3xi32>, %c[j] : tensor<3xi32>) outs(%e[i, j] : tensor<2x3xi32>) {
    ^bb0(%p: i32, %q: i32, %old: i32):
      %0 = arith.addi %p, %q : i32
      tir.yield %0 : i32
    }
    %e1 = tir.empty : tensor<2x3xi32>
    %relu = tir.block [i: 2, j: 3] ins(%biased[i, j] : tensor<2x3xi32>) outs(%e1[i, j] : tensor<2x3xi32>) {
    ^bb0(%p: i32, %old: i32):
      %c0 = arith.constant 0 : i32
      %0 = arith.maxsi %p, %c0 : i32
      tir.yield %0 : i32
    }
    %e2 = tir.empty : tensor<2x3xi8>
    %out = tir.block [i: 2, j: 3] ins(%relu[i, j] : tensor<2x3xi32>, %f[] : tensor<f32>) outs(%e2[i, j] : tensor<2x3xi8>) {
    ^bb0(%p: i32, %q: f32, %old: i8):
      %0 = arith.sitofp %p : i32 to f32
      %1 = arith.mulf %0, %q : f32
      %2 = math.roundeven %1 : f32
      %lo = arith.constant -128.0 : f32
      %3 = arith.maximumf %2, %lo : f32
      %hi = arith.constant 127.0 : f32
      %4 = arith.minimumf %3, %hi : f32
      %5 = arith.fptosi %4 : f32 to i8
      tir.yield %5 : i8
    }
    byoc.yield %out : tensor<2x3xi8>
  }
  func.return %r : tensor<2x3xi8>
}

// The second term is added to the first: Gemmini has a load that adds.
// CHECK-LABEL: func.func @sum
// CHECK:       %[[FIRST:.*]] = tir.block [i: 4] ins(%{{.*}}[i] : tensor<4xi8>) outs
// CHECK:         arith.extsi
// CHECK:       tir.block [i: 4] ins(%{{.*}}[i] : tensor<4xi8>) outs(%[[FIRST]][i] : tensor<4xi32>) {
// CHECK:       ^bb0(%[[Y:.*]]: i8, %[[OLD:.*]]: i32):
// CHECK:         arith.extsi %[[Y]]
// CHECK:         arith.addi
// CHECK-NOT:   tir.block
func.func @sum(%a: tensor<4xi8>, %b: tensor<4xi8>) -> tensor<4xi32> attributes {byoc.target = #byoc.target<"gemmini", {}>} {
  %r = byoc.composite "gemmini.add" at "tensor" (%x = %a : tensor<4xi8>, %y = %b : tensor<4xi8>) -> tensor<4xi32> {
    %e = tir.empty : tensor<4xi32>
    %wx = tir.block [i: 4] ins(%x[i] : tensor<4xi8>) outs(%e[i] : tensor<4xi32>) {
    ^bb0(%p: i8, %old: i32):
      %0 = arith.extsi %p : i8 to i32
      tir.yield %0 : i32
    }
    %e1 = tir.empty : tensor<4xi32>
    %wy = tir.block [i: 4] ins(%y[i] : tensor<4xi8>) outs(%e1[i] : tensor<4xi32>) {
    ^bb0(%p: i8, %old: i32):
      %0 = arith.extsi %p : i8 to i32
      tir.yield %0 : i32
    }
    %e2 = tir.empty : tensor<4xi32>
    %out = tir.block [i: 4] ins(%wx[i] : tensor<4xi32>, %wy[i] : tensor<4xi32>) outs(%e2[i] : tensor<4xi32>) {
    ^bb0(%p: i32, %q: i32, %old: i32):
      %0 = arith.addi %p, %q : i32
      tir.yield %0 : i32
    }
    byoc.yield %out : tensor<4xi32>
  }
  func.return %r : tensor<4xi32>
}

// A sum of two terms and a number begins with the number, of which a row is brought.
// CHECK-LABEL: func.func @sum_and_number
// CHECK:       %[[ROW:.*]] = tir.constant <[42, 42, 42, 42] : tensor<4xi32>>
// CHECK:       %[[BEGUN:.*]] = tir.block [i: 2, j: 4] ins(%[[ROW]][j] : tensor<4xi32>) outs
// CHECK:       %[[FIRST:.*]] = tir.block [d0: 2, d1: 4] ins(%{{.*}}[d0, d1] : tensor<2x4xi8>) outs(%[[BEGUN]][d0, d1] : tensor<2x4xi32>) {
// CHECK:       ^bb0(%[[X:.*]]: i8, %[[OLD:.*]]: i32):
// CHECK:         arith.extsi %[[X]]
// CHECK:         arith.addi %[[OLD]]
// CHECK:       tir.block [i: 2, j: 4] ins(%{{.*}}[i, j] : tensor<2x4xi8>) outs(%[[FIRST]][i, j] : tensor<2x4xi32>) {
// CHECK-NOT:   tir.block
func.func @sum_and_number(%a: tensor<2x4xi8>, %b: tensor<2x4xi8>) -> tensor<2x4xi32> attributes {byoc.target = #byoc.target<"gemmini", {}>} {
  %r = byoc.composite "gemmini.add" at "tensor" (%x = %a : tensor<2x4xi8>, %y = %b : tensor<2x4xi8>) -> tensor<2x4xi32> {
    %number = tir.constant <[42] : tensor<i32>> : tensor<i32>
    %e = tir.empty : tensor<2x4xi32>
    %wx = tir.block [i: 2, j: 4] ins(%x[i, j] : tensor<2x4xi8>) outs(%e[i, j] : tensor<2x4xi32>) {
    ^bb0(%p: i8, %old: i32):
      %0 = arith.extsi %p : i8 to i32
      tir.yield %0 : i32
    }
    %e1 = tir.empty : tensor<2x4xi32>
    %wy = tir.block [i: 2, j: 4] ins(%y[i, j] : tensor<2x4xi8>) outs(%e1[i, j] : tensor<2x4xi32>) {
    ^bb0(%p: i8, %old: i32):
      %0 = arith.extsi %p : i8 to i32
      tir.yield %0 : i32
    }
    %e2 = tir.empty : tensor<2x4xi32>
    %both = tir.block [i: 2, j: 4] ins(%wx[i, j] : tensor<2x4xi32>, %wy[i, j] : tensor<2x4xi32>) outs(%e2[i, j] : tensor<2x4xi32>) {
    ^bb0(%p: i32, %q: i32, %old: i32):
      %0 = arith.addi %p, %q : i32
      tir.yield %0 : i32
    }
    %e3 = tir.empty : tensor<2x4xi32>
    %out = tir.block [i: 2, j: 4] ins(%both[i, j] : tensor<2x4xi32>, %number[] : tensor<i32>) outs(%e3[i, j] : tensor<2x4xi32>) {
    ^bb0(%p: i32, %q: i32, %old: i32):
      %0 = arith.addi %p, %q : i32
      tir.yield %0 : i32
    }
    byoc.yield %out : tensor<2x4xi32>
  }
  func.return %r : tensor<2x4xi32>
}
