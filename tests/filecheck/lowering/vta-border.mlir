// RUN: byocir-opt --no-debuginfo -p vta-border %s | filecheck %s

// What one composite writes and another reads with -5 around it has it there: filled first, written
// inside, read where it is. A call packs no borders for arguments that are read without.
// CHECK-LABEL: func.func @pools(%x: memref<1x1x4x4x16xi8>, %{{.*}}: memref<1x1x4x4x16xi8>)
// CHECK-NEXT:    %[[MID:.*]] = tir.alloc : memref<1x1x6x6x16xi8>
// CHECK-NEXT:    tir.fill -5 : i8 into %[[MID]] : memref<1x1x6x6x16xi8>
// CHECK:         tir.block [n: 1, c: 1, h: 4, w: 4, l: 16] ins({{.*}}) outs(%{{.*}}[n, c, h + 1, w + 1, l] : memref<1x1x6x6x16xi8>) {
// CHECK:         tir.block [n: 1, c: 1, h: 4, w: 4, l: 16 | r: 3, s: 3] ins(%{{.*}}[n, c, h + r, w + s, l] : memref<1x1x6x6x16xi8>) outs(
func.func @pools(%x: memref<1x1x4x4x16xi8>, %y: memref<1x1x4x4x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  %m = tir.alloc : memref<1x1x4x4x16xi8>
  byoc.composite "vta.relu" at "graph" (%a = %x : memref<1x1x4x4x16xi8>, %b = %m : memref<1x1x4x4x16xi8>) {
    tir.block [n: 1, c: 1, h: 4, w: 4, l: 16] ins(%a[n, c, h, w, l] : memref<1x1x4x4x16xi8>) outs(%b[n, c, h, w, l] : memref<1x1x4x4x16xi8>) {
    ^bb0(%v: i8, %o: i8):
      tir.yield %v : i8
    }
    byoc.yield
  }
  byoc.composite "vta.avg_pool" at "graph" (%a = %m : memref<1x1x4x4x16xi8>, %b = %y : memref<1x1x4x4x16xi8>) {
    %t = tir.alloc : memref<1x1x4x4x16xi32>
    tir.fill 0 : i32 into %t : memref<1x1x4x4x16xi32>
    tir.block [n: 1, c: 1, h: 4, w: 4, l: 16 | r: 3, s: 3] ins(%a[n, c, h + r - 1, w + s - 1, l] pad -5 : i8 : memref<1x1x4x4x16xi8>) outs(%t[n, c, h, w, l] : memref<1x1x4x4x16xi32>) {
    ^bb0(%v: i8, %o: i32):
      %0 = arith.extsi %v : i8 to i32
      %1 = arith.addi %o, %0 : i32
      tir.yield %1 : i32
    }
    tir.block [n: 1, c: 1, h: 4, w: 4, l: 16] ins(%t[n, c, h, w, l] : memref<1x1x4x4x16xi32>) outs(%b[n, c, h, w, l] : memref<1x1x4x4x16xi8>) {
    ^bb0(%v: i32, %o: i8):
      %0 = arith.trunci %v : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield
  }
  func.return
}

// A guarded maximum reads the least number where an array has no other border, and keeps its guard
// where it has; zeros are left to the loads.
// CHECK-LABEL: func.func @maximum(%x: memref<1x1x5x4x16xi8>, %{{.*}}: memref<1x1x4x4x16xi8>)
// CHECK:         tir.block [n: 1, c: 1, h: 4, w: 4, l: 16 | r: 2] ins(%{{.*}}[n, c, h + r, w, l] : memref<1x1x5x4x16xi8>) outs(%{{.*}}[n, c, h, w, l] : memref<1x1x4x4x16xi32>) {
func.func @maximum(%x: memref<1x1x4x4x16xi8>, %y: memref<1x1x4x4x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  byoc.composite "vta.max_pool" at "graph" (%a = %x : memref<1x1x4x4x16xi8>, %b = %y : memref<1x1x4x4x16xi8>) {
    %t = tir.alloc : memref<1x1x4x4x16xi32>
    tir.fill -128 : i32 into %t : memref<1x1x4x4x16xi32>
    tir.block [n: 1, c: 1, h: 4, w: 4, l: 16 | r: 2] ins(%a[n, c, h + r - 1, w, l] pad -128 : i8 : memref<1x1x4x4x16xi8>) outs(%t[n, c, h, w, l] : memref<1x1x4x4x16xi32>) where(h + r - 1 >= 0) {
    ^bb0(%v: i8, %o: i32):
      %0 = arith.extsi %v : i8 to i32
      %1 = arith.maxsi %o, %0 : i32
      tir.yield %1 : i32
    }
    tir.block [n: 1, c: 1, h: 4, w: 4, l: 16] ins(%t[n, c, h, w, l] : memref<1x1x4x4x16xi32>) outs(%b[n, c, h, w, l] : memref<1x1x4x4x16xi8>) {
    ^bb0(%v: i32, %o: i8):
      %0 = arith.trunci %v : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield
  }
  func.return
}
