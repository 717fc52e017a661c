// RUN: byocir-opt --no-debuginfo -p vta-arrange %s | filecheck %s

// Tokens times weights: features, which lanes count, come second in what goes in and what comes out.
// CHECK-LABEL: func.func @main(%x: tensor<1x2x4xi8>) -> tensor<1x2x3xi8>
// CHECK:         %[[IN:.*]] = tir.block [d0: 1, d1: 4, d2: 2] ins(%x[d0, d2, d1] : tensor<1x2x4xi8>) outs(%{{.*}}[d0, d1, d2] : tensor<1x4x2xi8>)
// CHECK:         %[[Y:.*]] = byoc.call @product(%[[IN]]) : (tensor<1x4x2xi8>) -> tensor<1x3x2xi8>
// CHECK:         tir.block [d0: 1, d1: 2, d2: 3] ins(%[[Y]][d0, d2, d1] : tensor<1x3x2xi8>) outs(%{{.*}}[d0, d1, d2] : tensor<1x2x3xi8>)
func.func @main(%x: tensor<1x2x4xi8>) -> tensor<1x2x3xi8> {
  %y = byoc.call @product(%x) : (tensor<1x2x4xi8>) -> tensor<1x2x3xi8>
  func.return %y : tensor<1x2x3xi8>
}

// CHECK-LABEL: func.func @product(%x: tensor<1x4x2xi8>) -> tensor<1x3x2xi8>
// CHECK:         tir.block [b: 1, m: 2, n: 3 | k: 4]
// CHECK-SAME:      ins(%{{.*}}[b, k, m] : tensor<1x4x2xi8>, %{{.*}}[k, n] : tensor<4x3xi8>) outs(%{{.*}}[b, n, m] : tensor<1x3x2xi32>)
// CHECK:         tir.block [b: 1, m: 2, n: 3] ins(%{{.*}}[b, n, m] : tensor<1x3x2xi32>) outs(%{{.*}}[b, n, m] : tensor<1x3x2xi8>)
func.func @product(%x: tensor<1x2x4xi8>) -> tensor<1x2x3xi8> attributes {byoc.target = #byoc.target<"vta", {}>} {
  %y = byoc.composite "vta.contraction" at "tensor" (%a = %x : tensor<1x2x4xi8>) -> tensor<1x2x3xi8> {
    %w = tir.constant <[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] : tensor<4x3xi8>> : tensor<4x3xi8>
    %zero = tir.fill 0 : i32 : tensor<1x2x3xi32>
    %acc = tir.block [b: 1, m: 2, n: 3 | k: 4] ins(%a[b, m, k] : tensor<1x2x4xi8>, %w[k, n] : tensor<4x3xi8>) outs(%zero[b, m, n] : tensor<1x2x3xi32>) {
    ^bb0(%p: i8, %q: i8, %r: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.extsi %q : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %r, %2 : i32
      tir.yield %3 : i32
    }
    %e = tir.empty : tensor<1x2x3xi8>
    %z = tir.block [b: 1, m: 2, n: 3] ins(%acc[b, m, n] : tensor<1x2x3xi32>) outs(%e[b, m, n] : tensor<1x2x3xi8>) {
    ^bb0(%q: i32, %r: i8):
      %0 = arith.trunci %q : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield %z : tensor<1x2x3xi8>
  }
  func.return %y : tensor<1x2x3xi8>
}

// Weights that are computed stay as they are; vta-pack lays them out.
// CHECK-LABEL: func.func @computed(%x: tensor<1x4x2xi8>, %w: tensor<1x4x3xi8>) -> tensor<1x3x2xi8>
// CHECK:         ins(%{{.*}}[b, k, m] : tensor<1x4x2xi8>, %{{.*}}[b, k, n] : tensor<1x4x3xi8>)
func.func @computed(%x: tensor<1x2x4xi8>, %w: tensor<1x4x3xi8>) -> tensor<1x2x3xi8> attributes {byoc.target = #byoc.target<"vta", {}>} {
  %y = byoc.composite "vta.contraction" at "tensor" (%a = %x : tensor<1x2x4xi8>, %b = %w : tensor<1x4x3xi8>) -> tensor<1x2x3xi8> {
    %zero = tir.fill 0 : i32 : tensor<1x2x3xi32>
    %acc = tir.block [b: 1, m: 2, n: 3 | k: 4] ins(%a[b, m, k] : tensor<1x2x4xi8>, %b[b, k, n] : tensor<1x4x3xi8>) outs(%zero[b, m, n] : tensor<1x2x3xi32>) {
    ^bb0(%p: i8, %q: i8, %r: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.extsi %q : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %r, %2 : i32
      tir.yield %3 : i32
    }
    %e = tir.empty : tensor<1x2x3xi8>
    %z = tir.block [b: 1, m: 2, n: 3] ins(%acc[b, m, n] : tensor<1x2x3xi32>) outs(%e[b, m, n] : tensor<1x2x3xi8>) {
    ^bb0(%q: i32, %r: i8):
      %0 = arith.trunci %q : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield %z : tensor<1x2x3xi8>
  }
  func.return %y : tensor<1x2x3xi8>
}
