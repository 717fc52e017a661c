// RUN: byocir-opt -p outline-regions,verify-regions %s | filecheck %s
// RUN: byocir-opt -p outline-regions,outline-regions %s | filecheck %s

// Every region is a private function behind its caller and a call that records what it stands for.
// Regions that compute the same share a function, whose ops have the locations of all of them.
// CHECK-LABEL: @main
// CHECK-NEXT:    %[[P:.*]] = byoc.call @vta_1(%x) {handed_off = #byoc.handed_off<"vta", [#byoc.taken<"vta.relu", "graph", ["p"]>], [tensor<4xi8>], [tensor<4xi8>], []>} : (tensor<4xi8>) -> tensor<4xi8> loc("p")
// CHECK-NEXT:    %[[Q:.*]] = byoc.call @vta_1(%[[P]]) {handed_off = #byoc.handed_off<"vta", [#byoc.taken<"vta.relu", "graph", ["q"]>], {{.*}} loc("q")
// CHECK-NEXT:    byoc.call @vta_2(%[[Q]]) {handed_off = #byoc.handed_off<"vta", [#byoc.taken<"vta.relu", "tensor", ["r"]>]
// CHECK:       func.func private @vta_1(%{{.*}}: tensor<4xi8>) -> tensor<4xi8> attributes {byoc.target = #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}>} {
// CHECK-NEXT:    byoc.composite "vta.relu" at "graph"
// CHECK-NEXT:      graph.relu {{.*}} loc(fused["p", "q"])
// CHECK:         } loc(fused["p", "q"])
// CHECK-NEXT:    func.return
// CHECK:       func.func private @vta_2
// CHECK:         byoc.composite "vta.relu" at "tensor"
// CHECK:       func.func private @vta_0(tensor<4xi8>)
func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
  %p = byoc.region #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}> (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
    %b = byoc.composite "vta.relu" at "graph" (%c = %a : tensor<4xi8>) -> tensor<4xi8> {
      %d = graph.relu %c : (tensor<4xi8>) -> tensor<4xi8> loc("p")
      byoc.yield %d : tensor<4xi8>
    } loc("p")
    byoc.yield %b : tensor<4xi8>
  } loc("p")
  %q = byoc.region #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}> (%a = %p : tensor<4xi8>) -> tensor<4xi8> {
    %b = byoc.composite "vta.relu" at "graph" (%c = %a : tensor<4xi8>) -> tensor<4xi8> {
      %d = graph.relu %c : (tensor<4xi8>) -> tensor<4xi8> loc("q")
      byoc.yield %d : tensor<4xi8>
    } loc("q")
    byoc.yield %b : tensor<4xi8>
  } loc("q")
  %r = byoc.region #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}> (%a = %q : tensor<4xi8>) -> tensor<4xi8> {
    %b = byoc.composite "vta.relu" at "tensor" (%c = %a : tensor<4xi8>) -> tensor<4xi8> {
      %d = graph.relu %c : (tensor<4xi8>) -> tensor<4xi8> loc("r")
      byoc.yield %d : tensor<4xi8>
    } loc("r")
    byoc.yield %b : tensor<4xi8>
  } loc("r")
  func.return %r : tensor<4xi8>
}
func.func private @vta_0(tensor<4xi8>) -> tensor<4xi8>
