// RUN: byocir-opt --no-debuginfo -p 'schedule{script="m, = tile(gemm, m=1); split(m, 4)"}' %s | filecheck %s

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
// CHECK-NEXT:  %c4 = arith.constant 4 : index
// CHECK-NEXT:  %c0 = arith.constant 0 : index
// CHECK-NEXT:  tir.for %m = 0 to 2 serial {
// CHECK-NEXT:    %0 = arith.muli %m, %c4 : index
// CHECK-NEXT:    tir.for %m_1 = 0 to 4 serial {
// CHECK-NEXT:      %1 = arith.addi %0, %m_1 : index
// CHECK-NEXT:      tir.block [m: 1, n: 6 | k: 12] at(%1, %c0, %c0) ins(%a[m, k] : memref<8x12xi8>, %b[k, n] : memref<12x6xi8>) outs(%c[m, n] : memref<8x6xi32>)
