// RUN: byocir-opt --no-debuginfo -p fold-batch-norm,clean-up %s | filecheck %s

// CHECK-LABEL: @conv
// CHECK-DAG:     %[[W:.*]] = graph.constant #graph.array<[2.0, 6.0] : tensor<2x1x1xf32>>
// CHECK-DAG:     %[[B:.*]] = graph.constant #graph.array<[5.0, -2.0] : tensor<2xf32>>
// CHECK:         %[[Y:.*]] = graph.conv %x, %[[W]], %[[B]]
// CHECK-NEXT:    func.return %[[Y]]
func.func @conv(%x: tensor<1x1x4xf32>) -> tensor<1x2x4xf32> {
  %w = graph.constant #graph.array<[2.0, 3.0] : tensor<2x1x1xf32>>
  %b = graph.constant #graph.array<[1.0, -1.0] : tensor<2xf32>>
  %scale = graph.constant #graph.array<[2.0, 4.0] : tensor<2xf32>>
  %bias = graph.constant #graph.array<[4.0, 0.0] : tensor<2xf32>>
  %mean = graph.constant #graph.array<[0.0, 0.0] : tensor<2xf32>>
  %variance = graph.constant #graph.array<[3.75, 3.75] : tensor<2xf32>>
  %0 = graph.conv %x, %w, %b {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x1x4xf32>, tensor<2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4xf32>
  %1 = graph.batch_norm %0, %scale, %bias, %mean, %variance {epsilon = 0.25 : f32} : (tensor<1x2x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4xf32>
  func.return %1 : tensor<1x2x4xf32>
}

// CHECK-LABEL: @matmul
// CHECK:         %[[P:.*]] = graph.matmul %x
// CHECK:         %[[Y:.*]] = graph.add %[[P]]
// CHECK-NEXT:    func.return %[[Y]]
func.func @matmul(%x: tensor<3x1xf32>) -> tensor<3x2xf32> {
  %w = graph.constant #graph.array<[2.0, 3.0] : tensor<1x2xf32>>
  %c = graph.constant #graph.array<[2.0, 4.0] : tensor<2xf32>>
  %0 = graph.matmul %x, %w : (tensor<3x1xf32>, tensor<1x2xf32>) -> tensor<3x2xf32>
  %1 = graph.add %0, %c : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %2 = graph.batch_norm %1, %c, %c, %c, %c {epsilon = 0.25 : f32} : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  func.return %2 : tensor<3x2xf32>
}

// What the product gives is needed elsewhere.
// CHECK-LABEL: @second_use
// CHECK:         graph.batch_norm
func.func @second_use(%x: tensor<3x1xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %w = graph.constant #graph.array<[2.0, 3.0] : tensor<1x2xf32>>
  %c = graph.constant #graph.array<[2.0, 4.0] : tensor<2xf32>>
  %0 = graph.matmul %x, %w : (tensor<3x1xf32>, tensor<1x2xf32>) -> tensor<3x2xf32>
  %1 = graph.batch_norm %0, %c, %c, %c, %c {epsilon = 0.25 : f32} : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  func.return %0, %1 : tensor<3x2xf32>, tensor<3x2xf32>
}

// The statistics are computed.
// CHECK-LABEL: @computed
// CHECK:         graph.batch_norm
func.func @computed(%x: tensor<3x1xf32>, %c: tensor<2xf32>) -> tensor<3x2xf32> {
  %w = graph.constant #graph.array<[2.0, 3.0] : tensor<1x2xf32>>
  %0 = graph.matmul %x, %w : (tensor<3x1xf32>, tensor<1x2xf32>) -> tensor<3x2xf32>
  %1 = graph.batch_norm %0, %c, %c, %c, %c {epsilon = 0.25 : f32} : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  func.return %1 : tensor<3x2xf32>
}
