// RUN: byocir-opt -p convert-tir-to-scf --split-input-file %s | filecheck %s

// Pads and guards become conditions, where the bounds of the loops do not answer them.

func.func @main(%x: memref<8xi8, "npu.sp">, %y: memref<5xi8>) {
  tir.block [i: 5 | k: 3] ins(%x[2 * i + k - 1] pad 0 : i8 : memref<8xi8, "npu.sp">) outs(%y[i] : memref<5xi8>) where(3 - i >= 0) {
  ^bb0(%s: i8, %acc: i8):
    %r = arith.maxsi %acc, %s : i8
    tir.yield %r : i8
  }
  func.return
}

// CHECK-LABEL: func.func @main(%x: memref<8xi8>, %y: memref<5xi8>)
// CHECK:       scf.for %i = %c0 to %c5 step %c1 {
// CHECK-NEXT:    scf.for %k = %c0 to %c3 step %c1 {
// CHECK-NEXT:      %[[N:.*]] = arith.muli %i, %cm1 : index
// CHECK-NEXT:      %[[G:.*]] = arith.addi %[[N]], %c3 : index
// CHECK-NEXT:      %[[IN:.*]] = arith.cmpi sge, %[[G]], %c0 : index
// CHECK-NEXT:      scf.if %[[IN]] {
// CHECK:             %[[V:.*]] = scf.if %{{.*}} -> (i8) {
// CHECK-NEXT:          %[[L:.*]] = memref.load %x[%{{.*}}] : memref<8xi8>
// CHECK-NEXT:          scf.yield %[[L]] : i8
// CHECK-NEXT:        } else {
// CHECK-NEXT:          %[[P:.*]] = arith.constant 0 : i8
// CHECK-NEXT:          scf.yield %[[P]] : i8
// CHECK-NEXT:        }
// CHECK-NEXT:        %[[A:.*]] = memref.load %y[%i] : memref<5xi8>
// CHECK-NEXT:        %[[R:.*]] = arith.maxsi %[[A]], %[[V]] : i8
// CHECK-NEXT:        memref.store %[[R]], %y[%i] : memref<5xi8>

// -----

// Copies move boxes; parallel loops stay parallel.

// CHECK-LABEL: func.func @tiles
func.func @tiles(%x: memref<8xi8>, %y: memref<8xi32>) {
  // CHECK:       "scf.parallel"(%c0, %c2, %c1)
  // CHECK:         %[[B:.*]] = memref.alloc() : memref<4xi32>
  // CHECK:           memref.load %x
  // CHECK-NEXT:      arith.extsi %{{.*}} : i8 to i32
  // CHECK:           memref.store %{{.*}}, %[[B]]
  // CHECK:           memref.store %{{.*}}, %y
  // CHECK:         memref.dealloc %[[B]]
  tir.for %t = 0 to 2 parallel {
    %four = arith.constant 4 : index
    %zero = arith.constant 0 : index
    %at = arith.muli %t, %four : index
    %b = tir.alloc : memref<4xi32, "npu.sp">
    tir.copy %x[%at] to %b[%zero] sizes [4] : memref<8xi8> to memref<4xi32, "npu.sp">
    tir.copy %b[%zero] to %y[%at] sizes [4] : memref<4xi32, "npu.sp"> to memref<8xi32>
  }
  func.return
}

// -----

// An instruction is what its body does.

// CHECK-LABEL: func.func @instruction
func.func @instruction(%y: memref<8xi32>) {
  // CHECK:      scf.for %i0 = %c0 to %c8 step %c1 {
  // CHECK-NEXT:   memref.store %{{.*}}, %y[%i0] : memref<8xi32>
  tir.intrinsic "npu.clear" {
    tir.fill 0 : i32 into %y : memref<8xi32>
  }
  func.return
}

// -----

// Unrolled loops are written out; what is to be vectorised says so.

// CHECK-LABEL: func.func @kinds
func.func @kinds(%y: memref<2x4xi32>) {
  // CHECK:      scf.for %j = %c0 to %c4 step %c1 {
  // CHECK:        memref.store %{{.*}}, %y[%{{.*}}, %{{.*}}] : memref<2x4xi32>
  // CHECK:      } {vectorise}
  // CHECK:      scf.for %j_1 = %c0 to %c4 step %c1 {
  // CHECK:      } {vectorise}
  // CHECK-NOT:  scf.for %i
  tir.for %i = 0 to 2 unroll {
    tir.for %j = 0 to 4 vectorize {
      tir.block [m: 1, n: 1] at(%i, %j) outs(%y[m, n] : memref<2x4xi32>) {
      ^bb0(%old: i32):
        %r = arith.constant 7 : i32
        tir.yield %r : i32
      }
    }
  }
  func.return
}
