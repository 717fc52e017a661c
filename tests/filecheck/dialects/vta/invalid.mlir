// RUN: byocir-opt --verify-diagnostics --split-input-file %s | filecheck %s

func.func @f(%x: memref<4x4x16xi8>) {
  // CHECK: expected sram_base in 0..65535, found 65536
  vta.load inp[65536] from %x[0] size [1, 1] : memref<4x4x16xi8>
  func.return
}

// -----

func.func @f(%x: memref<4x4x16xi8>) {
  // CHECK: expected x_pad_0 in 0..15, found 16
  vta.load inp[0] from %x[0] size [1, 1] pads [0, 0, 16, 0] : memref<4x4x16xi8>
  func.return
}

// -----

func.func @f(%x: memref<4x4x16xi8>) {
  // CHECK: expected INP elements within 0..2048, found 2040..2056
  vta.load inp[2040] from %x[0] size [1, 16] : memref<4x4x16xi8>
  func.return
}

// -----

func.func @f(%x: memref<4x4x16xi8>) {
  // CHECK: expected DRAM elements within 0..16 of memref<4x4x16xi8>, found 1..17
  vta.load inp[0] from %x[1] size [4, 4] : memref<4x4x16xi8>
  func.return
}

// -----

func.func @f(%x: memref<4x4x16xi32>) {
  // CHECK: expected a memref of i8, found memref<4x4x16xi32>
  vta.store acc[0] to %x[1] size [1, 4] : memref<4x4x16xi32>
  func.return
}

// -----

func.func @f(%x: memref<4x4x16xi8>) {
  // CHECK: expected no pop_prev in the load module, found it
  vta.load wgt[0] size [0, 0] {pop_prev}
  func.return
}

// -----

func.func @f(%x: memref<4x4x16xi8>) {
  // CHECK: expected no push_next in the store module, found it
  vta.store acc[0] to %x[1] size [1, 4] {push_next} : memref<4x4x16xi8>
  func.return
}

// -----

// CHECK: expected a memref unless the size is 0
vta.load acc[0] size [1, 1]

// -----

// CHECK: expected a range of micro-ops within 0..8192, found 4..4
vta.gemm uops [4, 4] loops [1, 1] dst [0, 0] src [0, 0] wgt [0, 0]

// -----

// CHECK: expected loops > 0, found [0, 1]
vta.gemm uops [0, 4] loops [0, 1] dst [0, 0] src [0, 0] wgt [0, 0]

// -----

// CHECK: expected wgt_factor_in in 0..1023, found 1024
vta.gemm uops [0, 4] loops [1, 1] dst [0, 0] src [0, 0] wgt [0, 1024]

// -----

// CHECK: expected 2 numbers in dst, found 3
vta.alu min uops [0, 4] loops [1, 1] dst [0, 0, 0] src [0, 0]

// -----

// CHECK: expected imm in -32768..32767, found 32768
vta.alu min imm 32768 uops [0, 4] loops [1, 1] dst [0, 0] src [0, 0]

// -----

// CHECK: expected spans over 1 instructions, found 2
vta.program @vta_0 insns <[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] : tensor<1x16xui8>>
  image <[1] : tensor<1xui8>> dram 16 inputs [] outputs [] spans [#vta.span<2>]

// -----

// CHECK: expected a port within 16 bytes, found its end at 32
vta.program @vta_0 insns <[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] : tensor<1x16xui8>>
  image <[1] : tensor<1xui8>> dram 16 inputs [#vta.port<16, memref<16xi8>>] outputs []
  spans [#vta.span<1>]

// -----

// CHECK: expected instructions as tensor<Nx16xui8>, found tensor<2xui8>
vta.program @vta_0 insns <[3, 0] : tensor<2xui8>> image <[1] : tensor<1xui8>> dram 16
  inputs [] outputs [] spans []

// -----

// CHECK: expected an image of at most 0 bytes, found 1
vta.program @vta_0 insns <[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] : tensor<1x16xui8>>
  image <[1] : tensor<1xui8>> dram 0 inputs [] outputs [] spans [#vta.span<1>]

// -----

// CHECK: expected tiles as tensor<1xRxi32>, found tensor<2x1xi32>
vta.program @vta_0 insns <[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] : tensor<1x16xui8>>
  image <[] : tensor<0xui8>> dram 16 inputs [] outputs [] spans [#vta.span<1>]
  tiles <[0, 1] : tensor<2x1xi32>>

// -----

func.func @f(%x: memref<4x16xi32>) {
  // CHECK: Expected 0 operands, but got 1
  "vta.finish"(%x) : (memref<4x16xi32>) -> ()
  func.return
}
