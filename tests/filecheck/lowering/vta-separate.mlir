// RUN: byocir-opt --no-debuginfo -p set-targets{targets=vta},vta-separate %s | filecheck %s

// The product's result is weights of the product after it: only the host lays it out anew.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = byoc.composite "vta.contraction" at "tensor"
// CHECK:         %[[COPY:.*]] = tir.block [d0: 2, d1: 2] ins(%[[A]][d0, d1] : tensor<2x2xi8>)
// CHECK:         byoc.composite "vta.contraction" at "tensor" (%{{.*}} = %x : tensor<2x2xi8>, %{{.*}} = %[[COPY]] : tensor<2x2xi8>)
// CHECK-NOT:     tir.block [d0
// CHECK:         byoc.composite "vta.bound"
func.func @main(%x: tensor<2x2xi8>) -> (tensor<2x2xi8>, tensor<2x2xi8>) {
  %a = byoc.composite "vta.contraction" at "tensor" (%p = %x : tensor<2x2xi8>) -> tensor<2x2xi8> {
    %w = tir.constant <[1, 2, 3, 4] : tensor<2x2xi8>> : tensor<2x2xi8>
    %zero = tir.fill 0 : i32 : tensor<2x2xi32>
    %acc = tir.block [m: 2, n: 2 | k: 2] ins(%p[m, k] : tensor<2x2xi8>, %w[k, n] : tensor<2x2xi8>) outs(%zero[m, n] : tensor<2x2xi32>) {
    ^bb0(%s: i8, %t: i8, %r: i32):
      %0 = arith.extsi %s : i8 to i32
      %1 = arith.extsi %t : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %r, %2 : i32
      tir.yield %3 : i32
    }
    %e = tir.empty : tensor<2x2xi8>
    %z = tir.block [m: 2, n: 2] ins(%acc[m, n] : tensor<2x2xi32>) outs(%e[m, n] : tensor<2x2xi8>) {
    ^bb0(%t: i32, %r: i8):
      %0 = arith.trunci %t : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield %z : tensor<2x2xi8>
  }
  %b = byoc.composite "vta.contraction" at "tensor" (%p = %x : tensor<2x2xi8>, %q = %a : tensor<2x2xi8>) -> tensor<2x2xi8> {
    %zero = tir.fill 0 : i32 : tensor<2x2xi32>
    %acc = tir.block [m: 2, n: 2 | k: 2] ins(%p[m, k] : tensor<2x2xi8>, %q[k, n] : tensor<2x2xi8>) outs(%zero[m, n] : tensor<2x2xi32>) {
    ^bb0(%s: i8, %t: i8, %r: i32):
      %0 = arith.extsi %s : i8 to i32
      %1 = arith.extsi %t : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %r, %2 : i32
      tir.yield %3 : i32
    }
    %e = tir.empty : tensor<2x2xi8>
    %z = tir.block [m: 2, n: 2] ins(%acc[m, n] : tensor<2x2xi32>) outs(%e[m, n] : tensor<2x2xi8>) {
    ^bb0(%t: i32, %r: i8):
      %0 = arith.trunci %t : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield %z : tensor<2x2xi8>
  }
  %c = byoc.composite "vta.bound" at "tensor" (%p = %a : tensor<2x2xi8>) -> tensor<2x2xi8> {
    %e = tir.empty : tensor<2x2xi8>
    %z = tir.block [m: 2, n: 2] ins(%p[m, n] : tensor<2x2xi8>) outs(%e[m, n] : tensor<2x2xi8>) {
    ^bb0(%t: i8, %r: i8):
      %0 = arith.constant 0 : i8
      %1 = arith.maxsi %t, %0 : i8
      tir.yield %1 : i8
    }
    byoc.yield %z : tensor<2x2xi8>
  }
  func.return %b, %c : tensor<2x2xi8>, tensor<2x2xi8>
}
