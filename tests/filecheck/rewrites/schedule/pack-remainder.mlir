// RUN: byocir-opt --no-debuginfo -p 'schedule{script="pack(gemm, 0, {1: 5})"}' %s | filecheck %s

// Twelve columns in three tiles of five: filled up with zeros, which a guard leaves out.
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
// CHECK-NEXT:  %a_1 = tir.alloc : memref<8x3x5xi8>
// CHECK-NEXT:  tir.block [d0: 8, d1: 3, t1: 5] ins(%a[d0, 5 * d1 + t1] pad 0 : i8 : memref<8x12xi8>) outs(%a_1[d0, d1, t1] : memref<8x3x5xi8>)
// CHECK:       tir.block [m: 8, n: 6 | k: 3, ki: 5] ins(%a_1[m, k, ki] : memref<8x3x5xi8>, %b[5 * k + ki, n] : memref<12x6xi8>) outs(%c[m, n] : memref<8x6xi32>) where(-5 * k - ki + 11 >= 0)
