// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @quant(%x: tensor<1x4xf32>, %s: tensor<f32>, %z: tensor<i8>, %sc: tensor<4xf32>, %zc: tensor<4xui8>, %u: tensor<1x4xui8>, %a: tensor<1x4xi32>, %m: tensor<4xi32>, %b: tensor<1x4xi8>, %k: tensor<i32>) {
  %0 = graph.quantize %x, %s, %z {axis = 1 : i64} : (tensor<1x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x4xi8>
  %1 = graph.quantize %x, %sc, %zc {axis = 1 : i64} : (tensor<1x4xf32>, tensor<4xf32>, tensor<4xui8>) -> tensor<1x4xui8>
  %2 = graph.dequantize %u, %sc, %zc {axis = 1 : i64} : (tensor<1x4xui8>, tensor<4xf32>, tensor<4xui8>) -> tensor<1x4xf32>
  %3 = graph.dequantize %a, %s, %k {axis = 1 : i64} : (tensor<1x4xi32>, tensor<f32>, tensor<i32>) -> tensor<1x4xf32>
  %4 = graph.requantize %a, %sc, %s {rounding = #graph.float_half_even} : (tensor<1x4xi32>, tensor<4xf32>, tensor<f32>) -> tensor<1x4xi8>
  %5 = graph.requantize %a, %m {rounding = #graph.fixed<shift = 23, half_up>} : (tensor<1x4xi32>, tensor<4xi32>) -> tensor<1x4xi8>
  %6 = graph.requantize %b, %k {rounding = #graph.fixed<shift = 0, half_even>, to = i32} : (tensor<1x4xi8>, tensor<i32>) -> tensor<1x4xi32>
  func.return
}

// CHECK: %0 = graph.quantize %x, %s, %z {axis = 1 : i64} : (tensor<1x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x4xi8>
// CHECK-NEXT: %1 = graph.quantize %x, %sc, %zc {axis = 1 : i64} : (tensor<1x4xf32>, tensor<4xf32>, tensor<4xui8>) -> tensor<1x4xui8>
// CHECK-NEXT: %2 = graph.dequantize %u, %sc, %zc {axis = 1 : i64} : (tensor<1x4xui8>, tensor<4xf32>, tensor<4xui8>) -> tensor<1x4xf32>
// CHECK-NEXT: %3 = graph.dequantize %a, %s, %k {axis = 1 : i64} : (tensor<1x4xi32>, tensor<f32>, tensor<i32>) -> tensor<1x4xf32>
// CHECK-NEXT: %4 = graph.requantize %a, %sc, %s {rounding = #graph.float_half_even} : (tensor<1x4xi32>, tensor<4xf32>, tensor<f32>) -> tensor<1x4xi8>
// CHECK-NEXT: %5 = graph.requantize %a, %m {rounding = #graph.fixed<shift = 23, half_up>} : (tensor<1x4xi32>, tensor<4xi32>) -> tensor<1x4xi8>
// CHECK-NEXT: %6 = graph.requantize %b, %k {rounding = #graph.fixed<shift = 0, half_even>, to = i32} : (tensor<1x4xi8>, tensor<i32>) -> tensor<1x4xi32>
