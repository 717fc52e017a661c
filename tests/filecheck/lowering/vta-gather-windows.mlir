// RUN: byocir-opt --no-debuginfo -p vta-gather-windows %s | filecheck %s

// The host gathers 2x2 windows of two channels, zeros around them, and VTA sums over eight.
// CHECK-LABEL: func.func @main(%x: tensor<1x2x4x4xi8>)
// CHECK:         %[[W:.*]] = tir.block [d0: 1, d1: 8, d2: 5, d3: 5] ins(%x[d0, d1 floordiv 4, d2 + (d1 floordiv 2) mod 2 - 1, d3 + d1 mod 2 - 1] pad 7 : i8 : tensor<1x2x4x4xi8>)
// CHECK:         byoc.call @vta_0(%[[W]]) {notes = ["the host gathers the windows of input 0 as channels: 1x2x4x4 becomes 1x8x5x5, 168 bytes more cross"]} : (tensor<1x8x5x5xi8>) -> tensor<1x1x5x5xi32>
func.func @main(%x: tensor<1x2x4x4xi8>) -> tensor<1x1x5x5xi32> {
  %y = byoc.call @vta_0(%x) : (tensor<1x2x4x4xi8>) -> tensor<1x1x5x5xi32>
  func.return %y : tensor<1x1x5x5xi32>
}

// CHECK-LABEL: func.func @vta_0(%{{.*}}: tensor<1x8x5x5xi8>)
// CHECK:         tir.block [n: 1, o: 1, h: 5, w: 5 | c: 8] ins(%{{.*}}[n, c, h, w] : tensor<1x8x5x5xi8>, %{{.*}}[o, c] : tensor<1x8xi8>)
func.func @vta_0(%x: tensor<1x2x4x4xi8>) -> tensor<1x1x5x5xi32> attributes {byoc.target = #byoc.target<"vta", {}>} {
  %y = byoc.composite "vta.conv" at "graph" (%a = %x : tensor<1x2x4x4xi8>) -> tensor<1x1x5x5xi32> {
    %w = tir.constant <[1, 2, 3, 4, 5, 6, 7, 8] : tensor<1x2x2x2xi8>> : tensor<1x2x2x2xi8>
    %z = tir.fill 0 : i32 : tensor<1x1x5x5xi32>
    %r = tir.block [n: 1, o: 1, h: 5, w: 5 | c: 2, r: 2, s: 2] ins(%a[n, c, h + r - 1, w + s - 1] pad 7 : i8 : tensor<1x2x4x4xi8>, %w[o, c, r, s] : tensor<1x2x2x2xi8>) outs(%z[n, o, h, w] : tensor<1x1x5x5xi32>) {
    ^bb0(%u: i8, %v: i8, %acc: i32):
      %0 = arith.extsi %u : i8 to i32
      %1 = arith.extsi %v : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      tir.yield %3 : i32
    }
    byoc.yield %r : tensor<1x1x5x5xi32>
  }
  func.return %y : tensor<1x1x5x5xi32>
}
