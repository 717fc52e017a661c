// RUN: byocir-opt --no-debuginfo --load-target %S/imager.py:Imager -p 'route-copies,write-out-loops' %s | filecheck %s --check-prefix=OUT
// RUN: byocir-opt --no-debuginfo --load-target %S/imager.py:Imager -p 'route-copies,write-out-loops,select-instructions' %s | filecheck %s

// A load brings rows of an image with the zeros around them.
// OUT-LABEL: func.func @tiles
// OUT:       tir.block [d0: 4, d1: 6, d2: 8] ins(%x[d0 - 1, d1 - 1, d2] pad 0 : i8
// OUT:       tir.block [d0: 4, d1: 6, d2: 8] ins(%x[d0 + 3, d1 - 1, d2] pad 0 : i8
// CHECK-LABEL: func.func @tiles
// CHECK:       tir.intrinsic "imager.load" (top = 1, left = 1) {
// CHECK-NEXT:    tir.block [d0: 4, d1: 6, d2: 8] ins(%x[d0 - 1, d1 - 1, d2] pad 0 : i8
// CHECK:       tir.intrinsic "imager.load" (top = 0, left = 1) {
func.func @tiles(%x: memref<6x4x8xi8>) attributes {byoc.target = #byoc.target<"imager", {}>} {
  %m1 = arith.constant -1 : index
  %zero = arith.constant 0 : index
  %four = arith.constant 4 : index
  tir.for %i = 0 to 2 serial {
    %at = arith.muli %i, %four : index
    %first = arith.addi %at, %m1 : index
    %a = tir.alloc : memref<4x6x8xi8, "imager.pixels">
    tir.copy %x[%first, %m1, %zero] to %a sizes [4, 6, 8] pad 0 : i8 : memref<6x4x8xi8> to memref<4x6x8xi8, "imager.pixels">
  }
  func.return
}

// Rules say which zeros a load can set: more of them are set apart.
// OUT-LABEL: func.func @many
// OUT-NOT:   pad
func.func @many(%x: memref<6x4x8xi8>) attributes {byoc.target = #byoc.target<"imager", {}>} {
  %m3 = arith.constant -3 : index
  %zero = arith.constant 0 : index
  %a = tir.alloc : memref<9x4x8xi8, "imager.pixels">
  tir.copy %x[%m3, %zero, %zero] to %a sizes [9, 4, 8] pad 0 : i8 : memref<6x4x8xi8> to memref<9x4x8xi8, "imager.pixels">
  func.return
}
