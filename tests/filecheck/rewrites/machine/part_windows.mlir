// RUN: byocir-opt --no-debuginfo --load-target %S/../../../../examples/vta_machine.py:Vta16 -p 'split-bodies' %s | filecheck %s

// Windows of 3 by 3, one element apart, are taken of columns, then of rows: six steps, not nine.
// CHECK-LABEL: func.func @near
// CHECK:       %[[ROWS:.*]] = tir.block [h: 6, w: 8, c: 16 | r: 3] ins(%{{.*}}[h + r, w, c] : tensor<8x8x16xi32>)
// CHECK:         arith.addi
// CHECK:       tir.block [h: 6, w: 8, c: 16 | s: 3] ins(%[[ROWS]][h, w + s - 1, c] : tensor<6x8x16xi32>)
// CHECK-SAME:    where(w + s - 1 >= 0, -w - s + 8 >= 0)
// CHECK:         arith.addi
func.func @near(%a: tensor<8x8x16xi8>) -> tensor<6x8x16xi32> attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %r = byoc.composite "vta16.any" at "tensor" (%x = %a : tensor<8x8x16xi8>) -> tensor<6x8x16xi32> {
    %z = tir.fill 0 : i32 : tensor<6x8x16xi32>
    %out = tir.block [h: 6, w: 8, c: 16 | r: 3, s: 3] ins(%x[h + r, w + s - 1, c] pad 0 : i8 : tensor<8x8x16xi8>) outs(%z[h, w, c] : tensor<6x8x16xi32>) {
    ^bb0(%p: i8, %old: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.addi %old, %0 : i32
      tir.yield %1 : i32
    }
    byoc.yield %out : tensor<6x8x16xi32>
  }
  func.return %r : tensor<6x8x16xi32>
}

// Those that share nothing are taken whole.
// CHECK-LABEL: func.func @apart
// CHECK:       tir.block [h: 4, w: 4, c: 16 | r: 2, s: 2]
func.func @apart(%a: tensor<8x8x16xi8>) -> tensor<4x4x16xi32> attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %r = byoc.composite "vta16.any" at "tensor" (%x = %a : tensor<8x8x16xi8>) -> tensor<4x4x16xi32> {
    %z = tir.fill 0 : i32 : tensor<4x4x16xi32>
    %out = tir.block [h: 4, w: 4, c: 16 | r: 2, s: 2] ins(%x[2 * h + r, 2 * w + s, c] : tensor<8x8x16xi8>) outs(%z[h, w, c] : tensor<4x4x16xi32>) {
    ^bb0(%p: i8, %old: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.addi %old, %0 : i32
      tir.yield %1 : i32
    }
    byoc.yield %out : tensor<4x4x16xi32>
  }
  func.return %r : tensor<4x4x16xi32>
}

// So are those in which a point is a row and a column.
// CHECK-LABEL: func.func @diagonal
// CHECK:       tir.block [h: 6, w: 6, c: 16 | r: 3, s: 3] ins(%{{.*}}[h + r, w + r + s, c] : tensor<8x10x16xi32>)
func.func @diagonal(%a: tensor<8x10x16xi8>) -> tensor<6x6x16xi32> attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %r = byoc.composite "vta16.any" at "tensor" (%x = %a : tensor<8x10x16xi8>) -> tensor<6x6x16xi32> {
    %z = tir.fill 0 : i32 : tensor<6x6x16xi32>
    %out = tir.block [h: 6, w: 6, c: 16 | r: 3, s: 3] ins(%x[h + r, w + r + s, c] : tensor<8x10x16xi8>) outs(%z[h, w, c] : tensor<6x6x16xi32>) {
    ^bb0(%p: i8, %old: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.addi %old, %0 : i32
      tir.yield %1 : i32
    }
    byoc.yield %out : tensor<6x6x16xi32>
  }
  func.return %r : tensor<6x6x16xi32>
}
