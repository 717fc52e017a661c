// RUN: byocir-opt --verify-diagnostics --split-input-file -p set-targets{targets=vta},place-nodes %s | filecheck %s

// CHECK: the module names no target 'npu'
module attributes {byoc.placement = [#byoc.placed<"r", "npu">]} {
  func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
    %0 = graph.relu %x : (tensor<4xi8>) -> tensor<4xi8> loc("r")
    func.return %0 : tensor<4xi8>
  }
}

// -----

// CHECK: expected a name or a regular expression, found '('
module attributes {byoc.placement = [#byoc.placed<"(", "vta">]} {
  func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
    %0 = graph.relu %x : (tensor<4xi8>) -> tensor<4xi8> loc("r")
    func.return %0 : tensor<4xi8>
  }
}

// -----

// CHECK: expected a node that the placement 'rr' names, found none
module attributes {byoc.placement = [#byoc.placed<"rr", "vta">]} {
  func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
    %0 = graph.relu %x : (tensor<4xi8>) -> tensor<4xi8> loc("r")
    func.return %0 : tensor<4xi8>
  }
}
