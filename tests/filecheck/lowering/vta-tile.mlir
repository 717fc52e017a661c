// RUN: byocir-opt --no-debuginfo -p vta-tile %s | filecheck %s

// 1009 rows in ten tiles of 101: the last one begins one row before the end of the one before it.
// CHECK-LABEL: @relu
// CHECK-DAG:     %[[SIZE:.*]] = arith.constant 101 : index
// CHECK-DAG:     %[[LAST:.*]] = arith.constant 908 : index
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : index
// CHECK:         %[[T:.*]] = tir.alloc
// CHECK-NEXT:    tir.for %[[C:.*]] = 0 to 2 serial {
// CHECK-NEXT:      tir.for %[[I:.*]] = 0 to 10 serial {
// CHECK-NEXT:        %[[SCALED:.*]] = arith.muli %[[I]], %[[SIZE]] : index
// CHECK-NEXT:        %[[H:.*]] = arith.minsi %[[SCALED]], %[[LAST]] : index
// CHECK-NEXT:        tir.block [n: 1, c: 1, h: 101, w: 2, l: 16] at(%[[ZERO]], %[[C]], %[[H]], %[[ZERO]], %[[ZERO]]) ins(%{{.*}}[n, c, h, w, l] : memref<1x2x1009x2x16xi8>) outs(%[[T]][n, c, h, w, l]
// CHECK:             arith.extsi
// CHECK:             tir.block [n: 1, c: 1, h: 101, w: 2, l: 16] at(%[[ZERO]], %[[C]], %[[H]], %[[ZERO]], %[[ZERO]]) outs(%[[T]]
// CHECK:             tir.block [n: 1, c: 1, h: 101, w: 2, l: 16] at(%[[ZERO]], %[[C]], %[[H]], %[[ZERO]], %[[ZERO]]) ins(%[[T]]
// CHECK:             arith.trunci
func.func @relu(%x: memref<1x2x1009x2x16xi8>, %y: memref<1x2x1009x2x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>, byoc.level = "graph"} {
  byoc.composite "vta.relu" at "graph" (%a = %x : memref<1x2x1009x2x16xi8>, %b = %y : memref<1x2x1009x2x16xi8>) {
    %t = tir.alloc : memref<1x2x1009x2x16xi32>
    tir.block [n: 1, c: 2, h: 1009, w: 2, l: 16] ins(%a[n, c, h, w, l] : memref<1x2x1009x2x16xi8>) outs(%t[n, c, h, w, l] : memref<1x2x1009x2x16xi32>) {
    ^bb0(%p: i8, %r: i32):
      %0 = arith.extsi %p : i8 to i32
      tir.yield %0 : i32
    }
    tir.block [n: 1, c: 2, h: 1009, w: 2, l: 16] outs(%t[n, c, h, w, l] : memref<1x2x1009x2x16xi32>) {
    ^bb0(%r: i32):
      %k = arith.constant 0 : i32
      %0 = arith.maxsi %r, %k : i32
      tir.yield %0 : i32
    }
    tir.block [n: 1, c: 2, h: 1009, w: 2, l: 16] ins(%t[n, c, h, w, l] : memref<1x2x1009x2x16xi32>) outs(%b[n, c, h, w, l] : memref<1x2x1009x2x16xi8>) {
    ^bb0(%p: i32, %r: i8):
      %0 = arith.trunci %p : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield
  }
  func.return
}
