// RUN: byocir-opt --no-debuginfo --load-target %S/../../../../examples/vta_machine.py:Vta16 -p 'write-out-loops,select-instructions' %s | filecheck %s

// What is around an image is set with its box, in one call, in front of its rows. Five calls would set
// the rows above and below, and the columns of vectors, which do not follow each other.
// CHECK:      tir.intrinsic "vta16.clear_inp" {
// CHECK-NEXT:   tir.block [d0: 5, d1: 5, d2: 16] outs(%t[d0, d1, d2]
// CHECK:      tir.intrinsic "vta16.load_inp"
// CHECK-NEXT:   tir.block [i: 3, j: 3, k: 16] ins(%x[i, j, k] {{.*}} outs(%t[i + 1, j + 1, k]
// CHECK-NOT:  tir.intrinsic
func.func @image(%x: memref<3x3x16xi8>) attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %t = tir.alloc : memref<5x5x16xi8, "vta16.inp">
  tir.block [i: 5, j: 5, k: 16] ins(%x[i - 1, j - 1, k] pad 0 : i8 : memref<3x3x16xi8>) outs(%t[i, j, k] : memref<5x5x16xi8, "vta16.inp">) {
  ^bb0(%p: i8, %old: i8):
    tir.yield %p : i8
  }
  func.return
}

// A row below alone is set by itself.
// CHECK-LABEL: func.func @row
// CHECK:       tir.intrinsic "vta16.load_inp"
// CHECK:       tir.intrinsic "vta16.clear_inp" {
// CHECK-NEXT:    tir.block [j: 3, k: 16] outs(%t[3, j, k]
func.func @row(%x: memref<3x3x16xi8>) attributes {byoc.target = #byoc.target<"vta16", {}>} {
  %t = tir.alloc : memref<4x3x16xi8, "vta16.inp">
  tir.block [i: 4, j: 3, k: 16] ins(%x[i, j, k] pad 0 : i8 : memref<3x3x16xi8>) outs(%t[i, j, k] : memref<4x3x16xi8, "vta16.inp">) {
  ^bb0(%p: i8, %old: i8):
    tir.yield %p : i8
  }
  func.return
}
