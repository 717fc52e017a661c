// RUN: byocir-opt --no-debuginfo --load-target %S/../../../programs/narrowing_engine.py:Engine -p 'keep-on-chip' %s | filecheck %s

// The core pads what it reads: there is nothing around %y on the chip, and windows read beyond it.
// CHECK-LABEL: func.func @outside
// CHECK-SAME:    byoc.kept_bytes = 96 : i64
// CHECK:       %[[Y:.*]] = tir.alloc : memref<3x16xi8, "narrowing.near">
// CHECK-NOT:   memref<3x16xi8>
// CHECK:       tir.block {{.*}} outs(%[[Y]][i, j] : memref<3x16xi8, "narrowing.near">)
// CHECK:       tir.block [h: 3, o: 16 | r: 3, c: 16] ins(%[[Y]][h + r - 1, c] pad 0 : i8 : memref<3x16xi8, "narrowing.near">
func.func @outside(%x: memref<3x16xi32, "narrowing.sums">, %w: memref<3x16x16xi8, "narrowing.near">, %z: memref<3x16xi32, "narrowing.sums">) attributes {byoc.target = #byoc.target<"narrowing", {pads = true, windows = true}>} {
  %y = tir.alloc : memref<3x16xi8>
  %t = tir.alloc : memref<3x16xi8, "narrowing.near">
  tir.block [i: 3, j: 16] ins(%x[i, j] : memref<3x16xi32, "narrowing.sums">) outs(%t[i, j] : memref<3x16xi8, "narrowing.near">) {
  ^bb0(%a: i32, %b: i8):
    %four = arith.constant 4 : i32
    %low = arith.constant -128 : i32
    %high = arith.constant 127 : i32
    %0 = arith.shrsi %a, %four : i32
    %1 = arith.maxsi %0, %low : i32
    %2 = arith.minsi %1, %high : i32
    %3 = arith.trunci %2 : i32 to i8
    tir.yield %3 : i8
  }
  tir.block [i: 3, j: 16] ins(%t[i, j] : memref<3x16xi8, "narrowing.near">) outs(%y[i, j] : memref<3x16xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  %u = tir.alloc : memref<5x16xi8, "narrowing.near">
  tir.block [i: 5, j: 16] ins(%y[i - 1, j] pad 0 : i8 : memref<3x16xi8>) outs(%u[i, j] : memref<5x16xi8, "narrowing.near">) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  tir.block [h: 3, o: 16 | r: 3, c: 16] ins(%u[h + r, c] : memref<5x16xi8, "narrowing.near">, %w[r, c, o] : memref<3x16x16xi8, "narrowing.near">) outs(%z[h, o] : memref<3x16xi32, "narrowing.sums">) {
  ^bb0(%p: i8, %q: i8, %acc: i32):
    %0 = arith.extsi %p : i8 to i32
    %1 = arith.extsi %q : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    tir.yield %3 : i32
  }
  func.return
}

// The core reads what it finds: what the load set around %y is set around the buffer, once.
// CHECK-LABEL: func.func @around
// CHECK-SAME:    byoc.kept_bytes = 96 : i64
// CHECK:       %[[Y:.*]] = tir.alloc : memref<5x16xi8, "narrowing.near">
// CHECK:       tir.block {{.*}} outs(%[[Y]][i + 1, j] : memref<5x16xi8, "narrowing.near">)
// CHECK:       tir.block {{.*}} outs(%[[Y]][0, {{.*}}] : memref<5x16xi8, "narrowing.near">)
// CHECK:       tir.block {{.*}} outs(%[[Y]][4, {{.*}}] : memref<5x16xi8, "narrowing.near">)
// CHECK:       tir.block {{.*}} ins(%[[Y]][h, c] : memref<5x16xi8, "narrowing.near">
func.func @around(%x: memref<3x16xi32, "narrowing.sums">, %w: memref<16x16xi8, "narrowing.near">, %z: memref<5x16xi32, "narrowing.sums">) attributes {byoc.target = #byoc.target<"narrowing", {pads = true, windows = false}>} {
  %y = tir.alloc : memref<3x16xi8>
  %t = tir.alloc : memref<3x16xi8, "narrowing.near">
  tir.block [i: 3, j: 16] ins(%x[i, j] : memref<3x16xi32, "narrowing.sums">) outs(%t[i, j] : memref<3x16xi8, "narrowing.near">) {
  ^bb0(%a: i32, %b: i8):
    %four = arith.constant 4 : i32
    %low = arith.constant -128 : i32
    %high = arith.constant 127 : i32
    %0 = arith.shrsi %a, %four : i32
    %1 = arith.maxsi %0, %low : i32
    %2 = arith.minsi %1, %high : i32
    %3 = arith.trunci %2 : i32 to i8
    tir.yield %3 : i8
  }
  tir.block [i: 3, j: 16] ins(%t[i, j] : memref<3x16xi8, "narrowing.near">) outs(%y[i, j] : memref<3x16xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  %u = tir.alloc : memref<5x16xi8, "narrowing.near">
  tir.block [i: 5, j: 16] ins(%y[i - 1, j] pad 0 : i8 : memref<3x16xi8>) outs(%u[i, j] : memref<5x16xi8, "narrowing.near">) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  tir.block [h: 5, o: 16 | c: 16] ins(%u[h, c] : memref<5x16xi8, "narrowing.near">, %w[c, o] : memref<16x16xi8, "narrowing.near">) outs(%z[h, o] : memref<5x16xi32, "narrowing.sums">) {
  ^bb0(%p: i8, %q: i8, %acc: i32):
    %0 = arith.extsi %p : i8 to i32
    %1 = arith.extsi %q : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    tir.yield %3 : i32
  }
  func.return
}

// A block that reads nothing but pads would read nothing of the buffer, which no call does: the pads
// are set around it.
// CHECK-LABEL: func.func @nothing_but_pads
// CHECK:       %[[Y:.*]] = tir.alloc : memref<5x16xi8, "narrowing.near">
// CHECK:       tir.block {{.*}} ins(%[[Y]][0, c] : memref<5x16xi8, "narrowing.near">
func.func @nothing_but_pads(%x: memref<3x16xi32, "narrowing.sums">, %w: memref<16x16xi8, "narrowing.near">, %z: memref<3x16xi32, "narrowing.sums">) attributes {byoc.target = #byoc.target<"narrowing", {pads = true, windows = true}>} {
  %y = tir.alloc : memref<3x16xi8>
  %t = tir.alloc : memref<3x16xi8, "narrowing.near">
  tir.block [i: 3, j: 16] ins(%x[i, j] : memref<3x16xi32, "narrowing.sums">) outs(%t[i, j] : memref<3x16xi8, "narrowing.near">) {
  ^bb0(%a: i32, %b: i8):
    %four = arith.constant 4 : i32
    %low = arith.constant -128 : i32
    %high = arith.constant 127 : i32
    %0 = arith.shrsi %a, %four : i32
    %1 = arith.maxsi %0, %low : i32
    %2 = arith.minsi %1, %high : i32
    %3 = arith.trunci %2 : i32 to i8
    tir.yield %3 : i8
  }
  tir.block [i: 3, j: 16] ins(%t[i, j] : memref<3x16xi8, "narrowing.near">) outs(%y[i, j] : memref<3x16xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  %u = tir.alloc : memref<5x16xi8, "narrowing.near">
  tir.block [i: 5, j: 16] ins(%y[i - 1, j] pad 0 : i8 : memref<3x16xi8>) outs(%u[i, j] : memref<5x16xi8, "narrowing.near">) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  tir.block [o: 16 | c: 16] ins(%u[0, c] : memref<5x16xi8, "narrowing.near">, %w[c, o] : memref<16x16xi8, "narrowing.near">) outs(%z[0, o] : memref<3x16xi32, "narrowing.sums">) {
  ^bb0(%p: i8, %q: i8, %acc: i32):
    %0 = arith.extsi %p : i8 to i32
    %1 = arith.extsi %q : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    tir.yield %3 : i32
  }
  func.return
}
