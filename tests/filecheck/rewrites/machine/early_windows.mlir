// RUN: byocir-opt --no-debuginfo --load-target %S/../../../../examples/vta_machine.py:Vta16 -p 'split-bodies' %s | filecheck %s

// The greatest of what is computed is computed of the greatest. Of -101 the same is computed as of the
// least element, and of nothing greater: zero is made that number.
// CHECK-LABEL: func.func @scaled
// CHECK:       %[[ZERO:.*]] = tir.fill 0 : i32 : tensor<2x16xi32>
// CHECK-NEXT:  %[[START:.*]] = tir.block [d0: 2, d1: 16] outs(%[[ZERO]][d0, d1]
// CHECK:         arith.constant -100 : i32
// CHECK:       %[[MOST:.*]] = tir.block [h: 2, c: 16 | r: 3] ins(%{{.*}}[2 * h + r - 1, c] : tensor<4x16xi32>) outs(%[[START]][h, c] : tensor<2x16xi32>) where(2 * h + r - 1 >= 0)
// CHECK:         arith.maxsi
// CHECK:       tir.block [i: 2, j: 16] outs(%[[MOST]][i, j] : tensor<2x16xi32>)
// CHECK:         arith.addi
// CHECK:       func.return
func.func @scaled(%a: tensor<4x16xi32>) -> tensor<2x16xi8> attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %r = byoc.composite "vta16.any" at "tensor" (%x = %a : tensor<4x16xi32>) -> tensor<2x16xi8> {
    %s = tir.empty : tensor<4x16xi32>
    %sums = tir.block [i: 4, j: 16] ins(%x[i, j] : tensor<4x16xi32>) outs(%s[i, j] : tensor<4x16xi32>) {
    ^bb0(%p: i32, %old: i32):
      %n = arith.constant 9 : i32
      %0 = arith.shrsi %p, %n : i32
      tir.yield %0 : i32
    }
    %e = tir.empty : tensor<4x16xi8>
    %y = tir.block [i: 4, j: 16] ins(%sums[i, j] : tensor<4x16xi32>) outs(%e[i, j] : tensor<4x16xi8>) {
    ^bb0(%p: i32, %old: i8):
      %b = arith.constant 100 : i32
      %0 = arith.addi %p, %b : i32
      %n = arith.constant 0 : i32
      %1 = arith.maxsi %0, %n : i32
      %m = arith.constant 127 : i32
      %2 = arith.minsi %1, %m : i32
      %3 = arith.trunci %2 : i32 to i8
      tir.yield %3 : i8
    }
    %z = tir.fill -128 : i8 : tensor<2x16xi8>
    %out = tir.block [h: 2, c: 16 | r: 3] ins(%y[2 * h + r - 1, c] pad -128 : i8 : tensor<4x16xi8>) outs(%z[h, c] : tensor<2x16xi8>) {
    ^bb0(%p: i8, %old: i8):
      %0 = arith.maxsi %old, %p : i8
      tir.yield %0 : i8
    }
    byoc.yield %out : tensor<2x16xi8>
  }
  func.return %r : tensor<2x16xi8>
}

// What falls where elements rise stays in front: the greatest would be computed of the least.
// CHECK-LABEL: func.func @falling
// CHECK:       arith.muli
// CHECK:       tir.block [h: 2, c: 16 | r: 3] ins(%{{.*}}[h + r, c] : tensor<4x16xi32>)
// CHECK-NOT:   arith.muli
// CHECK:       func.return
func.func @falling(%a: tensor<4x16xi32>) -> tensor<2x16xi8> attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %r = byoc.composite "vta16.any" at "tensor" (%x = %a : tensor<4x16xi32>) -> tensor<2x16xi8> {
    %s = tir.empty : tensor<4x16xi32>
    %sums = tir.block [i: 4, j: 16] ins(%x[i, j] : tensor<4x16xi32>) outs(%s[i, j] : tensor<4x16xi32>) {
    ^bb0(%p: i32, %old: i32):
      %n = arith.constant 9 : i32
      %0 = arith.shrsi %p, %n : i32
      tir.yield %0 : i32
    }
    %e = tir.empty : tensor<4x16xi8>
    %y = tir.block [i: 4, j: 16] ins(%sums[i, j] : tensor<4x16xi32>) outs(%e[i, j] : tensor<4x16xi8>) {
    ^bb0(%p: i32, %old: i8):
      %b = arith.constant -3 : i32
      %0 = arith.muli %p, %b : i32
      %n = arith.constant -128 : i32
      %1 = arith.maxsi %0, %n : i32
      %m = arith.constant 127 : i32
      %2 = arith.minsi %1, %m : i32
      %3 = arith.trunci %2 : i32 to i8
      tir.yield %3 : i8
    }
    %z = tir.fill -128 : i8 : tensor<2x16xi8>
    %out = tir.block [h: 2, c: 16 | r: 3] ins(%y[h + r, c] : tensor<4x16xi8>) outs(%z[h, c] : tensor<2x16xi8>) {
    ^bb0(%p: i8, %old: i8):
      %0 = arith.maxsi %old, %p : i8
      tir.yield %0 : i8
    }
    byoc.yield %out : tensor<2x16xi8>
  }
  func.return %r : tensor<2x16xi8>
}
