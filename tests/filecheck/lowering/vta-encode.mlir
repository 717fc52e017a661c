// RUN: byocir-opt %s -p vta-encode | filecheck %s

// Constants first, from address 4096 on, then inputs and outputs; the call stays.

// CHECK:      %0 = byoc.call @vta_0(%x) : (tensor<4x16xi8>) -> tensor<4x16xi8>
// CHECK:      vta.program @vta_0 insns <"[[INSNS:.+]]" : tensor<4x16xui8>> image <"{{.+}}" : tensor<4104xui8>> dram 4928
// CHECK-SAME: inputs [#vta.port<4352, memref<4x16xi8>>] outputs [#vta.port<4608, memref<4x16xi8>>]
// CHECK-SAME: spans [#vta.span<1>, #vta.span<2, "Relu_0", "Add_1">, #vta.span<1>]
// CHECK-SAME: attributes {byoc.target = #byoc.target<"vta", {}>}
func.func public @main(%x: tensor<4x16xi8>) -> tensor<4x16xi8> {
  %0 = byoc.call @vta_0(%x) : (tensor<4x16xi8>) -> tensor<4x16xi8>
  func.return %0 : tensor<4x16xi8>
}
func.func @vta_0(%x: memref<4x16xi8>, %y: memref<4x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  %u = tir.constant <[7, 8] : tensor<2xi32>> : memref<2xi32>
  %t = tir.alloc : memref<4x16xi8>
  vta.load uop[0] from %u[0] size [1, 2] : memref<2xi32>
  vta.load acc8[0] from %x[0] size [1, 4] {push_next} : memref<4x16xi8> loc(fused["Relu_0", "Add_1"])
  vta.store acc[0] to %y[0] size [1, 4] {pop_prev, push_prev} : memref<4x16xi8> loc(fused["Relu_0", "Add_1"])
  vta.finish {pop_next}
  func.return
}
