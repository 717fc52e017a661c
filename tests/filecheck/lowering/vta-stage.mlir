// RUN: byocir-opt --no-debuginfo -p vta-stage %s | filecheck %s

// Weights do not move with the rows: they are loaded outside the loop. The box of the input reaches
// one row beyond the array, which reads 0.
// CHECK-LABEL: @conv
// CHECK:         %[[W:.*]] = tir.constant
// CHECK:         %[[WGT:.*]] = tir.alloc : memref<1x1x3x1x16x16xi8, "vta.wgt">
// CHECK-NEXT:    tir.copy %[[W]][{{.*}}] to %[[WGT]] sizes [1, 1, 3, 1, 16, 16] :
// CHECK-NEXT:    tir.for %[[I:.*]] = 0 to 4 serial {
// CHECK-NEXT:      %[[H:.*]] = arith.muli %[[I]], %{{.*}} : index
// CHECK-NEXT:      %[[ACC:.*]] = tir.alloc : memref<1x1x2x8x16xi32, "vta.acc">
// CHECK-NEXT:      tir.fill 0 : i32 into %[[ACC]]
// CHECK-NEXT:      %[[TOP:.*]] = arith.subi %[[H]], %{{.*}} : index
// CHECK-NEXT:      %[[INP:.*]] = tir.alloc : memref<1x1x4x8x16xi8, "vta.inp">
// CHECK-NEXT:      tir.copy %{{.*}}[%[[ZERO:.*]], %[[ZERO]], %[[TOP]], %[[ZERO]], %[[ZERO]]] to %[[INP]] sizes [1, 1, 4, 8, 16] pad 0 : i8 :
// CHECK-NEXT:      tir.block [n: 1, o: 1, h: 2, w: 8, l: 16 | c: 1, r: 3, s: 1, k: 16] ins(%[[INP]][n, c, h + r, w + s, k] : memref<1x1x4x8x16xi8, "vta.inp">, %[[WGT]][o, c, r, s, l, k] : memref<1x1x3x1x16x16xi8, "vta.wgt">) outs(%[[ACC]][n, o, h, w, l]
// CHECK:           tir.copy %[[ACC]] to %{{.*}}[%[[ZERO]], %[[ZERO]], %[[H]], %[[ZERO]], %[[ZERO]]] sizes [1, 1, 2, 8, 16] : memref<1x1x2x8x16xi32, "vta.acc"> to memref<1x1x8x8x16xi8>
func.func @conv(%x: memref<1x1x8x8x16xi8>, %y: memref<1x1x8x8x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  byoc.composite "vta.conv" at "graph" (%a = %x : memref<1x1x8x8x16xi8>, %b = %y : memref<1x1x8x8x16xi8>) {
    %zero = arith.constant 0 : index
    %two = arith.constant 2 : index
    %w = tir.constant <"00000000000000000000000000000000" : tensor<1x1x3x1x16x16xi8>> : memref<1x1x3x1x16x16xi8>
    %t = tir.alloc : memref<1x1x8x8x16xi32>
    tir.for %i = 0 to 4 serial {
      %h = arith.muli %i, %two : index
      tir.block [n: 1, o: 1, h: 2, w: 8, l: 16] at(%zero, %zero, %h, %zero, %zero) outs(%t[n, o, h, w, l] : memref<1x1x8x8x16xi32>) {
      ^bb0(%r: i32):
        %0 = arith.constant 0 : i32
        tir.yield %0 : i32
      }
      tir.block [n: 1, o: 1, h: 2, w: 8, l: 16 | c: 1, r: 3, s: 1, k: 16] at(%zero, %zero, %h, %zero, %zero, %zero, %zero, %zero, %zero) ins(%a[n, c, h + r - 1, w + s, k] pad 0 : i8 : memref<1x1x8x8x16xi8>, %w[o, c, r, s, l, k] : memref<1x1x3x1x16x16xi8>) outs(%t[n, o, h, w, l] : memref<1x1x8x8x16xi32>) {
      ^bb0(%p: i8, %q: i8, %r: i32):
        %0 = arith.extsi %p : i8 to i32
        %1 = arith.extsi %q : i8 to i32
        %2 = arith.muli %0, %1 : i32
        %3 = arith.addi %r, %2 : i32
        tir.yield %3 : i32
      }
      tir.block [n: 1, o: 1, h: 2, w: 8, l: 16] at(%zero, %zero, %h, %zero, %zero) ins(%t[n, o, h, w, l] : memref<1x1x8x8x16xi32>) outs(%b[n, o, h, w, l] : memref<1x1x8x8x16xi8>) {
      ^bb0(%p: i32, %r: i8):
        %0 = arith.trunci %p : i32 to i8
        tir.yield %0 : i8
      }
    }
    byoc.yield
  }
  func.return
}

