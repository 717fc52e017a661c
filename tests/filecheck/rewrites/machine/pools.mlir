// RUN: byocir-opt --no-debuginfo --load-target %S/../../../../examples/gemmini_pools.py:Gemmini -p 'fuse-epilogues' %s | filecheck %s

// The windows are those of the sums, which are scaled where they are read. What the pad adds is what
// results begin with, so points outside are left out in its place.
// CHECK-LABEL: func.func @pool
// CHECK:       %[[START:.*]] = tir.fill -128 : i8 : tensor<2x2x3xi8>
// CHECK-NEXT:  tir.block [h: 2, w: 2, c: 3 | r: 3, s: 2]
// CHECK-SAME:    ins(%{{.*}}[2 * h + r - 1, 2 * w + s, c] : tensor<4x4x3xi32>, %{{.*}}[] : tensor<f32>)
// CHECK-SAME:    outs(%[[START]][h, w, c] : tensor<2x2x3xi8>) where(2 * h + r - 1 >= 0)
// CHECK:         arith.mulf
// CHECK:         arith.maxsi
// CHECK-NOT:   tir.block
func.func @pool(%a: tensor<4x4x3xi32>, %s: tensor<f32>) -> tensor<2x2x3xi8> attributes {byoc.target = #byoc.target<"gemmini", {}>} {
  %r = byoc.composite "gemmini.pooled_conv" at "tensor" (%x = %a : tensor<4x4x3xi32>, %f = %s : tensor<f32>) -> tensor<2x2x3xi8> {
    %e = tir.empty : tensor<4x4x3xi8>
    %y = tir.block [i: 4, j: 4, k: 3] ins(%x[i, j, k] : tensor<4x4x3xi32>, %f[] : tensor<f32>) outs(%e[i, j, k] : tensor<4x4x3xi8>) {
    ^bb0(%p: i32, %q: f32, %old: i8):
      %0 = arith.sitofp %p : i32 to f32
      %1 = arith.mulf %0, %q : f32
      %2 = arith.fptosi %1 : f32 to i8
      tir.yield %2 : i8
    }
    %z = tir.fill -128 : i8 : tensor<2x2x3xi8>
    %out = tir.block [h: 2, w: 2, c: 3 | r: 3, s: 2] ins(%y[2 * h + r - 1, 2 * w + s, c] pad -128 : i8 : tensor<4x4x3xi8>) outs(%z[h, w, c] : tensor<2x2x3xi8>) {
    ^bb0(%p: i8, %old: i8):
      %0 = arith.maxsi %old, %p : i8
      tir.yield %0 : i8
    }
    byoc.yield %out : tensor<2x2x3xi8>
  }
  func.return %r : tensor<2x2x3xi8>
}

// A pad that is more than what results begin with stays, and so does the array.
// CHECK-LABEL: func.func @padded
// CHECK:       tir.block [i: 2]
// CHECK:       tir.block [h: 2 | r: 2] ins(%{{.*}}[h + r - 1] pad 5 : i8 : tensor<2xi8>)
func.func @padded(%a: tensor<2xi8>) -> tensor<2xi8> attributes {byoc.target = #byoc.target<"gemmini", {}>} {
  %r = byoc.composite "gemmini.pooled_conv" at "tensor" (%x = %a : tensor<2xi8>) -> tensor<2xi8> {
    %e = tir.empty : tensor<2xi8>
    %y = tir.block [i: 2] ins(%x[i] : tensor<2xi8>) outs(%e[i] : tensor<2xi8>) {
    ^bb0(%p: i8, %old: i8):
      %0 = arith.addi %p, %p : i8
      tir.yield %0 : i8
    }
    %z = tir.fill -128 : i8 : tensor<2xi8>
    %out = tir.block [h: 2 | r: 2] ins(%y[h + r - 1] pad 5 : i8 : tensor<2xi8>) outs(%z[h] : tensor<2xi8>) {
    ^bb0(%p: i8, %old: i8):
      %0 = arith.maxsi %old, %p : i8
      tir.yield %0 : i8
    }
    byoc.yield %out : tensor<2xi8>
  }
  func.return %r : tensor<2xi8>
}
