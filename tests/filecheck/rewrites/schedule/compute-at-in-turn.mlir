// RUN: byocir-opt --no-debuginfo -p 'schedule{script="i, = tile(stored, i=4); compute_at(made, i)"}' %s | filecheck %s
// RUN: not byocir-opt --no-debuginfo -p 'schedule{script="i, = tile(stored, i=4); compute_at(once, i)"}' %s 2>&1 | filecheck %s --check-prefix=READ

// Sums, of which a copy is kept for what is added to them where it is not negative.
func.func @main(%x: memref<16xi32>, %y: memref<16xi32>, %z: memref<16xi32>) {
  %t = tir.alloc : memref<16xi32>
  %u = tir.alloc : memref<16xi32>
  tir.block [i: 16] ins(%x[i] : memref<16xi32>) outs(%t[i] : memref<16xi32>) {
  ^bb0(%a: i32, %old: i32):
    %0 = arith.addi %a, %a : i32
    tir.yield %0 : i32
  } loc("made")
  tir.block [i: 16] ins(%t[i] : memref<16xi32>) outs(%u[i] : memref<16xi32>) {
  ^bb0(%a: i32, %old: i32):
    %0 = arith.muli %a, %a : i32
    tir.yield %0 : i32
  } loc("kept")
  tir.block [i: 16] ins(%u[i] : memref<16xi32>) outs(%t[i] : memref<16xi32>) where(i - 1 >= 0) {
  ^bb0(%a: i32, %old: i32):
    %0 = arith.addi %a, %old : i32
    tir.yield %0 : i32
  } loc("added")
  %v = tir.alloc : memref<16xi32>
  tir.block [i: 16] ins(%x[i] : memref<16xi32>) outs(%v[i] : memref<16xi32>) where(i - 1 >= 0) {
  ^bb0(%a: i32, %old: i32):
    %0 = arith.addi %a, %a : i32
    tir.yield %0 : i32
  } loc("once")
  tir.block [i: 16] ins(%t[i] : memref<16xi32>, %v[i] : memref<16xi32>) outs(%y[i] : memref<16xi32>) {
  ^bb0(%a: i32, %b: i32, %old: i32):
    %0 = arith.addi %a, %b : i32
    tir.yield %0 : i32
  } loc("stored")
  func.return
}

// CHECK-LABEL: @main
// CHECK:       tir.block [i: 16] ins(%x[i] : memref<16xi32>) outs(%v[i] : memref<16xi32>) where(i - 1 >= 0)
// CHECK:       tir.for %i = 0 to 4 serial {
// CHECK-NEXT:    [[I:%[0-9]+]] = arith.muli %i, %c4 : index
// CHECK-NEXT:    tir.block [i: 4] at([[I]]) ins(%x[i] : memref<16xi32>) outs(%t[i] : memref<16xi32>)
// CHECK:         tir.block [i: 4] at([[I]]) ins(%t[i] : memref<16xi32>) outs(%u[i] : memref<16xi32>)
// CHECK:         tir.block [i: 4] at([[I]]) ins(%u[i] : memref<16xi32>) outs(%t[i] : memref<16xi32>) where(i - 1 >= 0)
// CHECK:         tir.block [i: 4] at([[I]]) ins(%t[i] : memref<16xi32>, %v[i] : memref<16xi32>)

// READ:      error[B256]: expected blocks that make the whole buffer, element by element, found tir.block of once
// READ-NEXT: at    tir.block of once
