// RUN: byocir-opt --no-debuginfo -p 'schedule{script="m, s = tile(sum, m=4, s=1); stage(sum, 0, near, at=s, strided=True)"}' %s | filecheck %s
// RUN: not byocir-opt -p 'schedule{script="m, s = tile(sum, m=4, s=1); stage(sum, 0, near, at=m, strided=True)"}' %s 2>&1 | filecheck %s --check-prefix=LOOP

// Every other element of a box, for one point of a window at a time.
func.func @main(%x: memref<18xi32>, %y: memref<8xi32>) {
  tir.block [m: 8 | s: 3] ins(%x[2 * m + s] : memref<18xi32>) outs(%y[m] : memref<8xi32>) {
  ^bb0(%a: i32, %acc: i32):
    %0 = arith.addi %acc, %a : i32
    tir.yield %0 : i32
  } loc("sum")
  func.return
}

// CHECK:       tir.for %s = 0 to 3 serial {
// CHECK-NEXT:    %2 = arith.addi %1, %s : index
// CHECK-NEXT:    %x_1 = tir.alloc : memref<4xi32, "near">
// CHECK-NEXT:    tir.block [d0: 4, s0: 1] at(%c0, %2) ins(%x[2 * d0 + s0] : memref<18xi32>) outs(%x_1[d0] : memref<4xi32, "near">) {
// CHECK:         tir.block [m: 4, m0: 1 | s: 1] at(%0, %0, %c0) ins(%x_1[m - m0] : memref<4xi32, "near">) outs(%y[m] : memref<8xi32>) {

// LOOP: error[B257]: expected an input that one block reads at the same steps in each iteration, to stage it strided, found another operand, or a loop in between
// LOOP: help  name the innermost loop that moves the input: at=…
