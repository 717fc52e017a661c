// RUN: byocir-opt -p set-targets{targets=vta},place-nodes %s | filecheck %s

// Names, and regular expressions for whole names: the first entry that names an op says where it
// goes. What no entry names, and constants, are the patterns' to place. Markers place what they
// enclose, and stay as entries for later stages.
// CHECK:       byoc.placement = [#byoc.placed<"keep", "host">, #byoc.placed<"ke.*", "vta">, #byoc.placed<"marked", "vta">]
// CHECK-LABEL: @main
// CHECK-NEXT:    graph.relu %x {byoc.place = "host"}{{.*}} loc("keep")
// CHECK-NEXT:    graph.abs %{{.*}} {byoc.place = "vta"}{{.*}} loc("kept")
// CHECK-NEXT:    graph.relu %{{[^{]*}} : {{.*}} loc("other")
// CHECK-NEXT:    graph.relu %{{.*}} {byoc.place = "vta"}{{.*}} loc("marked")
// CHECK-NEXT:    func.return
module attributes {byoc.placement = [#byoc.placed<"keep", "host">, #byoc.placed<"ke.*", "vta">]} {
  func.func @main(%x: tensor<1x4xi8>) -> tensor<1x4xi8> {
    %0 = graph.relu %x : (tensor<1x4xi8>) -> tensor<1x4xi8> loc("keep")
    %1 = graph.abs %0 : (tensor<1x4xi8>) -> tensor<1x4xi8> loc("kept")
    %2 = graph.relu %1 : (tensor<1x4xi8>) -> tensor<1x4xi8> loc("other")
    %3 = byoc.begin "vta" %2 : tensor<1x4xi8>
    %4 = graph.relu %3 : (tensor<1x4xi8>) -> tensor<1x4xi8> loc("marked")
    %5 = byoc.end "vta" %4 : tensor<1x4xi8>
    func.return %5 : tensor<1x4xi8>
  }
}
