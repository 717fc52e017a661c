// RUN: not byocir-opt -p vta-legalise %s 2>&1 | filecheck %s

// Maxima of sums leave out the points around them, which is right for the least number alone.
// CHECK:      error[B322]: expected pad -128, found 5
// CHECK-NEXT:   at    node MaxPool_4, composite vta.conv_pool, function @conv_pool
func.func @conv_pool(%x: tensor<1x2x5xi8>) -> tensor<1x3x3xi8> attributes {byoc.target = #byoc.target<"vta", {}>} {
  %y = byoc.composite "vta.conv_pool" at "graph" (%a = %x : tensor<1x2x5xi8>) -> tensor<1x3x3xi8> {
    %w = tir.constant <[1, 2, 3, 4, 5, 6] : tensor<3x2xi8>> : tensor<3x2xi8>
    %zero = tir.fill 0 : i32 : tensor<1x3x5xi32>
    %acc = tir.block [n: 1, o: 3, h: 5 | c: 2] ins(%a[n, c, h] : tensor<1x2x5xi8>, %w[o, c] : tensor<3x2xi8>) outs(%zero[n, o, h] : tensor<1x3x5xi32>) {
    ^bb0(%p: i8, %q: i8, %r: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.extsi %q : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %r, %2 : i32
      tir.yield %3 : i32
    }
    %m = tir.constant <[3] : tensor<i32>> : tensor<i32>
    %e = tir.empty : tensor<1x3x5xi8>
    %q8 = tir.block [i: 1, j: 3, k: 5] ins(%acc[i, j, k] : tensor<1x3x5xi32>, %m[] : tensor<i32>) outs(%e[i, j, k] : tensor<1x3x5xi8>) {
    ^bb0(%p: i32, %f: i32, %r: i8):
      %0 = arith.extsi %p : i32 to i64
      %1 = arith.extsi %f : i32 to i64
      %2 = arith.muli %0, %1 : i64
      %s = arith.constant 4 : i64
      %4 = arith.shrsi %2, %s : i64
      %low = arith.constant -128 : i64
      %5 = arith.maxsi %4, %low : i64
      %high = arith.constant 127 : i64
      %6 = arith.minsi %5, %high : i64
      %7 = arith.trunci %6 : i64 to i8
      tir.yield %7 : i8
    }
    %least = tir.fill -128 : i8 : tensor<1x3x3xi8>
    %max = tir.block [n: 1, c: 3, h: 3 | r: 3] ins(%q8[n, c, h * 2 + r - 1] pad 5 : i8 : tensor<1x3x5xi8>) outs(%least[n, c, h] : tensor<1x3x3xi8>) {
    ^bb0(%p: i8, %r: i8):
      %0 = arith.maxsi %r, %p : i8
      tir.yield %0 : i8
    } loc("MaxPool_4")
    byoc.yield %max : tensor<1x3x3xi8>
  }
  func.return %y : tensor<1x3x3xi8>
}
