// RUN: byocir-opt --no-debuginfo --load-target %S/../../../programs/pixel_tiles.py:Both -p 'copy-pads' %s | filecheck %s

// A load that sets pads takes neighbours alone: the host makes an image with its pads for a layer
// whose tiles have every second pixel.
// CHECK-LABEL: func.func @main
// CHECK:         %[[X:.*]] = tir.block [d0: 1, d1: 11, d2: 11, d3: 8] ins(%x[d0, d1 - 1, d2 - 1, d3] pad 0 : i8 : tensor<1x9x9x8xi8>)
// CHECK:         byoc.composite "narrowing.layer" at "tensor" (%[[A:.*]] = %[[X]] : tensor<1x11x11x8xi8>
// CHECK:           ins(%[[A]][n, 2 * h + r, 2 * w + s, c] : tensor<1x11x11x8xi8>
// CHECK:         byoc.composite "narrowing.layer" at "tensor" (%[[B:.*]] = %x : tensor<1x9x9x8xi8>
// CHECK:           ins(%[[B]][n, h + r - 1, w + s - 1, c] pad 0 : i8 : tensor<1x9x9x8xi8>
module attributes {byoc.targets = [#byoc.target<"narrowing", {}>]} {
  func.func @main(%x: tensor<1x9x9x8xi8>, %w: tensor<3x3x8x8xi8>) -> (tensor<1x5x5x8xi8>, tensor<1x9x9x8xi8>) {
    %y = byoc.composite "narrowing.layer" at "tensor" (%a = %x : tensor<1x9x9x8xi8>, %b = %w : tensor<3x3x8x8xi8>) -> tensor<1x5x5x8xi8> {
      %z = tir.fill 0 : i32 : tensor<1x5x5x8xi32>
      %s = tir.block [n: 1, h: 5, w: 5, o: 8 | r: 3, s: 3, c: 8] ins(%a[n, 2 * h + r - 1, 2 * w + s - 1, c] pad 0 : i8 : tensor<1x9x9x8xi8>, %b[r, s, c, o] : tensor<3x3x8x8xi8>) outs(%z[n, h, w, o] : tensor<1x5x5x8xi32>) {
      ^bb0(%u: i8, %v: i8, %acc: i32):
        %0 = arith.extsi %u : i8 to i32
        %1 = arith.extsi %v : i8 to i32
        %2 = arith.muli %0, %1 : i32
        %3 = arith.addi %acc, %2 : i32
        tir.yield %3 : i32
      }
      %e = tir.empty : tensor<1x5x5x8xi8>
      %t = tir.block [n: 1, h: 5, w: 5, o: 8] ins(%s[n, h, w, o] : tensor<1x5x5x8xi32>) outs(%e[n, h, w, o] : tensor<1x5x5x8xi8>) {
      ^bb0(%p: i32, %q: i8):
        %four = arith.constant 4 : i32
        %low = arith.constant -128 : i32
        %high = arith.constant 127 : i32
        %0 = arith.shrsi %p, %four : i32
        %1 = arith.maxsi %0, %low : i32
        %2 = arith.minsi %1, %high : i32
        %3 = arith.trunci %2 : i32 to i8
        tir.yield %3 : i8
      }
      byoc.yield %t : tensor<1x5x5x8xi8>
    }
    %v = byoc.composite "narrowing.layer" at "tensor" (%a = %x : tensor<1x9x9x8xi8>, %b = %w : tensor<3x3x8x8xi8>) -> tensor<1x9x9x8xi8> {
      %z = tir.fill 0 : i32 : tensor<1x9x9x8xi32>
      %s = tir.block [n: 1, h: 9, w: 9, o: 8 | r: 3, s: 3, c: 8] ins(%a[n, h + r - 1, w + s - 1, c] pad 0 : i8 : tensor<1x9x9x8xi8>, %b[r, s, c, o] : tensor<3x3x8x8xi8>) outs(%z[n, h, w, o] : tensor<1x9x9x8xi32>) {
      ^bb0(%u: i8, %v: i8, %acc: i32):
        %0 = arith.extsi %u : i8 to i32
        %1 = arith.extsi %v : i8 to i32
        %2 = arith.muli %0, %1 : i32
        %3 = arith.addi %acc, %2 : i32
        tir.yield %3 : i32
      }
      %e = tir.empty : tensor<1x9x9x8xi8>
      %t = tir.block [n: 1, h: 9, w: 9, o: 8] ins(%s[n, h, w, o] : tensor<1x9x9x8xi32>) outs(%e[n, h, w, o] : tensor<1x9x9x8xi8>) {
      ^bb0(%p: i32, %q: i8):
        %four = arith.constant 4 : i32
        %low = arith.constant -128 : i32
        %high = arith.constant 127 : i32
        %0 = arith.shrsi %p, %four : i32
        %1 = arith.maxsi %0, %low : i32
        %2 = arith.minsi %1, %high : i32
        %3 = arith.trunci %2 : i32 to i8
        tir.yield %3 : i8
      }
      byoc.yield %t : tensor<1x9x9x8xi8>
    }
    func.return %y, %v : tensor<1x5x5x8xi8>, tensor<1x9x9x8xi8>
  }
}
