// RUN: byocir-opt --no-debuginfo -p 'schedule{script="m, n = tile(gemm, m=4, n=3); stage(gemm, 0, near, at=m)"}' %s | filecheck %s

// The rows that a tile reads, for all its columns.
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
// CHECK-NEXT:  %c0 = arith.constant 0 : index
// CHECK-NEXT:  %c3 = arith.constant 3 : index
// CHECK-NEXT:  %c4 = arith.constant 4 : index
// CHECK-NEXT:  tir.for %m = 0 to 2 serial {
// CHECK-NEXT:    %0 = arith.muli %m, %c4 : index
// CHECK-NEXT:    %a_1 = tir.alloc : memref<4x12xi8, "near">
// CHECK-NEXT:    tir.copy %a[%0, %c0] to %a_1 sizes [4, 12] : memref<8x12xi8> to memref<4x12xi8, "near">
// CHECK-NEXT:    tir.for %n = 0 to 2 serial {
// CHECK-NEXT:      %1 = arith.muli %n, %c3 : index
// CHECK-NEXT:      tir.block [m: 4, n: 3, m0: 1 | k: 12] at(%0, %1, %0, %c0) ins(%a_1[m - m0, k] : memref<4x12xi8, "near">, %b[k, n] : memref<12x6xi8>) outs(%c[m, n] : memref<8x6xi32>)
