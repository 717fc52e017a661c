// RUN: not byocir-opt -p vta-arrange %s 2>&1 | filecheck %s

// CHECK:      error[B320]: expected composites on tensors, found one in memory
// CHECK-NEXT:   at    node Relu_1, composite vta.bound, function @vta_0
// CHECK-NEXT:   help  raise-scf-to-tir brings programs in memory back to tensors
func.func @vta_0(%x: memref<1x16xi8>, %y: memref<1x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  byoc.composite "vta.bound" at "tensor" (%a = %x : memref<1x16xi8>, %b = %y : memref<1x16xi8>) {
    tir.block [n: 1, c: 16] ins(%a[n, c] : memref<1x16xi8>) outs(%b[n, c] : memref<1x16xi8>) {
    ^bb0(%p: i8, %old: i8):
      %0 = arith.constant 0 : i8
      %1 = arith.maxsi %p, %0 : i8
      tir.yield %1 : i8
    } loc("Relu_1")
    byoc.yield
  } loc("Relu_1")
  func.return
}
