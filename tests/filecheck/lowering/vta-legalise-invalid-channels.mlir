// RUN: not byocir-opt -p vta-legalise %s 2>&1 | filecheck %s

// A window over more channels than there are would read pads where VTA has other lanes.
// CHECK:      error[B322]: expected a window over the spatial dimensions of [N, C, …], found input at
// CHECK-NEXT:   at    node MaxPool_4, composite vta.window_max, function @pools
// CHECK-NEXT:   help
func.func @pools(%x: tensor<1x2x4xi8>) -> tensor<1x3x2xi8> attributes {byoc.target = #byoc.target<"vta", {}>} {
  %y = byoc.composite "vta.window_max" at "tensor" (%a = %x : tensor<1x2x4xi8>) -> tensor<1x3x2xi8> {
    %least = tir.fill -128 : i8 : tensor<1x3x2xi8>
    %0 = tir.block [n: 1, c: 3, h: 2 | r: 2] ins(%a[n, c, 2 * h + r] pad -128 : i8 : tensor<1x2x4xi8>) outs(%least[n, c, h] : tensor<1x3x2xi8>) {
    ^bb0(%p: i8, %r: i8):
      %1 = arith.maxsi %r, %p : i8
      tir.yield %1 : i8
    } loc("MaxPool_4")
    byoc.yield %0 : tensor<1x3x2xi8>
  }
  func.return %y : tensor<1x3x2xi8>
}
