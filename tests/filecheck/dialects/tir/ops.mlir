// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @values() -> tensor<4x8xi32> {
  %w = tir.constant <[1, 2] : tensor<2xi8>> : tensor<2xi8>
  %b = tir.constant <[-inf] : tensor<f32>> : memref<f32>
  %e = tir.empty : tensor<0x4xui8>
  %z = tir.fill 0 : i32 : tensor<4x8xi32>
  %l = tir.fill 0xFF800000 : f32 : tensor<4xf32>
  func.return %z : tensor<4x8xi32>
}

// CHECK-LABEL: @values
// CHECK-NEXT: %w = tir.constant <[1, 2] : tensor<2xi8>> : tensor<2xi8>
// CHECK-NEXT: %b = tir.constant <[-inf] : tensor<f32>> : memref<f32>
// CHECK-NEXT: %e = tir.empty : tensor<0x4xui8>
// CHECK-NEXT: %z = tir.fill 0 : i32 : tensor<4x8xi32>
// CHECK-NEXT: %l = tir.fill 0xff800000 : f32 : tensor<4xf32>

func.func @buffers(%x: memref<16x16xi8>) {
  %t = tir.alloc : memref<4x8xi32, "acc">
  tir.fill -1 : i32 into %t : memref<4x8xi32, "acc">
  tir.for %i = 0 to 4 serial {
    tir.for %j = 0 to 2 vthread {
      tir.copy %x[%i, %j] to %t sizes [4, 8] pad 0 : i8 : memref<16x16xi8> to memref<4x8xi32, "acc">
    }
  }
  tir.copy %x to %x sizes [16, 16] : memref<16x16xi8> to memref<16x16xi8>
  func.return
}

// CHECK-LABEL: @buffers
// CHECK-NEXT: %t = tir.alloc : memref<4x8xi32, "acc">
// CHECK-NEXT: tir.fill -1 : i32 into %t : memref<4x8xi32, "acc">
// CHECK-NEXT: tir.for %i = 0 to 4 serial {
// CHECK-NEXT: tir.for %j = 0 to 2 vthread {
// CHECK-NEXT: tir.copy %x[%i, %j] to %t sizes [4, 8] pad 0 : i8 : memref<16x16xi8> to memref<4x8xi32, "acc">
// CHECK: tir.copy %x to %x sizes [16, 16] : memref<16x16xi8> to memref<16x16xi8>

func.func @carried(%h0: tensor<4xf32>, %c0: tensor<2xi8>) -> tensor<4xf32> {
  %h, %c = tir.for %t = 0 to 5 serial carry(%a = %h0 : tensor<4xf32>, %b = %c0 : tensor<2xi8>) {
    tir.yield %a, %b : tensor<4xf32>, tensor<2xi8>
  }
  func.return %h : tensor<4xf32>
}

// CHECK-LABEL: @carried
// CHECK-NEXT: %h, %c = tir.for %t = 0 to 5 serial carry(%a = %h0 : tensor<4xf32>, %b = %c0 : tensor<2xi8>) {
// CHECK-NEXT: tir.yield %a, %b : tensor<4xf32>, tensor<2xi8>
// CHECK-NEXT: }

func.func @while(%g: tensor<i1>, %c0: tensor<2xi8>) -> tensor<2xi8> {
  %h, %c = tir.for %t = 0 to 5 serial while carry(%a = %g : tensor<i1>, %b = %c0 : tensor<2xi8>) {
    tir.yield %a, %b : tensor<i1>, tensor<2xi8>
  }
  func.return %c : tensor<2xi8>
}

// CHECK-LABEL: @while
// CHECK-NEXT: %h, %c = tir.for %t = 0 to 5 serial while carry(%a = %g : tensor<i1>, %b = %c0 : tensor<2xi8>) {

func.func @routine(%x: tensor<8x10xf32>) -> tensor<8x3xi64> {
  %v, %i = tir.extern "top_k"(%x) with {axis = 1 : i64, k = 3 : i64, largest = 1 : i64} : (tensor<8x10xf32>) -> (tensor<8x3xf32>, tensor<8x3xi64>)
  func.return %i : tensor<8x3xi64>
}

// CHECK-LABEL: @routine
// CHECK-NEXT: %v, %i = tir.extern "top_k"(%x) with {axis = 1 : i64, k = 3 : i64, largest = 1 : i64} : (tensor<8x10xf32>) -> (tensor<8x3xf32>, tensor<8x3xi64>)

func.func @open_result(%x: tensor<3x4xf32>) -> tensor<2x?xi64> {
  %i = tir.extern "non_zero"(%x) with {} within [array<i64: 2, 12>] : (tensor<3x4xf32>) -> tensor<2x?xi64>
  func.return %i : tensor<2x?xi64>
}

// CHECK-LABEL: @open_result
// CHECK-NEXT: %i = tir.extern "non_zero"(%x) with {} within [array<i64: 2, 12>] : (tensor<3x4xf32>) -> tensor<2x?xi64>

func.func @instructions(%x: memref<4xi8>, %t: memref<4xi8, "near">) {
  tir.intrinsic "npu.load" (stride = 2, pad = -1) beside waits(core = 1) {
    tir.copy %x to %t sizes [4] : memref<4xi8> to memref<4xi8, "near">
  }
  tir.intrinsic "npu.clear" {
    tir.fill 0 : i8 into %t : memref<4xi8, "near">
  }
  tir.intrinsic "npu.double" cut [1, 2] order [1, 0] {
    tir.block [i: 2, j: 4] outs(%x[j] : memref<4xi8>) {
    ^bb0(%a: i8):
      tir.yield %a : i8
    }
  }
  func.return
}

// CHECK-LABEL: @instructions
// CHECK-NEXT: tir.intrinsic "npu.load" (stride = 2, pad = -1) beside waits(core = 1) {
// CHECK-NEXT: tir.copy %x to %t sizes [4] : memref<4xi8> to memref<4xi8, "near">
// CHECK-NEXT: }
// CHECK-NEXT: tir.intrinsic "npu.clear" {
// CHECK-NEXT: tir.fill 0 : i8 into %t : memref<4xi8, "near">
// CHECK-NEXT: }
// CHECK-NEXT: tir.intrinsic "npu.double" cut [1, 2] order [1, 0] {
