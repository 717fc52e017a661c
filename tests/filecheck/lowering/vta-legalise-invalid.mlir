// RUN: not byocir-opt -p vta-legalise %s 2>&1 | filecheck %s

// CHECK:      error[B321]: expected a body of additions, multiplications, minima, maxima and right shifts on i32, or a fixed-point requantise, found arith.divsi on i8, i8, i8
// CHECK-NEXT:   at    node Div_3, composite vta.div, function @divides
// CHECK-NEXT:   help
func.func @divides(%x: tensor<1x3xi8>) -> tensor<1x3xi8> attributes {byoc.target = #byoc.target<"vta", {}>} {
  %y = byoc.composite "vta.div" at "graph" (%a = %x : tensor<1x3xi8>) -> tensor<1x3xi8> {
    %e = tir.empty : tensor<1x3xi8>
    %0 = tir.block [i: 1, j: 3] ins(%a[i, j] : tensor<1x3xi8>) outs(%e[i, j] : tensor<1x3xi8>) {
    ^bb0(%p: i8, %r: i8):
      %c = arith.constant 3 : i8
      %1 = arith.divsi %p, %c : i8
      tir.yield %1 : i8
    } loc("Div_3")
    byoc.yield %0 : tensor<1x3xi8>
  }
  func.return %y : tensor<1x3xi8>
}
