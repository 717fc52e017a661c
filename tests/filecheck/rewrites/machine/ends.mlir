// RUN: byocir-opt --no-debuginfo --load-target %S/../../../programs/alu_engine.py:Engine -p 'overlap-stores' %s | filecheck %s

// The last work and its store are done in two parts: four would take longer, as each call takes some
// cycles more. What comes before stays, for this work takes longer than the store.
// CHECK-LABEL: func.func @last
// CHECK:       tir.block [i: 16, j: 8] ins(%x[i, j]
// CHECK:       tir.block [i: 16, j: 8] outs(%a[i, j]
// CHECK:         arith.addi
// CHECK:       tir.block [j: 8] ins(%f[j]
// CHECK:       tir.block [i: 8, j: 8] ins(%b[j] {{.*}} outs(%a[i, j]
// CHECK:         arith.muli
// CHECK:       tir.block [i: 8, j: 8] ins(%a[i, j] {{.*}} outs(%y[i, j]
// CHECK:       tir.block [i: 8, j: 8] ins(%b[j] {{.*}} outs(%a[i + 8, j]
// CHECK:       tir.block [i: 8, j: 8] ins(%a[i + 8, j] {{.*}} outs(%y[i + 8, j]
// CHECK-NOT:   tir.block
func.func @last(%x: memref<16x8xi8>, %f: memref<8xi32>, %y: memref<16x8xi8>) attributes {byoc.target = #byoc.target<"alu", {}>} {
  %a = tir.alloc : memref<16x8xi32, "alu.vectors">
  tir.block [i: 16, j: 8] ins(%x[i, j] : memref<16x8xi8>) outs(%a[i, j] : memref<16x8xi32, "alu.vectors">) {
  ^bb0(%p: i8, %old: i32):
    %r = arith.extsi %p : i8 to i32
    tir.yield %r : i32
  }
  tir.block [i: 16, j: 8] outs(%a[i, j] : memref<16x8xi32, "alu.vectors">) {
  ^bb0(%old: i32):
    %n = arith.constant 3 : i32
    %r = arith.addi %old, %n : i32
    tir.yield %r : i32
  }
  %b = tir.alloc : memref<8xi32, "alu.vectors">
  tir.block [j: 8] ins(%f[j] : memref<8xi32>) outs(%b[j] : memref<8xi32, "alu.vectors">) {
  ^bb0(%p: i32, %old: i32):
    tir.yield %p : i32
  }
  tir.block [i: 16, j: 8] ins(%b[j] : memref<8xi32, "alu.vectors">) outs(%a[i, j] : memref<16x8xi32, "alu.vectors">) {
  ^bb0(%p: i32, %old: i32):
    %r = arith.muli %old, %p : i32
    tir.yield %r : i32
  }
  tir.block [i: 16, j: 8] ins(%a[i, j] : memref<16x8xi32, "alu.vectors">) outs(%y[i, j] : memref<16x8xi8>) {
  ^bb0(%p: i32, %old: i8):
    %r = arith.trunci %p : i32 to i8
    tir.yield %r : i8
  }
  func.return
}

// What the last block reads is something else once the store begins: it is done before.
// CHECK-LABEL: func.func @overwritten
// CHECK:       tir.block [i: 16, j: 8] ins(%b[j] {{.*}} outs(%a[i, j]
// CHECK:       tir.block [j: 8] ins(%f[j] {{.*}} outs(%b[j]
// CHECK:       tir.block [i: 16, j: 8] ins(%a[i, j] {{.*}} outs(%y[i, j]
// CHECK-NOT:   tir.block
func.func @overwritten(%a: memref<16x8xi32, "alu.vectors">, %b: memref<8xi32, "alu.vectors">, %f: memref<8xi32>, %y: memref<16x8xi8>) attributes {byoc.target = #byoc.target<"alu", {}>} {
  tir.block [i: 16, j: 8] ins(%b[j] : memref<8xi32, "alu.vectors">) outs(%a[i, j] : memref<16x8xi32, "alu.vectors">) {
  ^bb0(%p: i32, %old: i32):
    %r = arith.muli %old, %p : i32
    tir.yield %r : i32
  }
  tir.block [j: 8] ins(%f[j] : memref<8xi32>) outs(%b[j] : memref<8xi32, "alu.vectors">) {
  ^bb0(%p: i32, %old: i32):
    tir.yield %p : i32
  }
  tir.block [i: 16, j: 8] ins(%a[i, j] : memref<16x8xi32, "alu.vectors">) outs(%y[i, j] : memref<16x8xi8>) {
  ^bb0(%p: i32, %old: i8):
    %r = arith.trunci %p : i32 to i8
    tir.yield %r : i8
  }
  func.return
}
