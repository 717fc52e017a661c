// RUN: byocir-opt -p assign-targets %s | filecheck %s
// RUN: byocir-opt -p assign-targets,assign-targets %s | filecheck %s

// Every composite stands alone in a region for the target whose name it begins with, at either
// level. The region has the composite's inputs, results and location.
// CHECK-LABEL: @main
// CHECK-NEXT:    %[[Y:.*]] = byoc.region #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}> (%[[A:.*]] = %x : tensor<4xi8>) -> tensor<4xi8> {
// CHECK-NEXT:      %[[C:.*]] = byoc.composite "vta.relu" at "graph" (%[[B:.*]] = %[[A]] : tensor<4xi8>) -> tensor<4xi8> {
// CHECK-NEXT:        graph.relu %[[B]]
// CHECK-NEXT:        byoc.yield
// CHECK-NEXT:      } loc("relu")
// CHECK-NEXT:      byoc.yield %[[C]] : tensor<4xi8>
// CHECK-NEXT:    } loc("relu")
// CHECK-NEXT:    byoc.region #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}> (%{{.*}} = %[[Y]] : tensor<4xi8>) -> tensor<4xi8> {
// CHECK-NEXT:      byoc.composite "vta.bound" at "tensor"
// CHECK-NOT:   byoc.region
builtin.module attributes {byoc.targets = [#byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}>]} {
func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
  %0 = byoc.composite "vta.relu" at "graph" (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
    %r = graph.relu %a : (tensor<4xi8>) -> tensor<4xi8>
    byoc.yield %r : tensor<4xi8>
  } loc("relu")
  %1 = byoc.composite "vta.bound" at "tensor" (%a = %0 : tensor<4xi8>) -> tensor<4xi8> {
    %e = tir.empty : tensor<4xi8>
    %b = tir.block [i: 4] ins(%a[i] : tensor<4xi8>) outs(%e[i] : tensor<4xi8>) {
    ^bb0(%p: i8, %q: i8):
      %zero = arith.constant 0 : i8
      %m = arith.maxsi %p, %zero : i8
      tir.yield %m : i8
    }
    byoc.yield %b : tensor<4xi8>
  } loc("bound")
  func.return %1 : tensor<4xi8>
}
}
