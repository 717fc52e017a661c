// RUN: byocir-opt -p convert-graph-to-tir %s | filecheck %s

func.func @quantize(%x: tensor<2x3xf32>) -> tensor<2x3xi8> {
  %s = graph.constant #graph.array<[0.5, 0.25, 0.125] : tensor<3xf32>>
  %z = graph.constant #graph.array<[0, 0, 0] : tensor<3xi8>>
  %0 = graph.quantize %x, %s, %z {axis = 1 : i64} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xi8>) -> tensor<2x3xi8>
  func.return %0 : tensor<2x3xi8>
}

// A zero point that is zero is not read.
// CHECK-LABEL: @quantize
// CHECK: tir.block [i0: 2, i1: 3] ins(%x[i0, i1] : tensor<2x3xf32>, %s[i1] : tensor<3xf32>) outs(
// CHECK: arith.divf
// CHECK-NEXT: math.roundeven
// CHECK: arith.fptosi %{{.*}} : f32 to i8

func.func @dequantize(%x: tensor<2x3xui8>, %s: tensor<f32>, %z: tensor<ui8>) -> tensor<2x3xf32> {
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<2x3xui8>, tensor<f32>, tensor<ui8>) -> tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: @dequantize
// CHECK: tir.block [i0: 2, i1: 3] ins(%x[i0, i1] : tensor<2x3xui8>, %s[] : tensor<f32>, %z[] : tensor<ui8>) outs(
// CHECK: builtin.unrealized_conversion_cast %{{.*}} : ui8 to i8
// CHECK-NEXT: arith.uitofp %{{.*}} : i8 to f32
// CHECK: arith.subf
// CHECK-NEXT: arith.mulf

func.func @float_half_even(%x: tensor<2x3xi32>, %a: tensor<f32>, %b: tensor<f32>) -> tensor<2x3xi8> {
  %0 = graph.requantize %x, %a, %b {rounding = #graph.float_half_even, to = i8} : (tensor<2x3xi32>, tensor<f32>, tensor<f32>) -> tensor<2x3xi8>
  func.return %0 : tensor<2x3xi8>
}

// CHECK-LABEL: @float_half_even
// CHECK: arith.sitofp
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.divf
// CHECK-NEXT: math.roundeven
// CHECK: arith.fptosi %{{.*}} : f32 to i8

func.func @half_even(%x: tensor<2x3xi32>, %m: tensor<i32>) -> tensor<2x3xi32> {
  %0 = graph.requantize %x, %m {rounding = #graph.fixed<shift = 2, half_even>, to = i32} : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x3xi32>
  func.return %0 : tensor<2x3xi32>
}

// CHECK-LABEL: @half_even
// CHECK: %[[p:.*]] = arith.muli
// CHECK: arith.shrsi %[[p]]
// CHECK: arith.constant 2147483647 : i64
// CHECK: arith.trunci %{{.*}} : i64 to i32

func.func @exact(%x: tensor<2x3xi8>, %m: tensor<i32>) -> tensor<2x3xi32> {
  %0 = graph.requantize %x, %m {rounding = #graph.fixed<shift = 0, half_up>, to = i32} : (tensor<2x3xi8>, tensor<i32>) -> tensor<2x3xi32>
  func.return %0 : tensor<2x3xi32>
}

// CHECK-LABEL: @exact
// CHECK: arith.muli
// CHECK-NOT: arith.shrsi
// CHECK: func.return
