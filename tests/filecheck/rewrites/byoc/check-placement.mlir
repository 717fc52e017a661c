// RUN: byocir-opt -p set-targets{targets=vta},place-nodes,match-composites,assign-targets,check-placement %s | filecheck %s

// What is placed on a target was taken by it; what is placed on the host stays there, and nothing
// is left of the placement on ops.
// CHECK-LABEL: @main
// CHECK-NEXT:    byoc.region
// CHECK-NEXT:      byoc.composite "vta.relu"
// CHECK:         graph.relu %{{[^{]*}} : {{.*}} loc("stays")
// CHECK-NEXT:    func.return
module attributes {byoc.placement = [#byoc.placed<"goes", "vta">, #byoc.placed<"stays", "host">]} {
  func.func @main(%x: tensor<1x4xi8>) -> tensor<1x4xi8> {
    %0 = graph.relu %x : (tensor<1x4xi8>) -> tensor<1x4xi8> loc("goes")
    %1 = graph.relu %0 : (tensor<1x4xi8>) -> tensor<1x4xi8> loc("stays")
    func.return %1 : tensor<1x4xi8>
  }
}
