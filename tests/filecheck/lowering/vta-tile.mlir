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
func.func @relu(%x: memref<1x2x1009x2x16xi8>, %y: memref<1x2x1009x2x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
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

// Tiles of 91 maxima over windows of 3 compute the 183 sums that these reach; the first tile 182, as
// its first window begins in front of them.
// CHECK-LABEL: @conv_pool
// CHECK:         tir.for {{.*}} = 0 to 1 unroll {
// CHECK-NEXT:      tir.block [n: 1, o: 1, h: 182, l: 16] at(%[[Z:.*]], %[[Z]], %[[Z]], %[[Z]]) outs(%[[S:.*]][n, o, h, l] : memref<1x1x2001x16xi32>)
// CHECK:           tir.block [n: 1, o: 1, h: 182, l: 16 | c: 1, k: 16]
// CHECK:           tir.block [n: 1, c: 1, h: 91, l: 16] at(%[[Z]], %[[Z]], %[[Z]], %[[Z]]) outs(%[[T:.*]][n, c, h, l]
// CHECK:           tir.block [n: 1, c: 1, h: 91, l: 16 | r: 3] at(%[[Z]], %[[Z]], %[[Z]], %[[Z]], %[[Z]]) ins(%[[S]][n, c, 2 * h + r - 1, l]
// CHECK:         tir.for {{.*}} = 0 to 1 unroll {
// CHECK-NEXT:      tir.block [n: 1, o: 1, h: 183, l: 16] at(%[[Z]], %[[Z]], %{{.*}}, %[[Z]]) outs(%[[S]]
func.func @conv_pool(%x: memref<1x1x2001x16xi8>, %w: memref<1x1x16x16xi8>, %y: memref<1x1x1001x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  byoc.composite "vta.conv_pool" at "graph" (%a = %x : memref<1x1x2001x16xi8>, %b = %w : memref<1x1x16x16xi8>, %r = %y : memref<1x1x1001x16xi8>) {
    %s = tir.alloc : memref<1x1x2001x16xi32>
    %t = tir.alloc : memref<1x1x1001x16xi32>
    tir.fill 0 : i32 into %s : memref<1x1x2001x16xi32>
    tir.block [n: 1, o: 1, h: 2001, l: 16 | c: 1, k: 16] ins(%a[n, c, h, k] : memref<1x1x2001x16xi8>, %b[o, c, l, k] : memref<1x1x16x16xi8>) outs(%s[n, o, h, l] : memref<1x1x2001x16xi32>) {
    ^bb0(%p: i8, %q: i8, %i: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.extsi %q : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %i, %2 : i32
      tir.yield %3 : i32
    }
    tir.fill -32768 : i32 into %t : memref<1x1x1001x16xi32>
    tir.block [n: 1, c: 1, h: 1001, l: 16 | r: 3] ins(%s[n, c, 2 * h + r - 1, l] : memref<1x1x2001x16xi32>) outs(%t[n, c, h, l] : memref<1x1x1001x16xi32>) where(2 * h + r - 1 >= 0, -2 * h - r + 2001 >= 0) {
    ^bb0(%p: i32, %i: i32):
      %0 = arith.maxsi %i, %p : i32
      tir.yield %0 : i32
    }
    tir.block [n: 1, c: 1, h: 1001, l: 16] ins(%t[n, c, h, l] : memref<1x1x1001x16xi32>) outs(%r[n, c, h, l] : memref<1x1x1001x16xi8>) {
    ^bb0(%p: i32, %i: i8):
      %0 = arith.trunci %p : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield
  }
  func.return
}

// Windows of one element in steps of 2 reach every other sum: tiles of 91 maxima, 181 sums.
// CHECK-LABEL: @strided
// CHECK:         tir.for %[[I:.*]] = 0 to 11 serial {
// CHECK-NEXT:      arith.muli %[[I]], %{{.*}} : index
// CHECK-NEXT:      %[[H:.*]] = arith.muli %[[I]], %c182 : index
// CHECK-NEXT:      tir.block [n: 1, o: 1, h: 181, l: 16] at(%{{.*}}, %{{.*}}, %[[H]], %{{.*}}) outs(
func.func @strided(%x: memref<1x1x2001x16xi8>, %w: memref<1x1x16x16xi8>, %y: memref<1x1x1001x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  byoc.composite "vta.conv_pool" at "graph" (%a = %x : memref<1x1x2001x16xi8>, %b = %w : memref<1x1x16x16xi8>, %r = %y : memref<1x1x1001x16xi8>) {
    %s = tir.alloc : memref<1x1x2001x16xi32>
    %t = tir.alloc : memref<1x1x1001x16xi32>
    tir.fill 0 : i32 into %s : memref<1x1x2001x16xi32>
    tir.block [n: 1, o: 1, h: 2001, l: 16 | c: 1, k: 16] ins(%a[n, c, h, k] : memref<1x1x2001x16xi8>, %b[o, c, l, k] : memref<1x1x16x16xi8>) outs(%s[n, o, h, l] : memref<1x1x2001x16xi32>) {
    ^bb0(%p: i8, %q: i8, %i: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.extsi %q : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %i, %2 : i32
      tir.yield %3 : i32
    }
    tir.fill -32768 : i32 into %t : memref<1x1x1001x16xi32>
    tir.block [n: 1, c: 1, h: 1001, l: 16 | r: 1] ins(%s[n, c, 2 * h, l] : memref<1x1x2001x16xi32>) outs(%t[n, c, h, l] : memref<1x1x1001x16xi32>) {
    ^bb0(%p: i32, %i: i32):
      %0 = arith.maxsi %i, %p : i32
      tir.yield %0 : i32
    }
    tir.block [n: 1, c: 1, h: 1001, l: 16] ins(%t[n, c, h, l] : memref<1x1x1001x16xi32>) outs(%r[n, c, h, l] : memref<1x1x1001x16xi8>) {
    ^bb0(%p: i32, %i: i8):
      %0 = arith.trunci %p : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield
  }
  func.return
}