// A guard is in the tile's coordinates; where it always holds it is gone. Widened inputs of a window
// are in the accumulator's memory.
// CHECK-LABEL: @guarded
// CHECK:         tir.for %{{.*}} = 0 to 1 unroll {
// CHECK:           %[[T0:.*]] = tir.alloc : memref<1x1x2x16xi32, "vta.acc">
// CHECK-NEXT:      tir.fill -128 : i32 into %[[T0]]
// CHECK-NEXT:      %[[X0:.*]] = tir.alloc : memref<1x1x3x16xi32, "vta.acc">
// CHECK-NEXT:      tir.copy {{.*}} to %[[X0]] sizes [1, 1, 3, 16] pad 0 : i8 : memref<1x1x4x16xi8> to memref<1x1x3x16xi32, "vta.acc">
// CHECK-NEXT:      tir.block [n: 1, c: 1, h: 2, l: 16 | r: 2] ins(%[[X0]][n, c, h + r, l] {{.*}} where(h + r - 1 >= 0) {
// CHECK-NEXT:      ^bb0(%[[P:.*]]: i32, %[[R:.*]]: i32):
// CHECK-NEXT:        arith.maxsi %[[R]], %[[P]] : i32
// CHECK:         tir.for %{{.*}} = 0 to 1 unroll {
// CHECK:           tir.block [n: 1, c: 1, h: 2, l: 16 | r: 2]
// CHECK-NOT:       where
func.func @guarded(%x: memref<1x1x4x16xi8>, %y: memref<1x1x4x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  byoc.composite "vta.max_pool" at "graph" (%a = %x : memref<1x1x4x16xi8>, %b = %y : memref<1x1x4x16xi8>) {
    %zero = arith.constant 0 : index
    %two = arith.constant 2 : index
    %t = tir.alloc : memref<1x1x4x16xi32>
    tir.for %i = 0 to 1 unroll {
      tir.block [n: 1, c: 1, h: 2, l: 16] at(%zero, %zero, %zero, %zero) outs(%t[n, c, h, l] : memref<1x1x4x16xi32>) {
      ^bb0(%r: i32):
        %0 = arith.constant -128 : i32
        tir.yield %0 : i32
      }
      tir.block [n: 1, c: 1, h: 2, l: 16 | r: 2] at(%zero, %zero, %zero, %zero, %zero) ins(%a[n, c, h + r - 1, l] : memref<1x1x4x16xi8>) outs(%t[n, c, h, l] : memref<1x1x4x16xi32>) where(h + r - 1 >= 0) {
      ^bb0(%p: i8, %r: i32):
        %0 = arith.extsi %p : i8 to i32
        %1 = arith.maxsi %r, %0 : i32
        tir.yield %1 : i32
      }
      tir.block [n: 1, c: 1, h: 2, l: 16] at(%zero, %zero, %zero, %zero) ins(%t[n, c, h, l] : memref<1x1x4x16xi32>) outs(%b[n, c, h, l] : memref<1x1x4x16xi8>) {
      ^bb0(%p: i32, %r: i8):
        %0 = arith.trunci %p : i32 to i8
        tir.yield %0 : i8
      }
    }
    tir.for %j = 0 to 1 unroll {
      tir.block [n: 1, c: 1, h: 2, l: 16] at(%zero, %zero, %two, %zero) outs(%t[n, c, h, l] : memref<1x1x4x16xi32>) {
      ^bb0(%r: i32):
        %0 = arith.constant -128 : i32
        tir.yield %0 : i32
      }
      tir.block [n: 1, c: 1, h: 2, l: 16 | r: 2] at(%zero, %zero, %two, %zero, %zero) ins(%a[n, c, h + r - 1, l] : memref<1x1x4x16xi8>) outs(%t[n, c, h, l] : memref<1x1x4x16xi32>) where(h + r - 1 >= 0) {
      ^bb0(%p: i8, %r: i32):
        %0 = arith.extsi %p : i8 to i32
        %1 = arith.maxsi %r, %0 : i32
        tir.yield %1 : i32
      }
      tir.block [n: 1, c: 1, h: 2, l: 16] at(%zero, %zero, %two, %zero) ins(%t[n, c, h, l] : memref<1x1x4x16xi32>) outs(%b[n, c, h, l] : memref<1x1x4x16xi8>) {
      ^bb0(%p: i32, %r: i8):
        %0 = arith.trunci %p : i32 to i8
        tir.yield %0 : i8
      }
    }
    byoc.yield
  }
  func.return
}

