// RUN: byocir-opt -p normalize-qdq,qdq-to-integer %s | filecheck %s

// What replaces several ops is located at all of them; what merely moves keeps its own place.
// CHECK:         graph.relu {{.*}} loc(fused["dequantize", "relu", "quantize"])
// CHECK:         graph.requantize {{.*}} loc(fused["dequantize", "relu", "quantize"])
// CHECK:         graph.reshape {{.*}} loc("reshape")
func.func @main(%x: tensor<4xi8>) -> tensor<2x2xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %t = graph.constant #graph.array<[0.25] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32> loc("dequantize")
  %1 = graph.relu %0 : (tensor<4xf32>) -> tensor<4xf32> loc("relu")
  %2 = graph.reshape %1 {shape = array<i64: 2, 2>} : (tensor<4xf32>) -> tensor<2x2xf32> loc("reshape")
  %3 = graph.quantize %2, %t, %z {axis = 1 : i64} : (tensor<2x2xf32>, tensor<f32>, tensor<i8>) -> tensor<2x2xi8> loc("quantize")
  func.return %3 : tensor<2x2xi8>
}
