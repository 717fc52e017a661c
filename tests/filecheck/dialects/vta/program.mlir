// RUN: byocir-opt %s | byocir-opt | filecheck %s

// CHECK:      vta.program @vta_0 insns <[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] : tensor<1x16xui8>>
// CHECK-SAME: image <[1, 2] : tensor<2xui8>> dram 20480
// CHECK-SAME: inputs [#vta.port<4096, memref<1x1x4x4x16xi8>>]
// CHECK-SAME: outputs [#vta.port<8192, memref<1x1x4x4x16xi8>>]
// CHECK-SAME: spans [#vta.span<1, "Conv_0", "Relu_1">, #vta.span<0>]
// CHECK-SAME: attributes {byoc.target = #byoc.target<"vta", {}>}
vta.program @vta_0
  insns <[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] : tensor<1x16xui8>>
  image <[1, 2] : tensor<2xui8>> dram 20480
  inputs [#vta.port<4096, memref<1x1x4x4x16xi8>>]
  outputs [#vta.port<8192, memref<1x1x4x4x16xi8>>]
  spans [#vta.span<1, "Conv_0", "Relu_1">, #vta.span<0>]
  attributes {byoc.target = #byoc.target<"vta", {}>}
