// RUN: byocir-opt --no-debuginfo --load-target %S/../../../../examples/vta_machine.py:Vta16 -p 'split-bodies' %s | filecheck %s

// Bytes become numbers of 32 bits, whose greatest become bytes. What the pad adds is left out, and
// -128, which no instruction sets, is made of zero.
// CHECK-LABEL: func.func @pool
// CHECK:       %[[WIDE:.*]] = tir.block [d0: 4, d1: 4, d2: 16] ins(%{{.*}}[d0, d1, d2] : tensor<4x4x16xi8>)
// CHECK:         arith.extsi
// CHECK:       %[[ZERO:.*]] = tir.fill 0 : i32 : tensor<2x2x16xi32>
// CHECK-NEXT:  %[[START:.*]] = tir.block [d0: 2, d1: 2, d2: 16] outs(%[[ZERO]][d0, d1, d2]
// CHECK:         arith.constant -128 : i32
// CHECK:         arith.addi
// CHECK:       %[[MOST:.*]] = tir.block [h: 2, w: 2, c: 16 | r: 3, s: 2]
// CHECK-SAME:    ins(%[[WIDE]][2 * h + r - 1, 2 * w + s, c] : tensor<4x4x16xi32>)
// CHECK-SAME:    outs(%[[START]][h, w, c] : tensor<2x2x16xi32>) where(2 * h + r - 1 >= 0)
// CHECK:         arith.maxsi
// CHECK:       tir.block [d0: 2, d1: 2, d2: 16] ins(%[[MOST]][d0, d1, d2] : tensor<2x2x16xi32>)
// CHECK:         arith.trunci
func.func @pool(%a: tensor<4x4x16xi8>) -> tensor<2x2x16xi8> attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %r = byoc.composite "vta16.any" at "tensor" (%x = %a : tensor<4x4x16xi8>) -> tensor<2x2x16xi8> {
    %z = tir.fill -128 : i8 : tensor<2x2x16xi8>
    %out = tir.block [h: 2, w: 2, c: 16 | r: 3, s: 2] ins(%x[2 * h + r - 1, 2 * w + s, c] pad -128 : i8 : tensor<4x4x16xi8>) outs(%z[h, w, c] : tensor<2x2x16xi8>) {
    ^bb0(%p: i8, %old: i8):
      %0 = arith.maxsi %old, %p : i8
      tir.yield %0 : i8
    }
    byoc.yield %out : tensor<2x2x16xi8>
  }
  func.return %r : tensor<2x2x16xi8>
}

// Windows of what the composite computes widen nothing: it leaves out to narrow. No element is below
// zero, so that all may begin there.
// CHECK-LABEL: func.func @rectified
// CHECK:       %[[ZERO:.*]] = tir.fill 0 : i32 : tensor<2x16xi32>
// CHECK-NEXT:  tir.block [h: 2, c: 16 | r: 3] ins(%{{.*}}[h + r, c] : tensor<4x16xi32>) outs(%[[ZERO]][h, c]
func.func @rectified(%a: tensor<4x16xi32>) -> tensor<2x16xi8> attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %r = byoc.composite "vta16.any" at "tensor" (%x = %a : tensor<4x16xi32>) -> tensor<2x16xi8> {
    %e = tir.empty : tensor<4x16xi8>
    %y = tir.block [i: 4, j: 16] ins(%x[i, j] : tensor<4x16xi32>) outs(%e[i, j] : tensor<4x16xi8>) {
    ^bb0(%p: i32, %old: i8):
      %n = arith.constant 0 : i32
      %0 = arith.maxsi %p, %n : i32
      %m = arith.constant 127 : i32
      %1 = arith.minsi %0, %m : i32
      %2 = arith.trunci %1 : i32 to i8
      tir.yield %2 : i8
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

// Elements that are below the number with which all begin do not let them begin with zero.
// CHECK-LABEL: func.func @at_least
// CHECK:       %[[ZERO:.*]] = tir.fill 0 : i32 : tensor<2x16xi32>
// CHECK-NEXT:  %[[FIVE:.*]] = tir.block [d0: 2, d1: 16] outs(%[[ZERO]][d0, d1]
// CHECK:         arith.constant 5 : i32
// CHECK:       tir.block [h: 2, c: 16 | r: 3] ins(%{{.*}}[h + r, c] : tensor<4x16xi32>) outs(%[[FIVE]][h, c]
func.func @at_least(%a: tensor<4x16xi32>) -> tensor<2x16xi8> attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %r = byoc.composite "vta16.any" at "tensor" (%x = %a : tensor<4x16xi32>) -> tensor<2x16xi8> {
    %e = tir.empty : tensor<4x16xi8>
    %y = tir.block [i: 4, j: 16] ins(%x[i, j] : tensor<4x16xi32>) outs(%e[i, j] : tensor<4x16xi8>) {
    ^bb0(%p: i32, %old: i8):
      %n = arith.constant 0 : i32
      %0 = arith.maxsi %p, %n : i32
      %m = arith.constant 127 : i32
      %1 = arith.minsi %0, %m : i32
      %2 = arith.trunci %1 : i32 to i8
      tir.yield %2 : i8
    }
    %z = tir.fill 5 : i8 : tensor<2x16xi8>
    %out = tir.block [h: 2, c: 16 | r: 3] ins(%y[h + r, c] : tensor<4x16xi8>) outs(%z[h, c] : tensor<2x16xi8>) {
    ^bb0(%p: i8, %old: i8):
      %0 = arith.maxsi %old, %p : i8
      tir.yield %0 : i8
    }
    byoc.yield %out : tensor<2x16xi8>
  }
  func.return %r : tensor<2x16xi8>
}

// A pad that counts stays, and so do the bytes.
// CHECK-LABEL: func.func @padded
// CHECK:       tir.block [h: 2, c: 16 | r: 2] ins(%{{.*}}[h + r - 1, c] pad 5 : i8 : tensor<2x16xi8>)
// CHECK-NOT:   tir.block
func.func @padded(%a: tensor<2x16xi8>) -> tensor<2x16xi8> attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %r = byoc.composite "vta16.any" at "tensor" (%x = %a : tensor<2x16xi8>) -> tensor<2x16xi8> {
    %z = tir.fill -128 : i8 : tensor<2x16xi8>
    %out = tir.block [h: 2, c: 16 | r: 2] ins(%x[h + r - 1, c] pad 5 : i8 : tensor<2x16xi8>) outs(%z[h, c] : tensor<2x16xi8>) {
    ^bb0(%p: i8, %old: i8):
      %0 = arith.maxsi %old, %p : i8
      tir.yield %0 : i8
    }
    byoc.yield %out : tensor<2x16xi8>
  }
  func.return %r : tensor<2x16xi8>
}

