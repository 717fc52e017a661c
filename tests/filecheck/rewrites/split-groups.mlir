// RUN: byocir-opt --no-debuginfo -p 'split-groups{channels=4},clean-up' %s | filecheck %s

// Two groups of two channels have four together, so the third is alone. Bias and factors go with
// the channels, and the parts are bytes before they are put behind each other.
// CHECK-LABEL: @joined
// CHECK:         %[[X0:.*]] = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 1, 4, 2, 2>,
// CHECK:         %[[W0:.*]] = graph.constant #graph.array<[1, 2, 0, 0, 0, 0, 3, 4] : tensor<2x4x1x1xi8>>
// CHECK:         %[[B0:.*]] = graph.constant #graph.array<[10, 20] : tensor<2xi32>>
// CHECK:         %[[Y0:.*]] = graph.conv %[[X0]], %[[W0]], %[[B0]] {{.*}} group = 1 : i64
// CHECK:         %[[X1:.*]] = graph.slice %x {starts = array<i64: 0, 4, 0, 0>, sizes = array<i64: 1, 2, 2, 2>,
// CHECK:         %[[Y1:.*]] = graph.conv %[[X1]], {{.*}} group = 1 : i64
// CHECK:         %[[M0:.*]] = graph.constant #graph.array<[7, 8] : tensor<2x1x1xi32>>
// CHECK:         %[[Q0:.*]] = graph.requantize %[[Y0]], %[[M0]]
// CHECK:         %[[Q1:.*]] = graph.requantize %[[Y1]],
// CHECK:         graph.concat %[[Q0]], %[[Q1]] {axis = 1 : i64}
func.func @joined(%x: tensor<1x6x2x2xi8>) -> tensor<1x3x2x2xi8> {
  %w = graph.constant #graph.array<[1, 2, 3, 4, 5, 6] : tensor<3x2x1x1xi8>>
  %b = graph.constant #graph.array<[10, 20, 30] : tensor<3xi32>>
  %y = graph.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 3 : i64} : (tensor<1x6x2x2xi8>, tensor<3x2x1x1xi8>, tensor<3xi32>) -> tensor<1x3x2x2xi32>
  %m = graph.constant #graph.array<[7, 8, 9] : tensor<3x1x1xi32>>
  %q = graph.requantize %y, %m {rounding = #graph.fixed<shift = 4, floor>} : (tensor<1x3x2x2xi32>, tensor<3x1x1xi32>) -> tensor<1x3x2x2xi8>
  func.return %q : tensor<1x3x2x2xi8>
}

// Depthwise convolutions stay as they are.
// CHECK-LABEL: @depthwise
// CHECK-NOT:     graph.slice
// CHECK:         graph.conv {{.*}} group = 2 : i64
// CHECK-NOT:     graph.concat
func.func @depthwise(%x: tensor<1x2x2x2xi8>) -> tensor<1x2x2x2xi32> {
  %w = graph.constant #graph.array<[1, 2] : tensor<2x1x1x1xi8>>
  %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x2x2x2xi8>, tensor<2x1x1x1xi8>) -> tensor<1x2x2x2xi32>
  func.return %y : tensor<1x2x2x2xi32>
}
