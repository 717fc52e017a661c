// RUN: byocir-opt --no-debuginfo -p 'schedule{script="pack(gemm, 2, {0: 4})"}' %s | filecheck %s

// What is written is packed before, for the sums go on, and unpacked after.
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
// CHECK-NEXT:  %c_1 = tir.alloc : memref<2x6x4xi32>
// CHECK-NEXT:  tir.block [d0: 2, d1: 6, t0: 4] ins(%c[4 * d0 + t0, d1] : memref<8x6xi32>) outs(%c_1[d0, d1, t0] : memref<2x6x4xi32>)
// CHECK:       tir.block [m: 2, mi: 4, n: 6 | k: 12] ins(%a[4 * m + mi, k] : memref<8x12xi8>, %b[k, n] : memref<12x6xi8>) outs(%c_1[m, n, mi] : memref<2x6x4xi32>)
// CHECK:       tir.block [d0: 8, d1: 6] ins(%c_1[d0 floordiv 4, d1, d0 mod 4] : memref<2x6x4xi32>) outs(%c[d0, d1] : memref<8x6xi32>)
