// RUN: byocir-opt %s | byocir-opt | filecheck %s

// CHECK: builtin.module attributes {byoc.targets = [#byoc.target<"vta", {rounding = "half_up"}>]} {
builtin.module attributes {byoc.targets = [#byoc.target<"vta", {rounding = "half_up"}>]} {
  func.func public @main(%x: tensor<4xi8> {byoc.name = "x"}) -> (tensor<4xi8> {byoc.name = "y"}) {
    // CHECK: %y = byoc.region #byoc.target<"vta", {}> cuts [#byoc.cut<"graph.softmax (s)", ["a"], ["s"], ["s"], ["relu"]>] (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
    %y = byoc.region #byoc.target<"vta", {}> cuts [#byoc.cut<"graph.softmax (s)", ["a"], ["s"], ["s"], ["relu"]>] (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
      // CHECK-NEXT: %b = byoc.composite "vta.relu" at "graph" by "i, = tile(relu, i=4)" constants [0] (%c = %a : tensor<4xi8>) -> tensor<4xi8> {
      %b = byoc.composite "vta.relu" at "graph" by "i, = tile(relu, i=4)" constants [0] (%c = %a : tensor<4xi8>) -> tensor<4xi8> {
        %d = graph.relu %c : (tensor<4xi8>) -> tensor<4xi8> loc("relu")
        // CHECK: byoc.yield %d : tensor<4xi8>
        byoc.yield %d : tensor<4xi8>
      } loc("relu")
      byoc.yield %b : tensor<4xi8>
    }
    // CHECK: byoc.call @vta_0(%y) {handed_off = #byoc.handed_off<"vta", [#byoc.taken<"vta.relu", "graph", ["relu"]>], [tensor<4xi8>], [tensor<4xi8>], [#byoc.cut<"graph.softmax (s)", ["a"], ["s"], ["s"], ["relu"]>]>, schedules = ["i, = tile(relu, i=4)"]} : (tensor<4xi8>) -> tensor<4xi8>
    %z = byoc.call @vta_0(%y) {handed_off = #byoc.handed_off<"vta", [#byoc.taken<"vta.relu", "graph", ["relu"]>], [tensor<4xi8>], [tensor<4xi8>], [#byoc.cut<"graph.softmax (s)", ["a"], ["s"], ["s"], ["relu"]>]>, schedules = ["i, = tile(relu, i=4)"]} : (tensor<4xi8>) -> tensor<4xi8>
    func.return %z : tensor<4xi8>
  }
  // CHECK: func.func private @vta_0(tensor<4xi8>) -> tensor<4xi8>
  func.func private @vta_0(tensor<4xi8>) -> tensor<4xi8>
  // CHECK: byoc.source [#byoc.node<"relu", "Relu", #builtin.int<0>>, #byoc.node<"q", "QuantizeLinear", #builtin.int<0>, "relu">]
  byoc.source [#byoc.node<"relu", "Relu", #builtin.int<0>>, #byoc.node<"q", "QuantizeLinear", #builtin.int<0>, "relu">]
  // CHECK: byoc.trail [#byoc.decision<"vta", "graph", "vta.relu", "taken", ["relu"], #builtin.int<1>, #builtin.int<1>, "", [#byoc.rule<"a rule", "holds", "1", "">]>]
  byoc.trail [#byoc.decision<"vta", "graph", "vta.relu", "taken", ["relu"], #builtin.int<1>, #builtin.int<1>, "", [#byoc.rule<"a rule", "holds", "1", "">]>]
  func.func @marked(%x: tensor<4xi8>) -> tensor<4xi8> {
    // CHECK: %b = byoc.begin "vta" %x : tensor<4xi8>
    // CHECK-NEXT: %e = byoc.end "vta" %b : tensor<4xi8>
    // CHECK-NEXT: %g = byoc.begin "vta" group "stem" %e : tensor<4xi8>
    // CHECK-NEXT: %h = byoc.end "vta" group "stem" %g : tensor<4xi8>
    %b = byoc.begin "vta" %x : tensor<4xi8>
    %e = byoc.end "vta" %b : tensor<4xi8>
    %g = byoc.begin "vta" group "stem" %e : tensor<4xi8>
    %h = byoc.end "vta" group "stem" %g : tensor<4xi8>
    func.return %e : tensor<4xi8>
  }
}
