// RUN: byocir-opt --verify-diagnostics --split-input-file -p set-targets{targets=vta},place-nodes,match-composites,assign-targets,check-placement %s | filecheck %s

// Nothing of the target is like a softmax.
// CHECK: expected vta to take graph.softmax (s), as placed, found no pattern with such an op
module attributes {byoc.placement = [#byoc.placed<"s", "vta">]} {
  func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
    %0 = graph.softmax %x {axis = 1 : i64} : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("s")
    func.return %0 : tensor<1x4xf32>
  }
}

// -----

// The nearest pattern says what it expected.
// CHECK: expected vta to take graph.relu (r), as placed, found vta.relu: expected x of i8, found f32
module attributes {byoc.placement = [#byoc.placed<"r", "vta">]} {
  func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
    %0 = graph.relu %x : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("r")
    func.return %0 : tensor<1x4xf32>
  }
}
