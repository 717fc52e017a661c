// RUN: byocir-opt --no-debuginfo -p 'round-operands{to=bf16},convert-graph-to-tir{bodies=true},read-rounded{to=bf16}' %s | filecheck %s
// RUN: byocir-opt --no-debuginfo -p 'round-operands{to=bf16}' %s | filecheck %s --check-prefix=GRAPH

// What two products read is rounded, constants in place; sums and what is added to them stay f32.
// GRAPH-LABEL: @products
// GRAPH:         %[[N:.*]] = graph.cast %x {to = bf16}
// GRAPH-NEXT:    %[[W:.*]] = graph.cast %[[N]] {to = f32}
// GRAPH-NEXT:    %[[C:.*]] = graph.constant #graph.array<[1.0, 256.0, 2.0] : tensor<3x1xf32>>
// GRAPH-NEXT:    graph.matmul %[[W]], %[[C]]

// The products read the rounded numbers themselves.
// CHECK-LABEL: @products
// CHECK:         %[[N:.*]] = tir.block {{.*}} ins(%x[{{.*}}] : tensor<2x3xf32>) outs({{.*}} : tensor<2x3xbf16>)
// CHECK:         arith.truncf
// CHECK:         %[[C:.*]] = tir.constant {{.*}} : tensor<3x1xbf16>
// CHECK:         tir.block {{.*}} ins(%[[N]][{{.*}}] : tensor<2x3xbf16>, %[[C]][{{.*}}] : tensor<3x1xbf16>) outs({{.*}} : tensor<2x1xf32>)
// CHECK:         arith.extf
// CHECK:         arith.extf
// CHECK-NEXT:    arith.mulf
// CHECK-NOT:     outs({{.*}} : tensor<2x3xf32>)
func.func @products(%x: tensor<2x3xf32>, %b: tensor<1xf32>) -> tensor<2x1xf32> {
  %w = graph.constant #graph.array<[1, 256.5, 2.0] : tensor<3x1xf32>>
  %p = graph.matmul %x, %w : (tensor<2x3xf32>, tensor<3x1xf32>) -> tensor<2x1xf32>
  %y = graph.add %p, %b : (tensor<2x1xf32>, tensor<1xf32>) -> tensor<2x1xf32>
  func.return %y : tensor<2x1xf32>
}
