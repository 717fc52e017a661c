// RUN: byocir-opt --no-debuginfo --load-target %S/../../../../examples/vta_machine.py:Vta16 -p 'select-instructions,allocate-memories,synchronise' %s | filecheck %s

// No tokens lead from the unit that stores to the one that loads. They go by way of the third, which
// has nothing to do in between: it adds zero to a row of what was stored.
// CHECK-LABEL: func.func @idle
// CHECK:       tir.intrinsic "vta16.load_acc" pushes(store) {
// CHECK:       tir.intrinsic "vta16.store_out" pops(compute) pushes(compute) {
// CHECK:       tir.intrinsic "vta16.add_number" (imm = 0) pops(store) pushes(load) {
// CHECK-NEXT:    tir.block [d1: 16] outs(%{{.*}}[0, d1] : memref<2x16xi32, "vta16.acc">)
// CHECK:       tir.intrinsic "vta16.load_inp" (top = 0, left = 0) pops(compute) {
func.func @idle(%x: memref<2x16xi32>) attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %a = tir.alloc : memref<2x16xi32, "vta16.acc">
  %t = tir.alloc : memref<2x16xi8>
  %b = tir.alloc : memref<2x16xi8, "vta16.inp">
  tir.block [i: 2, j: 16] ins(%x[i, j] : memref<2x16xi32>) outs(%a[i, j] : memref<2x16xi32, "vta16.acc">) {
  ^bb0(%p: i32, %old: i32):
    tir.yield %p : i32
  }
  tir.block [i: 2, j: 16] ins(%a[i, j] : memref<2x16xi32, "vta16.acc">) outs(%t[i, j] : memref<2x16xi8>) {
  ^bb0(%p: i32, %old: i8):
    %r = arith.trunci %p : i32 to i8
    tir.yield %r : i8
  }
  tir.block [i: 2, j: 16] ins(%t[i, j] : memref<2x16xi8>) outs(%b[i, j] : memref<2x16xi8, "vta16.inp">) {
  ^bb0(%p: i8, %old: i8):
    tir.yield %p : i8
  }
  func.return
}

// An instruction of the third unit that comes in between passes the token on.
// CHECK-LABEL: func.func @busy
// CHECK:       tir.intrinsic "vta16.store_out" pops(compute) pushes(compute) {
// CHECK:       tir.intrinsic "vta16.load_acc" pops(store) pushes(load) {
// CHECK:       tir.intrinsic "vta16.load_inp" (top = 0, left = 0) pops(compute) {
// CHECK-NOT:   tir.intrinsic
func.func @busy(%x: memref<2x16xi32>) attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %a = tir.alloc : memref<2x16xi32, "vta16.acc">
  %c = tir.alloc : memref<2x16xi32, "vta16.acc">
  %t = tir.alloc : memref<2x16xi8>
  %b = tir.alloc : memref<2x16xi8, "vta16.inp">
  tir.block [i: 2, j: 16] ins(%x[i, j] : memref<2x16xi32>) outs(%a[i, j] : memref<2x16xi32, "vta16.acc">) {
  ^bb0(%p: i32, %old: i32):
    tir.yield %p : i32
  }
  tir.block [i: 2, j: 16] ins(%a[i, j] : memref<2x16xi32, "vta16.acc">) outs(%t[i, j] : memref<2x16xi8>) {
  ^bb0(%p: i32, %old: i8):
    %r = arith.trunci %p : i32 to i8
    tir.yield %r : i8
  }
  tir.block [i: 2, j: 16] ins(%x[i, j] : memref<2x16xi32>) outs(%c[i, j] : memref<2x16xi32, "vta16.acc">) {
  ^bb0(%p: i32, %old: i32):
    tir.yield %p : i32
  }
  tir.block [i: 2, j: 16] ins(%t[i, j] : memref<2x16xi8>) outs(%b[i, j] : memref<2x16xi8, "vta16.inp">) {
  ^bb0(%p: i8, %old: i8):
    tir.yield %p : i8
  }
  func.return
}
