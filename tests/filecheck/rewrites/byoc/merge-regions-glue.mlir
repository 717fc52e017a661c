// RUN: byocir-opt -p set-targets{targets=vta},match-composites,assign-targets,merge-regions %s | filecheck %s

// A view is worth nothing by itself: it goes back to the host, and its record says why. Beside work
// that it is connected to it stays.
// CHECK-LABEL: @main
// CHECK-NEXT:    %[[R:.*]] = byoc.region {{.*}} (%{{.*}} = %x : tensor<1x4xi8>) -> tensor<1x4x1x1xi8>
// CHECK:           "vta.relu"
// CHECK:           "vta.view"
// CHECK:         %[[V:.*]] = graph.reshape %y {{.*}} loc("alone")
// CHECK-NEXT:    func.return %[[R]], %[[V]]
// CHECK:         byoc.trail
// CHECK-SAME:    "vta.view", "refused", ["alone"], #builtin.int<1>, #builtin.int<1>, "nothing beside it that is worth a call"
func.func @main(%x: tensor<1x4xi8>, %y: tensor<1x4xi8>) -> (tensor<1x4x1x1xi8>, tensor<1x4x1x1xi8>) {
  %0 = graph.relu %x : (tensor<1x4xi8>) -> tensor<1x4xi8> loc("relu")
  %1 = graph.reshape %0 {shape = array<i64: 1, 4, 1, 1>} : (tensor<1x4xi8>) -> tensor<1x4x1x1xi8> loc("beside")
  %2 = graph.reshape %y {shape = array<i64: 1, 4, 1, 1>} : (tensor<1x4xi8>) -> tensor<1x4x1x1xi8> loc("alone")
  func.return %1, %2 : tensor<1x4x1x1xi8>, tensor<1x4x1x1xi8>
}
