// RUN: byocir-opt --no-debuginfo --load-target %S/../../../../examples/gemmini.py:Gemmini -p 'gather-windows' %s | filecheck %s

// The host gathers 2x2 windows of two channels, k counting rows, columns and then channels, and
// passes the weights as rows. They sum over 8 channels.
// CHECK-LABEL: func.func @main(%x: tensor<1x17x17x2xi8>)
// CHECK:         %[[X:.*]] = tir.block [d0: 1, d1: 16, d2: 16, d3: 8] ins(%x[d0, d1 + d3 floordiv 4, d2 + (d3 floordiv 2) mod 2, d3 mod 2] : tensor<1x17x17x2xi8>)
// CHECK:         %[[W:.*]] = tir.constant {{.*}} : tensor<8x4xi8>
// CHECK:         byoc.call @gemmini_0(%[[X]], %[[W]]) {notes = ["the host gathers the windows of input 0 as channels: 1x17x17x2 becomes 1x16x16x8, 1,470 bytes more cross"]}
func.func @main(%x: tensor<1x17x17x2xi8>) -> tensor<1x16x16x4xi32> {
  %w = tir.constant <[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32] : tensor<2x2x2x4xi8>> : tensor<2x2x2x4xi8>
  %y = byoc.call @gemmini_0(%x, %w) : (tensor<1x17x17x2xi8>, tensor<2x2x2x4xi8>) -> tensor<1x16x16x4xi32>
  func.return %y : tensor<1x16x16x4xi32>
}

// CHECK-LABEL: func.func @gemmini_0(%{{.*}}: tensor<1x16x16x8xi8>, %{{.*}}: tensor<8x4xi8>)
// CHECK:         tir.block [n: 1, h: 16, w: 16, o: 4 | c: 8] ins(%{{.*}}[n, h, w, c] : tensor<1x16x16x8xi8>, %{{.*}}[c, o] : tensor<8x4xi8>)
func.func @gemmini_0(%x: tensor<1x17x17x2xi8>, %w: tensor<2x2x2x4xi8>) -> tensor<1x16x16x4xi32> attributes {byoc.target = #byoc.target<"gemmini", {}>} {
  %y = byoc.composite "gemmini.conv" at "tensor" (%a = %x : tensor<1x17x17x2xi8>, %b = %w : tensor<2x2x2x4xi8>) -> tensor<1x16x16x4xi32> {
    %z = tir.fill 0 : i32 : tensor<1x16x16x4xi32>
    %r = tir.block [n: 1, h: 16, w: 16, o: 4 | r: 2, s: 2, c: 2] ins(%a[n, h + r, w + s, c] : tensor<1x17x17x2xi8>, %b[r, s, c, o] : tensor<2x2x2x4xi8>) outs(%z[n, h, w, o] : tensor<1x16x16x4xi32>) {
    ^bb0(%u: i8, %v: i8, %acc: i32):
      %0 = arith.extsi %u : i8 to i32
      %1 = arith.extsi %v : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      tir.yield %3 : i32
    }
    byoc.yield %r : tensor<1x16x16x4xi32>
  }
  func.return %y : tensor<1x16x16x4xi32>
}
