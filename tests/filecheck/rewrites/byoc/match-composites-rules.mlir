// RUN: byocir-opt -p set-targets{targets=vta},match-composites %s | filecheck %s

// A rule that fails keeps the op on the host. The record names every rule, whether it held, and what
// was seen; constants would have moved into the composite and stay where they are.
// CHECK-LABEL: @grouped
// CHECK-NOT:     byoc.composite
// CHECK:         graph.conv
// CHECK-NEXT:    graph.requantize
// CHECK:         byoc.trail
// CHECK-SAME:    #byoc.decision<"vta", "graph", "vta.conv", "refused", ["scale", "conv"], #builtin.int<2>, #builtin.int<5>, "1 of {{[0-9]+}} rules fail", [#byoc.rule<"The convolution has one or two spatial dimensions", "holds", "2"
// CHECK-SAME:    #byoc.rule<"Groups of channels, several together if they are small, fill whole blocks", "fails", "2 groups of 1 and 2 channels for blocks of 16"
func.func @grouped(%x: tensor<1x2x4x4xi8>) -> tensor<1x4x4x4xi8> {
  %w = graph.constant #graph.array<[1, 2, 3, 4] : tensor<4x1x1x1xi8>>
  %s = graph.constant #graph.array<[1024] : tensor<i32>>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x2x4x4xi8>, tensor<4x1x1x1xi8>) -> tensor<1x4x4x4xi32> loc("conv")
  %1 = graph.requantize %0, %s {rounding = #graph.fixed<shift = 10, half_up>} : (tensor<1x4x4x4xi32>, tensor<i32>) -> tensor<1x4x4x4xi8> loc("scale")
  func.return %1 : tensor<1x4x4x4xi8>
}