// Sums of windows are taken the same way. With the points that guards leave, they lie between ends:
// 4 of 9 bytes here, so that no clamp is needed, and factors for each position are read as vectors.
// CHECK-LABEL: func.func @mean
// CHECK:       tir.block [h: 2, w: 2, c: 16 | r: 3]
// CHECK-SAME:    where(h + r - 1 >= 0, -h - r + 2 >= 0)
// CHECK:         arith.addi
// CHECK:       %[[SUMS:.*]] = tir.block [h: 2, w: 2, c: 16 | s: 3]
// CHECK-SAME:    where(w + s - 1 >= 0, -w - s + 2 >= 0)
// CHECK:         arith.addi
// CHECK:       %[[FACTORS:.*]] = tir.constant {{.*}} : tensor<2x2x16xi32>
// CHECK-NEXT:  %[[SCALED:.*]] = tir.block [i: 2, j: 2, k: 16] ins(%[[FACTORS]][i, j, k] : tensor<2x2x16xi32>) outs(%[[SUMS]][i, j, k]
// CHECK:         arith.muli
// CHECK:       tir.block [i: 2, j: 2, k: 16] outs(%[[SCALED]][i, j, k]
// CHECK:         arith.shrsi
// CHECK-NOT:   arith.maxsi
// CHECK-NOT:   arith.minsi
// CHECK:       func.return
func.func @mean(%a: tensor<2x2x16xi8>) -> tensor<2x2x16xi8> attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %r = byoc.composite "vta16.any" at "tensor" (%x = %a : tensor<2x2x16xi8>) -> tensor<2x2x16xi8> {
    %z = tir.fill 0 : i32 : tensor<2x2x16xi32>
    %s = tir.block [h: 2, w: 2, c: 16 | r: 3, s: 3] ins(%x[h + r - 1, w + s - 1, c] pad 0 : i8 : tensor<2x2x16xi8>) outs(%z[h, w, c] : tensor<2x2x16xi32>) {
    ^bb0(%p: i8, %old: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.addi %old, %0 : i32
      tir.yield %1 : i32
    }
    %m = tir.constant <[4194304, 2796203, 4194303, 4194304] : tensor<2x2xi32>> : tensor<2x2xi32>
    %e = tir.empty : tensor<2x2x16xi8>
    %out = tir.block [i: 2, j: 2, k: 16] ins(%s[i, j, k] : tensor<2x2x16xi32>, %m[i, j] : tensor<2x2xi32>) outs(%e[i, j, k] : tensor<2x2x16xi8>) {
    ^bb0(%p: i32, %n: i32, %old: i8):
      %0 = arith.extsi %p : i32 to i64
      %1 = arith.extsi %n : i32 to i64
      %2 = arith.muli %0, %1 : i64
      %by = arith.constant 24 : i64
      %3 = arith.shrsi %2, %by : i64
      %low = arith.constant -128 : i64
      %4 = arith.maxsi %3, %low : i64
      %high = arith.constant 127 : i64
      %5 = arith.minsi %4, %high : i64
      %6 = arith.trunci %5 : i64 to i8
      tir.yield %6 : i8
    }
    byoc.yield %out : tensor<2x2x16xi8>
  }
  func.return %r : tensor<2x2x16xi8>
}
