// RUN: byocir-opt -p set-targets{targets=vta},place-nodes,match-composites,assign-targets,verify-regions %s | filecheck %s --check-prefix=REGIONS
// RUN: byocir-opt -p set-targets{targets=vta},place-nodes,match-composites,assign-targets,merge-regions,outline-regions %s | filecheck %s

// Markers with a group: its ops share regions with each other and with no others. A group stays in
// the module, for later stages.
// REGIONS: byoc.placement = [#byoc.placed<"b", "vta", "one">, #byoc.placed<"a", "vta", "one">, #byoc.placed<"c", "vta", "two">]
// REGIONS: byoc.region {{.*}} group "one" (
// REGIONS: byoc.region {{.*}} group "one" (
// REGIONS: byoc.region {{.*}} group "two" (
// REGIONS: byoc.region #byoc.target<{{[^>]*}}> (
// CHECK-LABEL: @main
// CHECK-NEXT:    byoc.call @vta_0({{.*}} ["a"]>, #byoc.taken<"vta.relu", "graph", ["b"]>], {{.*}} group = "one"
// CHECK-NEXT:    byoc.call @vta_1({{.*}} ["c"]>], {{.*}} group = "two"
// CHECK-NEXT:    byoc.call @vta_2({{.*}} ["d"]>], {{[^=]*}} :
// CHECK-NEXT:    func.return
// CHECK:       @vta_0({{.*}} byoc.group = "one"
func.func @main(%x: tensor<1x4xi8>) -> tensor<1x4xi8> {
  %0 = byoc.begin "vta" group "one" %x : tensor<1x4xi8>
  %1 = graph.relu %0 : (tensor<1x4xi8>) -> tensor<1x4xi8> loc("a")
  %2 = graph.relu %1 : (tensor<1x4xi8>) -> tensor<1x4xi8> loc("b")
  %3 = byoc.end "vta" group "one" %2 : tensor<1x4xi8>
  %4 = byoc.begin "vta" group "two" %3 : tensor<1x4xi8>
  %5 = graph.relu %4 : (tensor<1x4xi8>) -> tensor<1x4xi8> loc("c")
  %6 = byoc.end "vta" group "two" %5 : tensor<1x4xi8>
  %7 = graph.relu %6 : (tensor<1x4xi8>) -> tensor<1x4xi8> loc("d")
  func.return %7 : tensor<1x4xi8>
}