// Maxima over windows of rows are taken in place, each by the row that no other window has; those of
// columns begin with what these are.
// CHECK-LABEL: @max_pool
// CHECK:         %[[MAX:.*]] = tir.alloc : memref<1x1x3x3x16xi32, "vta.acc">
// CHECK-NEXT:    %[[X:.*]] = tir.alloc : memref<1x1x7x7x16xi32, "vta.acc">
// CHECK:         tir.block [n: 1, c: 1, h: 3, w: 7, l: 16] ins(%[[X]][n, c, 2 * h, w, l] : {{.*}}) outs(%[[X]][n, c, 2 * h + 1, w, l] : {{.*}}) where(2 * h - 1 >= 0) {
// CHECK:           arith.maxsi
// CHECK:         tir.block [n: 1, c: 1, h: 3, w: 7, l: 16] ins(%[[X]][n, c, 2 * h + 2, w, l] : {{.*}}) outs(%[[X]][n, c, 2 * h + 1, w, l] : {{.*}}) where(-2 * h + 3 >= 0) {
// CHECK:           arith.maxsi
// CHECK:         tir.fill 0 : i32 into %[[MAX]]
// CHECK-NEXT:    tir.block [n: 1, c: 1, h: 3, w: 3, l: 16] ins(%[[X]][n, c, 2 * h + 1, 2 * w + 1, l] : {{.*}}) outs(%[[MAX]]
// CHECK:           arith.addi
// CHECK:         ins(%[[X]][n, c, 2 * h + 1, 2 * w, l] : {{.*}}) outs(%[[MAX]]{{.*}} where(2 * w - 1 >= 0) {
// CHECK:         ins(%[[X]][n, c, 2 * h + 1, 2 * w + 2, l] : {{.*}}) outs(%[[MAX]]{{.*}} where(-2 * w + 3 >= 0) {
func.func @max_pool(%x: memref<1x1x5x5x16xi8>, %y: memref<1x1x3x3x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  byoc.composite "vta.max_pool" at "graph" (%a = %x : memref<1x1x5x5x16xi8>, %b = %y : memref<1x1x3x3x16xi8>) {
    %z = arith.constant 0 : index
    %t = tir.alloc : memref<1x1x3x3x16xi32>
    tir.block [n: 1, c: 1, h: 3, w: 3, l: 16] at(%z, %z, %z, %z, %z) outs(%t[n, c, h, w, l] : memref<1x1x3x3x16xi32>) {
    ^bb0(%i: i32):
      %0 = arith.constant -128 : i32
      tir.yield %0 : i32
    }
    tir.block [n: 1, c: 1, h: 3, w: 3, l: 16 | r: 3, s: 3] at(%z, %z, %z, %z, %z, %z, %z) ins(%a[n, c, 2 * h + r - 1, 2 * w + s - 1, l] pad -128 : i8 : memref<1x1x5x5x16xi8>) outs(%t[n, c, h, w, l] : memref<1x1x3x3x16xi32>) where(2 * h + r - 1 >= 0, -2 * h - r + 5 >= 0, 2 * w + s - 1 >= 0, -2 * w - s + 5 >= 0) {
    ^bb0(%p: i8, %i: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.maxsi %i, %0 : i32
      tir.yield %1 : i32
    }
    tir.block [n: 1, c: 1, h: 3, w: 3, l: 16] at(%z, %z, %z, %z, %z) ins(%t[n, c, h, w, l] : memref<1x1x3x3x16xi32>) outs(%b[n, c, h, w, l] : memref<1x1x3x3x16xi8>) {
    ^bb0(%p: i32, %i: i8):
      %0 = arith.trunci %p : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield
  }
  func.return
}

// A guard along channels belongs to no axis of the windows: they stay whole.
// CHECK-LABEL: @guarded_channels
// CHECK:         tir.block [n: 1, c: 2, h: 3, w: 3, l: 16 | r: 3, s: 3]
// CHECK-SAME:      where(-c >= 0, 2 * h + r - 1 >= 0,
func.func @guarded_channels(%x: memref<1x2x5x5x16xi8>, %y: memref<1x2x3x3x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  byoc.composite "vta.max_pool" at "graph" (%a = %x : memref<1x2x5x5x16xi8>, %b = %y : memref<1x2x3x3x16xi8>) {
    %z = arith.constant 0 : index
    %t = tir.alloc : memref<1x2x3x3x16xi32>
    tir.block [n: 1, c: 2, h: 3, w: 3, l: 16] at(%z, %z, %z, %z, %z) outs(%t[n, c, h, w, l] : memref<1x2x3x3x16xi32>) {
    ^bb0(%i: i32):
      %0 = arith.constant -128 : i32
      tir.yield %0 : i32
    }
    tir.block [n: 1, c: 2, h: 3, w: 3, l: 16 | r: 3, s: 3] at(%z, %z, %z, %z, %z, %z, %z) ins(%a[n, c, 2 * h + r - 1, 2 * w + s - 1, l] pad -128 : i8 : memref<1x2x5x5x16xi8>) outs(%t[n, c, h, w, l] : memref<1x2x3x3x16xi32>) where(-c >= 0, 2 * h + r - 1 >= 0, -2 * h - r + 5 >= 0, 2 * w + s - 1 >= 0, -2 * w - s + 5 >= 0) {
    ^bb0(%p: i8, %i: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.maxsi %i, %0 : i32
      tir.yield %1 : i32
    }
    tir.block [n: 1, c: 2, h: 3, w: 3, l: 16] at(%z, %z, %z, %z, %z) ins(%t[n, c, h, w, l] : memref<1x2x3x3x16xi32>) outs(%b[n, c, h, w, l] : memref<1x2x3x3x16xi8>) {
    ^bb0(%p: i32, %i: i8):
      %0 = arith.trunci %p : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield
  }
  func.return
}
