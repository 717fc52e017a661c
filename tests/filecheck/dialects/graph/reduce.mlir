// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @reduce(%x: tensor<1x4x8x8xf32>) {
  %0 = graph.reduce_mean %x {axes = array<i64: 2, 3>, keepdims = 1 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>
  %1 = graph.reduce_mean %x {axes = array<i64: 1>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x8x8xf32>
  %2 = graph.softmax %x {axis = 3 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return
}

// CHECK: %0 = graph.reduce_mean %x {axes = array<i64: 2, 3>, keepdims = 1 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>
// CHECK-NEXT: %1 = graph.reduce_mean %x {axes = array<i64: 1>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x8x8xf32>
// CHECK-NEXT: %2 = graph.softmax %x {axis = 3 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
