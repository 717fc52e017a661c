// RUN: byocir-opt --no-debuginfo -p 'pad-channels{multiple=4},clean-up' %s | filecheck %s

// What was padded is recorded: channels in, channels out, multiply-accumulates.
// CHECK: builtin.module attributes {byoc.padded = [#byoc.padded<[], [#builtin.int<3>, #builtin.int<4>], [#builtin.int<2>, #builtin.int<4>], [#builtin.int<24>, #builtin.int<64>]>,

// Zeros behind channels, weights and biases; the cut is behind the clip, and the second convolution
// reads all four channels.
// CHECK-LABEL: @chain
// CHECK:         %[[X:.*]] = graph.pad %x {pads = array<i64: 0, 0, 0, 0, 0, 1, 0, 0>, mode = "constant"} : (tensor<1x3x2x2xi8>) -> tensor<1x4x2x2xi8>
// CHECK-NEXT:    graph.constant #graph.array<[1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0] : tensor<4x4x1x1xi8>>
// CHECK-NEXT:    graph.constant #graph.array<[10, 20, 0, 0] : tensor<4xi32>>
// CHECK:         %[[Y:.*]] = graph.conv %[[X]]
// CHECK:         %[[Q:.*]] = graph.requantize %[[Y]], {{.*}} : (tensor<1x4x2x2xi32>, tensor<4x1x1xi32>) -> tensor<1x4x2x2xi8>
// CHECK-NEXT:    %[[C:.*]] = graph.clip %[[Q]]
// CHECK:         %[[Z:.*]] = graph.conv %[[C]], {{.*}} : (tensor<1x4x2x2xi8>, tensor<4x4x1x1xi8>) -> tensor<1x4x2x2xi32>
// CHECK-NEXT:    %[[R:.*]] = graph.slice %[[Z]] {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 1, 1, 2, 2>, steps = array<i64: 1, 1, 1, 1>}
// CHECK-NEXT:    func.return %[[R]]
func.func @chain(%x: tensor<1x3x2x2xi8>) -> tensor<1x1x2x2xi32> {
  %w = graph.constant #graph.array<[1, 2, 3, 4, 5, 6] : tensor<2x3x1x1xi8>>
  %b = graph.constant #graph.array<[10, 20] : tensor<2xi32>>
  %y = graph.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x3x2x2xi8>, tensor<2x3x1x1xi8>, tensor<2xi32>) -> tensor<1x2x2x2xi32>
  %m = graph.constant #graph.array<[7, 9] : tensor<2x1x1xi32>>
  %q = graph.requantize %y, %m {rounding = #graph.fixed<shift = 4, floor>} : (tensor<1x2x2x2xi32>, tensor<2x1x1xi32>) -> tensor<1x2x2x2xi8>
  %c = graph.clip %q {min = #graph.array<[0] : tensor<i8>>} : (tensor<1x2x2x2xi8>) -> tensor<1x2x2x2xi8>
  %v = graph.constant #graph.array<[1, 2] : tensor<1x2x1x1xi8>>
  %z = graph.conv %c, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x2x2xi8>, tensor<1x2x1x1xi8>) -> tensor<1x1x2x2xi32>
  func.return %z : tensor<1x1x2x2xi32>
}

// A depthwise convolution of two channels in front of a net; one of five has a block, and stays.
// CHECK-LABEL: @depthwise
// CHECK-NEXT:    %[[X:.*]] = graph.pad %x {pads = array<i64: 0, 0, 0, 0, 0, 2, 0, 0>, mode = "constant"} : (tensor<1x2x2x2xi8>) -> tensor<1x4x2x2xi8>
// CHECK-NEXT:    %[[W:.*]] = graph.constant #graph.array<[1, 2, 0, 0] : tensor<4x1x1x1xi8>>
// CHECK-NEXT:    %[[Y:.*]] = graph.conv %[[X]], %[[W]] {{.*}} group = 4 : i64
// CHECK-NEXT:    graph.slice %[[Y]] {{.*}} : (tensor<1x4x2x2xi32>) -> tensor<1x2x2x2xi32>
// CHECK:         graph.conv %z, {{.*}} group = 5 : i64
func.func @depthwise(%x: tensor<1x2x2x2xi8>, %z: tensor<1x5x2x2xi8>) -> (tensor<1x2x2x2xi32>, tensor<1x5x2x2xi32>) {
  %w = graph.constant #graph.array<[1, 2] : tensor<2x1x1x1xi8>>
  %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x2x2x2xi8>, tensor<2x1x1x1xi8>) -> tensor<1x2x2x2xi32>
  %v = graph.constant #graph.array<[1, 2, 3, 4, 5] : tensor<5x1x1x1xi8>>
  %u = graph.conv %z, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 5 : i64} : (tensor<1x5x2x2xi8>, tensor<5x1x1x1xi8>) -> tensor<1x5x2x2xi32>
  func.return %y, %u : tensor<1x2x2x2xi32>, tensor<1x5x2x2xi32>
}

// A product of two computed arrays: zeros behind both, and the result is cut.
// CHECK-LABEL: @product
// CHECK-NEXT:    %[[A:.*]] = graph.pad %a {pads = array<i64: 0, 0, 0, 0, 0, 3>, mode = "constant"} : (tensor<2x3x5xi8>) -> tensor<2x3x8xi8>
// CHECK-NEXT:    %[[B:.*]] = graph.pad %b {pads = array<i64: 0, 0, 0, 0, 3, 1>, mode = "constant"} : (tensor<2x5x7xi8>) -> tensor<2x8x8xi8>
// CHECK-NEXT:    %[[Y:.*]] = graph.matmul %[[A]], %[[B]]
// CHECK-NEXT:    graph.slice %[[Y]] {{.*}} : (tensor<2x3x8xi32>) -> tensor<2x3x7xi32>
func.func @product(%a: tensor<2x3x5xi8>, %b: tensor<2x5x7xi8>) -> tensor<2x3x7xi32> {
  %y = graph.matmul %a, %b : (tensor<2x3x5xi8>, tensor<2x5x7xi8>) -> tensor<2x3x7xi32>
  func.return %y : tensor<2x3x7xi32>
}
