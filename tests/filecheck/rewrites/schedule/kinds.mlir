// RUN: byocir-opt --no-debuginfo -p 'schedule{script="m, n, k = tile(gemm, m=2, n=1, k=1); mo, mi = split(m, 2); reorder(mo, mi, k, n); parallel(mo); vthread(mi); unroll(k); vectorise(n)"}' %s | filecheck %s

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
// CHECK-NEXT:  %c2 = arith.constant 2 : index
// CHECK-NEXT:  tir.for %m = 0 to 2 parallel {
// CHECK-NEXT:    %0 = arith.muli %m, %c2 : index
// CHECK-NEXT:    tir.for %m_1 = 0 to 2 vthread {
// CHECK-NEXT:      %1 = arith.addi %0, %m_1 : index
// CHECK-NEXT:      %2 = arith.muli %1, %c2 : index
// CHECK-NEXT:      tir.for %k = 0 to 12 unroll {
// CHECK-NEXT:        tir.for %n = 0 to 6 vectorize {
// CHECK-NEXT:          tir.block [m: 2, n: 1 | k: 1] at(%2, %n, %k) ins(%a[m, k] : memref<8x12xi8>, %b[k, n] : memref<12x6xi8>) outs(%c[m, n] : memref<8x6xi32>)
