// RUN: byocir-opt --no-debuginfo --load-target %S/../../../programs/alu_engine.py:Engine -p 'select-instructions' %s | filecheck %s

// One call brings 16 rows: those of four lines of the image, which follow each other.
// CHECK-LABEL: func.func @lines
// CHECK:       tir.intrinsic "alu.load" cut [4, 4, 8] {
// CHECK-NEXT:    tir.block [h: 6, w: 4, c: 8]
func.func @lines(%x: memref<6x4x24xi32>) attributes {byoc.target = #byoc.target<"alu", {}>} {
  %a = tir.alloc : memref<6x4x8xi32, "alu.vectors">
  tir.block [h: 6, w: 4, c: 8] ins(%x[h, w, c + 8] : memref<6x4x24xi32>) outs(%a[h, w, c] : memref<6x4x8xi32, "alu.vectors">) {
  ^bb0(%p: i32, %old: i32):
    tir.yield %p : i32
  }
  func.return
}

// Lines of which only a part is read do not follow each other.
// CHECK-LABEL: func.func @parts
// CHECK:       tir.intrinsic "alu.load" cut [1, 4, 8] {
// CHECK-NEXT:    tir.block [h: 6, w: 4, c: 8]
func.func @parts(%x: memref<6x5x24xi32>) attributes {byoc.target = #byoc.target<"alu", {}>} {
  %a = tir.alloc : memref<6x4x8xi32, "alu.vectors">
  tir.block [h: 6, w: 4, c: 8] ins(%x[h, w + 1, c + 8] : memref<6x5x24xi32>) outs(%a[h, w, c] : memref<6x4x8xi32, "alu.vectors">) {
  ^bb0(%p: i32, %old: i32):
    tir.yield %p : i32
  }
  func.return
}
