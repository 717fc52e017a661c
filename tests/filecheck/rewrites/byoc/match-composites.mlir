// RUN: byocir-opt -p set-targets{targets=vta},match-composites %s | filecheck %s

// A pattern takes its longest form; its ops move to the root's place and keep their locations; the
// composite has the locations of all. Every pattern that had a chance leaves a record.
// CHECK-LABEL: @longest
// CHECK:         %[[P:.*]] = byoc.composite "vta.max_pool" at "graph" (%[[A:.*]] = %x : tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi8> {
// CHECK-NEXT:      %[[M:.*]] = graph.max_pool %[[A]] {{.*}} loc("pool")
// CHECK-NEXT:      %[[R:.*]] = graph.relu %[[M]] {{.*}} loc("relu")
// CHECK-NEXT:      byoc.yield %[[R]] : tensor<1x2x4x4xi8>
// CHECK-NEXT:    } loc(fused["pool", "relu"])
// CHECK-NEXT:    func.return %[[P]]
func.func @longest(%x: tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi8> {
  %0 = graph.max_pool %x {kernel_shape = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64} : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi8> loc("pool")
  %1 = graph.relu %0 : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi8> loc("relu")
  func.return %1 : tensor<1x2x4x4xi8>
}

// What something outside uses stays visible: two composites instead of one.
// CHECK-LABEL: @used_outside
// CHECK:         %[[P:.*]] = byoc.composite "vta.max_pool"
// CHECK:           graph.max_pool
// CHECK-NEXT:      byoc.yield
// CHECK:         byoc.composite "vta.relu" at "graph" (%{{.*}} = %[[P]] :
// CHECK:         graph.transpose %[[P]]
func.func @used_outside(%x: tensor<1x2x4x4xi8>) -> (tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>) {
  %0 = graph.max_pool %x {kernel_shape = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64} : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi8> loc("pool 2")
  %1 = graph.relu %0 : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi8> loc("relu 2")
  %2 = graph.transpose %0 {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi8> loc("transpose")
  func.return %1, %2 : tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>
}

// Functions that belong to a target already are left alone.
// CHECK-LABEL: @vta_0
// CHECK-NEXT:    graph.relu
func.func private @vta_0(%x: tensor<4xi8>) -> tensor<4xi8> attributes {byoc.target = #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}>} {
  %0 = graph.relu %x : (tensor<4xi8>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}

// CHECK:         byoc.trail
// CHECK-SAME:    #byoc.decision<"vta", "graph", "vta.max_pool", "taken", ["relu", "pool"], #builtin.int<2>, #builtin.int<2>, "",
// CHECK-SAME:    #byoc.decision<"vta", "graph", "vta.max_pool", "refused", ["relu 2", "pool 2"], #builtin.int<2>, #builtin.int<2>, "graph.max_pool (pool 2) is also used by graph.transpose (transpose) outside the match",
