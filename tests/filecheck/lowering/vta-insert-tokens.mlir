// RUN: byocir-opt %s -p vta-insert-tokens | filecheck %s

// Reads after writes, writes after reads, and nothing for what does not touch.

// CHECK-LABEL: func.func @tokens
// CHECK:       vta.load inp[0] from %x[0] size [1, 4] : memref
// CHECK-NEXT:  vta.load wgt[0] from %w[0] size [1, 1] {push_next} : memref
// CHECK-NEXT:  vta.load uop[0] from %u[0] size [1, 1] : memref
// CHECK-NEXT:  vta.gemm reset uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1] wgt [0, 0]
// CHECK-NEXT:  vta.gemm uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1] wgt [0, 0] {pop_prev, push_prev, push_next}
// CHECK-NEXT:  vta.store acc[0] to %y[0] size [1, 4] {pop_prev} : memref
// CHECK-NEXT:  vta.load inp[4] from %x[4] size [1, 4] : memref
// CHECK-NEXT:  vta.load inp[3] from %x[4] size [1, 1] {pop_next, push_next} : memref
// CHECK-NEXT:  vta.load acc8[4] from %x[0] size [1, 4] : memref
// CHECK-NEXT:  vta.store acc[2] to %y[4] size [1, 1] {push_prev} : memref
// CHECK-NEXT:  vta.load acc8[0] from %x[0] size [1, 4] {pop_next} : memref
// CHECK-NEXT:  vta.finish {pop_prev}
func.func @tokens(%x: memref<8x16xi8>, %y: memref<8x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  %u = tir.constant <[0] : tensor<1xi32>> : memref<1xi32>
  %w = tir.constant <"w" : tensor<16x16xi8>> : memref<16x16xi8>
  vta.load inp[0] from %x[0] size [1, 4] : memref<8x16xi8>
  vta.load wgt[0] from %w[0] size [1, 1] : memref<16x16xi8>
  vta.load uop[0] from %u[0] size [1, 1] : memref<1xi32>
  vta.gemm reset uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1] wgt [0, 0]
  vta.gemm uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1] wgt [0, 0]
  vta.store acc[0] to %y[0] size [1, 4] : memref<8x16xi8>
  vta.load inp[4] from %x[4] size [1, 4] : memref<8x16xi8>
  vta.load inp[3] from %x[4] size [1, 1] : memref<8x16xi8>
  vta.load acc8[4] from %x[0] size [1, 4] : memref<8x16xi8>
  vta.store acc[2] to %y[4] size [1, 1] : memref<8x16xi8>
  vta.load acc8[0] from %x[0] size [1, 4] : memref<8x16xi8>
  vta.finish
  func.return
}

// What was stored is loaded: by way of a compute instruction of its own.

// CHECK-LABEL: func.func @layers
// CHECK:       vta.load acc8[0] from %x[0] size [1, 4] {push_next} : memref
// CHECK-NEXT:  vta.store acc[0] to %t[0] size [1, 4] {pop_prev, push_prev} : memref
// CHECK-NEXT:  vta.load uop[0] size [0, 0] {pop_next, push_prev} loc("Conv_1")
// CHECK-NEXT:  vta.load inp[0] from %t[2] size [1, 2] {pop_next, push_next} : memref<4x16xi8> loc("Conv_1")
// CHECK-NEXT:  vta.finish {pop_prev}
func.func @layers(%x: memref<4x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  %t = tir.alloc : memref<4x16xi8>
  vta.load acc8[0] from %x[0] size [1, 4] : memref<4x16xi8> loc("Relu_0")
  vta.store acc[0] to %t[0] size [1, 4] : memref<4x16xi8> loc("Relu_0")
  vta.load inp[0] from %t[2] size [1, 2] : memref<4x16xi8> loc("Conv_1")
  vta.finish
  func.return
}

// A function for another target is left alone.

// CHECK-LABEL: func.func @other
// CHECK-NEXT:  vta.finish{{$|( loc.*)}}
func.func @other() {
  vta.finish
  func.return
}
