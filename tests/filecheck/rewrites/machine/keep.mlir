// RUN: byocir-opt --no-debuginfo --load-target %S/engine.py:Engine -p 'keep-on-chip' %s | filecheck %s

// What is stored to %y and loaded again stays: the second half of what is doubled is written where
// it is read, below a border.
// CHECK-LABEL: func.func @between
// CHECK-SAME:    byoc.kept_bytes = 24 : i64
// CHECK:       %[[Y:.*]] = tir.alloc : memref<4x4xi8, "engine.near">
// CHECK-NOT:   memref<3x4xi8>)
// CHECK:       tir.block [i: 3, j: 4] ins(%{{.*}}[i, j] : memref<3x4xi8, "engine.near">)
// CHECK-SAME:    outs(%[[Y]][i + 1, j] : memref<4x4xi8, "engine.near">)
// CHECK:       tir.block [j: 4] outs(%[[Y]][0, j] : memref<4x4xi8, "engine.near">)
// CHECK:       tir.block [i: 4, j: 4] ins(%[[Y]][i, j] : memref<4x4xi8, "engine.near">)
func.func @between(%x: memref<3x4xi8, "engine.near">, %z: memref<4x4xi8, "engine.near">) attributes {byoc.target = #byoc.target<"engine", {}>} {
  %y = tir.alloc : memref<3x4xi8>
  %t = tir.alloc : memref<3x4xi8, "engine.near">
  tir.block [i: 3, j: 4] ins(%x[i, j] : memref<3x4xi8, "engine.near">) outs(%t[i, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  tir.block [i: 3, j: 4] ins(%t[i, j] : memref<3x4xi8, "engine.near">) outs(%y[i, j] : memref<3x4xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  %u = tir.alloc : memref<4x4xi8, "engine.near">
  tir.block [j: 4] outs(%u[0, j] : memref<4x4xi8, "engine.near">) {
  ^bb0(%b: i8):
    %0 = arith.constant 0 : i8
    tir.yield %0 : i8
  }
  tir.block [i: 3, j: 4] ins(%y[i, j] : memref<3x4xi8>) outs(%u[i + 1, j] : memref<4x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  tir.block [i: 4, j: 4] ins(%u[i, j] : memref<4x4xi8, "engine.near">) outs(%z[i, j] : memref<4x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  func.return
}

// A part that begins inside a row of the array would need instructions to begin there: it is stored.
// CHECK-LABEL: func.func @inside
// CHECK-NOT:   kept_bytes
// CHECK:       tir.alloc : memref<2x6xi8>
func.func @inside(%x: memref<2x6xi8, "engine.near">, %z: memref<2x4xi8, "engine.near">) attributes {byoc.target = #byoc.target<"engine", {}>} {
  %y = tir.alloc : memref<2x6xi8>
  tir.block [i: 2, j: 6] ins(%x[i, j] : memref<2x6xi8, "engine.near">) outs(%y[i, j] : memref<2x6xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  %u = tir.alloc : memref<2x4xi8, "engine.near">
  tir.block [i: 2, j: 4] ins(%y[i, j + 2] : memref<2x6xi8>) outs(%u[i, j] : memref<2x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  tir.block [i: 2, j: 4] ins(%u[i, j] : memref<2x4xi8, "engine.near">) outs(%z[i, j] : memref<2x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  func.return
}

// What a tile held when it was stored is not there any more: the array keeps it.
// CHECK-LABEL: func.func @stored_before
// CHECK-NOT:   kept_bytes
// CHECK:       tir.alloc : memref<3x4xi8>
func.func @stored_before(%x: memref<3x4xi8, "engine.near">, %z: memref<3x4xi8, "engine.near">, %v: memref<3x4xi8>) attributes {byoc.target = #byoc.target<"engine", {}>} {
  %y = tir.alloc : memref<3x4xi8>
  %t = tir.alloc : memref<3x4xi8, "engine.near">
  tir.block [i: 3, j: 4] ins(%x[i, j] : memref<3x4xi8, "engine.near">) outs(%t[i, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  tir.block [i: 3, j: 4] ins(%t[i, j] : memref<3x4xi8, "engine.near">) outs(%y[i, j] : memref<3x4xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  tir.block [i: 3, j: 4] ins(%z[i, j] : memref<3x4xi8, "engine.near">) outs(%t[i, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  tir.block [i: 3, j: 4] ins(%t[i, j] : memref<3x4xi8, "engine.near">) outs(%v[i, j] : memref<3x4xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  %u = tir.alloc : memref<3x4xi8, "engine.near">
  tir.block [i: 3, j: 4] ins(%y[i, j] : memref<3x4xi8>) outs(%u[i, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  tir.block [i: 3, j: 4] ins(%u[i, j] : memref<3x4xi8, "engine.near">) outs(%z[i, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  func.return
}

// Two readers want other numbers around the array, at the same time; one after the other they share
// a buffer, as in @one_after_the_other.
// CHECK-LABEL: func.func @borders
// CHECK-NOT:   kept_bytes
// CHECK:       tir.alloc : memref<2x4xi8>
func.func @borders(%x: memref<2x4xi8, "engine.near">, %z: memref<3x4xi8, "engine.near">, %w: memref<3x4xi8, "engine.near">) attributes {byoc.target = #byoc.target<"engine", {}>} {
  %y = tir.alloc : memref<2x4xi8>
  %t = tir.alloc : memref<2x4xi8, "engine.near">
  tir.block [i: 2, j: 4] ins(%x[i, j] : memref<2x4xi8, "engine.near">) outs(%t[i, j] : memref<2x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  tir.block [i: 2, j: 4] ins(%t[i, j] : memref<2x4xi8, "engine.near">) outs(%y[i, j] : memref<2x4xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  %u = tir.alloc : memref<3x4xi8, "engine.near">
  tir.block [j: 4] outs(%u[0, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%b: i8):
    %0 = arith.constant 0 : i8
    tir.yield %0 : i8
  }
  tir.block [i: 2, j: 4] ins(%y[i, j] : memref<2x4xi8>) outs(%u[i + 1, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  %v = tir.alloc : memref<3x4xi8, "engine.near">
  tir.block [j: 4] outs(%v[0, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%b: i8):
    %0 = arith.constant 7 : i8
    tir.yield %0 : i8
  }
  tir.block [i: 2, j: 4] ins(%y[i, j] : memref<2x4xi8>) outs(%v[i + 1, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  tir.block [i: 3, j: 4] ins(%u[i, j] : memref<3x4xi8, "engine.near">) outs(%z[i, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  tir.block [i: 3, j: 4] ins(%v[i, j] : memref<3x4xi8, "engine.near">) outs(%w[i, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  func.return
}

// CHECK-LABEL: func.func @one_after_the_other
// CHECK-SAME:    byoc.kept_bytes = 24 : i64
func.func @one_after_the_other(%x: memref<2x4xi8, "engine.near">, %z: memref<3x4xi8, "engine.near">, %w: memref<3x4xi8, "engine.near">) attributes {byoc.target = #byoc.target<"engine", {}>} {
  %y = tir.alloc : memref<2x4xi8>
  %t = tir.alloc : memref<2x4xi8, "engine.near">
  tir.block [i: 2, j: 4] ins(%x[i, j] : memref<2x4xi8, "engine.near">) outs(%t[i, j] : memref<2x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  tir.block [i: 2, j: 4] ins(%t[i, j] : memref<2x4xi8, "engine.near">) outs(%y[i, j] : memref<2x4xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  %u = tir.alloc : memref<3x4xi8, "engine.near">
  tir.block [j: 4] outs(%u[0, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%b: i8):
    %0 = arith.constant 0 : i8
    tir.yield %0 : i8
  }
  tir.block [i: 2, j: 4] ins(%y[i, j] : memref<2x4xi8>) outs(%u[i + 1, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  tir.block [i: 3, j: 4] ins(%u[i, j] : memref<3x4xi8, "engine.near">) outs(%z[i, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  %v = tir.alloc : memref<3x4xi8, "engine.near">
  tir.block [j: 4] outs(%v[0, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%b: i8):
    %0 = arith.constant 7 : i8
    tir.yield %0 : i8
  }
  tir.block [i: 2, j: 4] ins(%y[i, j] : memref<2x4xi8>) outs(%v[i + 1, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  tir.block [i: 3, j: 4] ins(%v[i, j] : memref<3x4xi8, "engine.near">) outs(%w[i, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  func.return
}

// What else is done with a tile than by blocks cannot be done with another buffer.
// CHECK-LABEL: func.func @copied
// CHECK-NOT:   kept_bytes
// CHECK:       tir.alloc : memref<3x4xi8>
// CHECK:       tir.copy
func.func @copied(%x: memref<3x4xi8, "engine.near">, %z: memref<3x4xi8, "engine.near">, %v: memref<3x4xi8>) attributes {byoc.target = #byoc.target<"engine", {}>} {
  %y = tir.alloc : memref<3x4xi8>
  %t = tir.alloc : memref<3x4xi8, "engine.near">
  tir.block [i: 3, j: 4] ins(%x[i, j] : memref<3x4xi8, "engine.near">) outs(%t[i, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  tir.block [i: 3, j: 4] ins(%t[i, j] : memref<3x4xi8, "engine.near">) outs(%y[i, j] : memref<3x4xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  %c0 = arith.constant 0 : index
  tir.copy %t[%c0, %c0] to %v[%c0, %c0] sizes [3, 4] : memref<3x4xi8, "engine.near"> to memref<3x4xi8>
  %u = tir.alloc : memref<3x4xi8, "engine.near">
  tir.block [i: 3, j: 4] ins(%y[i, j] : memref<3x4xi8>) outs(%u[i, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  tir.block [i: 3, j: 4] ins(%u[i, j] : memref<3x4xi8, "engine.near">) outs(%z[i, j] : memref<3x4xi8, "engine.near">) {
  ^bb0(%a: i8, %b: i8):
    %0 = arith.addi %a, %a : i8
    tir.yield %0 : i8
  }
  func.return
}
