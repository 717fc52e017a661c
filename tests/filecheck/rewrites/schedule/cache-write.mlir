// RUN: byocir-opt --no-debuginfo -p 'schedule{script="stored = cache_write(gemm); m, = tile(stored, d0=4); compute_at(gemm, m)"}' %s | filecheck %s
// RUN: not byocir-opt -p 'schedule{script="cache_write(more)"}' %s 2>&1 | filecheck %s --check-prefix=OLD

// OLD:      error[B263]: expected a result written as a whole before it is read, found another
// OLD-NEXT: at    tir.block of more

func.func @main(%a: memref<8x6xi32>, %b: memref<6x5xi32>, %c: memref<8x5xi32>, %d: memref<8x5xi32>) {
  tir.fill 0 : i32 into %c : memref<8x5xi32>
  tir.block [m: 8, n: 5 | k: 6] ins(%a[m, k] : memref<8x6xi32>, %b[k, n] : memref<6x5xi32>) outs(%c[m, n] : memref<8x5xi32>) {
  ^bb0(%x: i32, %w: i32, %acc: i32):
    %0 = arith.muli %x, %w : i32
    %1 = arith.addi %acc, %0 : i32
    tir.yield %1 : i32
  } loc("gemm")
  tir.block [m: 8, n: 5] ins(%c[m, n] : memref<8x5xi32>) outs(%d[m, n] : memref<8x5xi32>) {
  ^bb0(%x: i32, %acc: i32):
    %0 = arith.addi %acc, %x : i32
    tir.yield %0 : i32
  } loc("more")
  func.return
}

// CHECK:      %c_1 = tir.alloc : memref<8x5xi32>
// CHECK-NEXT: tir.for %d0 = 0 to 2 serial {
// CHECK:        tir.block [d0: 4, d1: 5] at({{.*}}) outs(%c_1[d0, d1]
// CHECK:        tir.block [m: 4, n: 5 | k: 6] at({{.*}}) ins(%a[m, k] : memref<8x6xi32>, %b[k, n] : memref<6x5xi32>) outs(%c_1[m, n]
// CHECK:        tir.block [d0: 4, d1: 5] at({{.*}}) ins(%c_1[d0, d1] : memref<8x5xi32>) outs(%c[d0, d1]
// CHECK:      tir.block [m: 8, n: 5] ins(%c[m, n] : memref<8x5xi32>) outs(%d[m, n]
