// RUN: byocir-opt -p convert-graph-to-tir,fuse-blocks %s | filecheck %s

// A chain is one block; a constant of one element is a number of its body.

func.func @main(%x: tensor<2x4xf32>) -> tensor<4x2xf32> {
  %c = graph.constant #graph.array<[0.5] : tensor<f32>>
  %0 = graph.mul %x, %c : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %1 = graph.transpose %0 {perm = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %2 = graph.relu %1 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  func.return %2 : tensor<4x2xf32>
}

// CHECK:      tir.block [i0: 4, i1: 2] ins(%x[i1, i0] : tensor<2x4xf32>) outs(%{{.*}}[i0, i1] : tensor<4x2xf32>) {
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:   %[[C:.*]] = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:   %[[M:.*]] = arith.mulf %[[X]], %[[C]] : f32
// CHECK:        arith.maximumf %[[M]]
// CHECK-NOT:  tir.block

// Of an array that is read twice at a point, numbers are computed once.

// CHECK-LABEL: func.func @twice
func.func @twice(%y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.neg %y : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.mul %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// CHECK:      tir.block [i0: 4] ins(%y[i0] : tensor<4xf32>) outs(%{{.*}}[i0] : tensor<4xf32>) {
// CHECK-NEXT: ^bb0(%[[Y:.*]]: f32, %{{.*}}: f32):
// CHECK:        %[[N:.*]] = arith.{{.*}} %[[Y]]
// CHECK:        arith.maximumf %[[N]]
// CHECK:        arith.mulf %[[N]], %
// CHECK-NOT:  tir.block
