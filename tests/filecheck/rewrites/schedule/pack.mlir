// RUN: byocir-opt --no-debuginfo -p 'schedule{script="pack(gemm, 1, {1: 2, 0: 4})"}' %s | filecheck %s

// Weights in tiles of two columns and four rows; n and k become two iterators each.
func.func @main(%a: memref<8x12xi8>, %b: memref<12x6xi8>, %c: memref<8x6xi32>) {
  tir.block [m: 8, n: 6 | k: 12] ins(%a[m, k] : memref<8x12xi8>, %b[k, n] : memref<12x6xi8>) outs(%c[m, n] : memref<8x6xi32>) {
  ^bb0(%x: i8, %w: i8, %acc: i32):
    %0 = arith.extsi %x : i8 to i32
    %1 = arith.extsi %w : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    tir.yield %3 : i32
  } loc("gemm")
  func.return
}

// CHECK-LABEL: @main
// CHECK-NEXT:  %b_1 = tir.alloc : memref<3x3x2x4xi8>
// CHECK-NEXT:  tir.block [d0: 3, d1: 3, t1: 2, t0: 4] ins(%b[4 * d0 + t0, 2 * d1 + t1] : memref<12x6xi8>) outs(%b_1[d0, d1, t1, t0] : memref<3x3x2x4xi8>)
// CHECK:       tir.block [m: 8, n: 3, ni: 2 | k: 3, ki: 4] ins(%a[m, 4 * k + ki] : memref<8x12xi8>, %b_1[k, n, ni, ki] : memref<3x3x2x4xi8>) outs(%c[m, 2 * n + ni] : memref<8x6xi32>)
