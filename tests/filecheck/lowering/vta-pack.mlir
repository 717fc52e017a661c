// RUN: byocir-opt --no-debuginfo -p vta-pack %s | filecheck %s

// CHECK-LABEL: func.func @main(%x: tensor<1x3x4x4xi8>) -> tensor<1x20x4x4xi8>
// CHECK:         %[[P:.*]] = tir.empty : tensor<1x1x4x4x16xi8>
// CHECK-NEXT:    %[[PACKED:.*]] = tir.block [n: 1, c: 1, h: 4, w: 4, l: 16] ins(%x[n, 16 * c + l, h, w] pad 0 : i8 : tensor<1x3x4x4xi8>) outs(%[[P]][n, c, h, w, l]
// CHECK:         %[[Y:.*]] = byoc.call @conv(%[[PACKED]]) : (tensor<1x1x4x4x16xi8>) -> tensor<1x2x4x4x16xi8>
// CHECK:         tir.block [n: 1, c: 20, h: 4, w: 4] ins(%[[Y]][n, c floordiv 16, h, w, c mod 16] : tensor<1x2x4x4x16xi8>)
func.func @main(%x: tensor<1x3x4x4xi8>) -> tensor<1x20x4x4xi8> {
  %y = byoc.call @conv(%x) : (tensor<1x3x4x4xi8>) -> tensor<1x20x4x4xi8>
  func.return %y : tensor<1x20x4x4xi8>
}

// CHECK-LABEL: func.func @conv(%x: tensor<1x1x4x4x16xi8>) -> tensor<1x2x4x4x16xi8>
// CHECK:         %[[ZERO:.*]] = tir.fill 0 : i32 : tensor<1x2x4x4x16xi32>
// CHECK-NEXT:    %[[W:.*]] = tir.constant {{.*}} : tensor<2x1x1x1x16x16xi8>
// CHECK-NEXT:    %[[ACC:.*]] = tir.block [n: 1, o: 2, h: 4, w: 4, l: 16 | c: 1, r: 1, s: 1, k: 16]
// CHECK-SAME:      ins(%{{.*}}[n, c, h + r, w + s, k] : tensor<1x1x4x4x16xi8>, %[[W]][o, c, r, s, l, k] : tensor<2x1x1x1x16x16xi8>)
// CHECK-SAME:      outs(%[[ZERO]][n, o, h, w, l] : tensor<1x2x4x4x16xi32>)
// CHECK:         %[[B:.*]] = tir.constant {{.*}} : tensor<2x16xi32>
// CHECK-NEXT:    tir.block [n: 1, c: 2, h: 4, w: 4, l: 16] ins(%[[B]][c, l] : tensor<2x16xi32>) outs(%[[ACC]][n, c, h, w, l]
func.func @conv(%x: tensor<1x3x4x4xi8>) -> tensor<1x20x4x4xi8> attributes {byoc.target = #byoc.target<"vta", {}>} {
  %y = byoc.composite "vta.conv" at "graph" (%a = %x : tensor<1x3x4x4xi8>) -> tensor<1x20x4x4xi8> {
    %w = tir.constant <[
      1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
      1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
    ] : tensor<20x3x1x1xi8>> : tensor<20x3x1x1xi8>
    %zero = tir.fill 0 : i32 : tensor<1x20x4x4xi32>
    %acc = tir.block [n: 1, o: 20, h: 4, w: 4 | c: 3, r: 1, s: 1] ins(%a[n, c, h + r, w + s] : tensor<1x3x4x4xi8>, %w[o, c, r, s] : tensor<20x3x1x1xi8>) outs(%zero[n, o, h, w] : tensor<1x20x4x4xi32>) {
    ^bb0(%p: i8, %q: i8, %r: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.extsi %q : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %r, %2 : i32
      tir.yield %3 : i32
    }
    %b = tir.constant <[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20] : tensor<20xi32>> : tensor<20xi32>
    %sum = tir.block [n: 1, c: 20, h: 4, w: 4] ins(%b[c] : tensor<20xi32>) outs(%acc[n, c, h, w] : tensor<1x20x4x4xi32>) {
    ^bb0(%q: i32, %r: i32):
      %0 = arith.addi %r, %q : i32
      tir.yield %0 : i32
    }
    %e = tir.empty : tensor<1x20x4x4xi8>
    %z = tir.block [n: 1, c: 20, h: 4, w: 4] ins(%sum[n, c, h, w] : tensor<1x20x4x4xi32>) outs(%e[n, c, h, w] : tensor<1x20x4x4xi8>) {
    ^bb0(%q: i32, %r: i8):
      %0 = arith.trunci %q : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield %z : tensor<1x20x4x4xi8>
  }
  func.return %y : tensor<1x20x4x4xi8>
}
