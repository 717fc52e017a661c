// RUN: byocir-opt --no-debuginfo -p 'schedule{script="m, n, k = tile(gemm, m=4, n=3, k=6); stage(gemm, 2, acc, at=n); stage(gemm, 0, near, at=k); stage(gemm, 1, near, at=k)"}' %s | filecheck %s

// With all operands staged a tile is a block in its own coordinates: no bases.
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
// CHECK-NEXT:  %c6 = arith.constant 6 : index
// CHECK-NEXT:  %c3 = arith.constant 3 : index
// CHECK-NEXT:  %c4 = arith.constant 4 : index
// CHECK-NEXT:  tir.for %m = 0 to 2 serial {
// CHECK-NEXT:    %0 = arith.muli %m, %c4 : index
// CHECK-NEXT:    tir.for %n = 0 to 2 serial {
// CHECK-NEXT:      %1 = arith.muli %n, %c3 : index
// CHECK-NEXT:      %c_1 = tir.alloc : memref<4x3xi32, "acc">
// CHECK-NEXT:      tir.copy %c[%0, %1] to %c_1 sizes [4, 3] : memref<8x6xi32> to memref<4x3xi32, "acc">
// CHECK-NEXT:      tir.for %k = 0 to 2 serial {
// CHECK-NEXT:        %2 = arith.muli %k, %c6 : index
// CHECK-NEXT:        %a_1 = tir.alloc : memref<4x6xi8, "near">
// CHECK-NEXT:        tir.copy %a[%0, %2] to %a_1 sizes [4, 6] : memref<8x12xi8> to memref<4x6xi8, "near">
// CHECK-NEXT:        %b_1 = tir.alloc : memref<6x3xi8, "near">
// CHECK-NEXT:        tir.copy %b[%2, %1] to %b_1 sizes [6, 3] : memref<12x6xi8> to memref<6x3xi8, "near">
// CHECK-NEXT:        tir.block [m: 4, n: 3 | k: 6] ins(%a_1[m, k] : memref<4x6xi8, "near">, %b_1[k, n] : memref<6x3xi8, "near">) outs(%c_1[m, n] : memref<4x3xi32, "acc">)
// CHECK:           tir.copy %c_1 to %c[%0, %1] sizes [4, 3] : memref<4x3xi32, "acc"> to memref<8x6xi32>
