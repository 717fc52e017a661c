// RUN: byocir-opt --no-debuginfo -p 'schedule{script="i, = tile(add, i=3, remainder=overlap); first, last = iterations(i); stage(add, 0, near, at=first)"}' %s | filecheck %s

// Two tiles, the second of which begins earlier; only the first reads from near memory.
func.func @main(%x: memref<5xi32>, %y: memref<5xi32>) {
  tir.block [i: 5] ins(%x[i] : memref<5xi32>) outs(%y[i] : memref<5xi32>) {
  ^bb0(%a: i32, %old: i32):
    %0 = arith.addi %a, %a : i32
    tir.yield %0 : i32
  } loc("add")
  func.return
}

// CHECK-LABEL: @main
// CHECK:       tir.for %i = 0 to 1 unroll {
// CHECK-NEXT:    %x_1 = tir.alloc : memref<3xi32, "near">
// CHECK-NEXT:    tir.copy %x[%c0] to %x_1 sizes [3]
// CHECK-NEXT:    tir.block [i: 3] ins(%x_1[i] : memref<3xi32, "near">)
// CHECK:       tir.for %i_1 = 0 to 1 unroll {
// CHECK-NEXT:    tir.block [i: 3] at(%c2) ins(%x[i] : memref<5xi32>)
