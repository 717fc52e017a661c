// RUN: byocir-opt %s | byocir-opt | filecheck %s

// CHECK-LABEL: func.func @instructions
func.func @instructions(%x: memref<1x4x14x14x16xi8>, %y: memref<1x4x14x14x16xi8>, %b: memref<4x16xi32>, %w: memref<4x4x3x3x16x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  // CHECK: %u = tir.constant
  %u = tir.constant <[5, 6] : tensor<2xi32>> : memref<2xi32>
  // CHECK-NEXT: vta.load inp[16] from %x[0] size [4, 6] stride 14 pads [1, 0, 1, 2] {pop_next, push_next} : memref<1x4x14x14x16xi8>
  vta.load inp[16] from %x[0] size [4, 6] stride 14 pads [1, 0, 1, 2] {pop_next, push_next} : memref<1x4x14x14x16xi8>
  // CHECK-NEXT: vta.load wgt[0] from %w[36] size [1, 36] : memref<4x4x3x3x16x16xi8>
  vta.load wgt[0] from %w[36] size [1, 36] : memref<4x4x3x3x16x16xi8>
  // CHECK-NEXT: vta.load acc[0] from %b[2] size [1, 1] : memref<4x16xi32>
  vta.load acc[0] from %b[2] size [1, 1] : memref<4x16xi32>
  // CHECK-NEXT: vta.load acc8[1] from %x[196] size [1, 196] {pop_next, push_prev} : memref<1x4x14x14x16xi8>
  vta.load acc8[1] from %x[196] size [1, 196] {pop_next, push_prev} : memref<1x4x14x14x16xi8>
  // CHECK-NEXT: vta.load uop[0] from %u[0] size [1, 2] : memref<2xi32>
  vta.load uop[0] from %u[0] size [1, 2] : memref<2xi32>
  // CHECK-NEXT: vta.gemm reset uops [0, 1] loops [1, 196] dst [0, 1] src [0, 0] wgt [0, 0]
  vta.gemm reset uops [0, 1] loops [1, 196] dst [0, 1] src [0, 0] wgt [0, 0]
  // CHECK-NEXT: vta.gemm uops [0, 2] loops [14, 14] dst [14, 1] src [16, 1] wgt [0, 0] {pop_prev, push_prev}
  vta.gemm uops [0, 2] loops [14, 14] dst [14, 1] src [16, 1] wgt [0, 0] {pop_prev, push_prev}
  // CHECK-NEXT: vta.alu add uops [0, 1] loops [1, 196] dst [0, 1] src [0, 0]
  vta.alu add uops [0, 1] loops [1, 196] dst [0, 1] src [0, 0]
  // CHECK-NEXT: vta.alu shr imm -7 uops [0, 1] loops [1, 196] dst [0, 1] src [0, 1] {push_next}
  vta.alu shr imm -7 uops [0, 1] loops [1, 196] dst [0, 1] src [0, 1] {push_next}
  // CHECK-NEXT: vta.store acc[0] to %y[32] size [4, 6] stride 14 {pop_prev, push_prev} : memref<1x4x14x14x16xi8>
  vta.store acc[0] to %y[32] size [4, 6] stride 14 {pop_prev, push_prev} : memref<1x4x14x14x16xi8>
  // CHECK-NEXT: vta.load inp[0] size [0, 0] {push_next}
  vta.load inp[0] size [0, 0] {push_next}
  // CHECK-NEXT: vta.load uop[0] size [0, 0] {pop_prev, push_next}
  vta.load uop[0] size [0, 0] {pop_prev, push_next}
  // CHECK-NEXT: vta.store acc[0] size [0, 0] {pop_prev, push_prev}
  vta.store acc[0] size [0, 0] {pop_prev, push_prev}
  // CHECK-NEXT: vta.finish {pop_next}
  vta.finish {pop_next}
  func.return
}
