// RUN: byocir-opt --no-debuginfo -p 'schedule{script="i, = tile(window, i=4); compute_at(double, i); stage(double, 1, near, at=i)"}' %s | filecheck %s

// The six elements that four windows read, doubled where they are needed, and kept near.
func.func @main(%x: memref<18xi32>, %y: memref<16xi32>) {
  %t = tir.alloc : memref<18xi32>
  tir.block [i: 18] ins(%x[i] : memref<18xi32>) outs(%t[i] : memref<18xi32>) {
  ^bb0(%a: i32, %old: i32):
    %0 = arith.addi %a, %a : i32
    tir.yield %0 : i32
  } loc("double")
  tir.block [i: 16 | r: 3] ins(%t[i + r] : memref<18xi32>) outs(%y[i] : memref<16xi32>) {
  ^bb0(%a: i32, %old: i32):
    %0 = arith.maxsi %a, %old : i32
    tir.yield %0 : i32
  } loc("window")
  func.return
}

// CHECK-LABEL: @main
// CHECK-NEXT:  %c0 = arith.constant 0 : index
// CHECK-NEXT:  %c4 = arith.constant 4 : index
// CHECK-NEXT:  tir.for %i = 0 to 4 serial {
// CHECK-NEXT:    %0 = arith.muli %i, %c4 : index
// CHECK-NEXT:    %t = tir.alloc : memref<6xi32, "near">
// CHECK-NEXT:    tir.block [i: 6, i0: 1] at(%0, %0) ins(%x[i] : memref<18xi32>) outs(%t[i - i0] : memref<6xi32, "near">)
// CHECK:         tir.block [i: 4, i0: 1 | r: 3] at(%0, %0, %c0) ins(%t[i - i0 + r] : memref<6xi32, "near">) outs(%y[i] : memref<16xi32>)
