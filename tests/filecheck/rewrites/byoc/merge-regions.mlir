// RUN: byocir-opt -p set-targets{targets=vta},merge-regions,verify-regions %s | filecheck %s
// RUN: byocir-opt -p set-targets{targets=vta},merge-regions,merge-regions %s | filecheck %s

// Neighbours are one call; what only they use is inside it.
// CHECK-LABEL: @neighbours
// CHECK-NEXT:    %[[R:.*]] = byoc.region {{.*}} (%[[A:.*]] = %x : tensor<4xi8>) -> tensor<4xi8> {
// CHECK-NEXT:      %[[P:.*]] = byoc.composite "vta.relu" at "graph" (%{{.*}} = %[[A]] :
// CHECK:           %[[Q:.*]] = byoc.composite "vta.relu" at "graph" (%{{.*}} = %[[P]] :
// CHECK:           byoc.yield %[[Q]] : tensor<4xi8>
// CHECK-NEXT:    } loc(fused["p", "q"])
// CHECK-NEXT:    func.return %[[R]]
func.func @neighbours(%x: tensor<4xi8>) -> tensor<4xi8> {
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
  func.return %q : tensor<4xi8>
}

// What does not depend on each other may share a call, at both levels; an input is listed once, and
// what is used outside is a result.
// CHECK-LABEL: @beside
// CHECK-NEXT:    %[[R:.*]], %[[S:.*]] = byoc.region {{.*}} (%[[A:.*]] = %x : tensor<4xi8>) -> tensor<4xi8>, tensor<4xi8> {
// CHECK:           byoc.composite "vta.relu" at "graph" (%{{.*}} = %[[A]] :
// CHECK:           byoc.composite "vta.relu" at "tensor" (%{{.*}} = %[[A]] :
// CHECK:         func.return %[[R]], %[[S]]
func.func @beside(%x: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi8>) {
  %p = byoc.region #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}> (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
    %b = byoc.composite "vta.relu" at "graph" (%c = %a : tensor<4xi8>) -> tensor<4xi8> {
      %d = graph.relu %c : (tensor<4xi8>) -> tensor<4xi8> loc("p")
      byoc.yield %d : tensor<4xi8>
    } loc("p")
    byoc.yield %b : tensor<4xi8>
  } loc("p")
  %q = byoc.region #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}> (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
    %b = byoc.composite "vta.relu" at "tensor" (%c = %a : tensor<4xi8>) -> tensor<4xi8> {
      %d = graph.relu %c : (tensor<4xi8>) -> tensor<4xi8> loc("q")
      byoc.yield %d : tensor<4xi8>
    } loc("q")
    byoc.yield %b : tensor<4xi8>
  } loc("q")
  func.return %p, %q : tensor<4xi8>, tensor<4xi8>
}

// A path through the host keeps two regions apart, whatever the order of the text. The later one
// records the way round.
// CHECK-LABEL: @cut
// CHECK-NEXT:    %[[P:.*]] = byoc.region #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}> (
// CHECK:         %[[H:.*]] = graph.transpose %[[P]]
// CHECK-NEXT:    byoc.region #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}> cuts [#byoc.cut<"graph.transpose (h)", ["p"], ["h"], ["h"], ["q"]>] (%{{.*}} = %[[H]] : tensor<4xi8>)
func.func @cut(%x: tensor<4xi8>) -> tensor<4xi8> {
  %p = byoc.region #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}> (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
    %b = byoc.composite "vta.relu" at "graph" (%c = %a : tensor<4xi8>) -> tensor<4xi8> {
      %d = graph.relu %c : (tensor<4xi8>) -> tensor<4xi8> loc("p")
      byoc.yield %d : tensor<4xi8>
    } loc("p")
    byoc.yield %b : tensor<4xi8>
  } loc("p")
  %h = graph.transpose %p {perm = array<i64: 0>} : (tensor<4xi8>) -> tensor<4xi8> loc("h")
  %q = byoc.region #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}> (%a = %h : tensor<4xi8>) -> tensor<4xi8> {
    %b = byoc.composite "vta.relu" at "graph" (%c = %a : tensor<4xi8>) -> tensor<4xi8> {
      %d = graph.relu %c : (tensor<4xi8>) -> tensor<4xi8> loc("q")
      byoc.yield %d : tensor<4xi8>
    } loc("q")
    byoc.yield %b : tensor<4xi8>
  } loc("q")
  func.return %q : tensor<4xi8>
}
