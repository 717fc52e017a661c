// RUN: byocir-opt --no-debuginfo -p fix-point %s | filecheck %s

// CHECK-LABEL: @any_scale
// CHECK:         %[[M:.*]] = graph.constant #graph.array<[167781] : tensor<i32>>
// CHECK-NEXT:    graph.requantize %x, %[[M]] {rounding = #graph.fixed<shift = 23, half_up>{{.*}}} : (tensor<4xi32>, tensor<i32>) -> tensor<4xi8>
func.func @any_scale(%x: tensor<4xi32>) -> tensor<4xi8> {
  %a = graph.constant #graph.array<[0.020001] : tensor<f32>>
  %b = graph.constant #graph.array<[1.0] : tensor<f32>>
  %0 = graph.requantize %x, %a, %b {rounding = #graph.float_half_even, to = i8} : (tensor<4xi32>, tensor<f32>, tensor<f32>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}

// A power of two is a shift alone.
// CHECK-LABEL: @power_of_two
// CHECK:         %[[M:.*]] = graph.constant #graph.array<[1] : tensor<i32>>
// CHECK-NEXT:    graph.requantize %x, %[[M]] {rounding = #graph.fixed<shift = 6, half_up>
func.func @power_of_two(%x: tensor<4xi32>) -> tensor<4xi8> {
  %a = graph.constant #graph.array<[0.03125] : tensor<f32>>
  %b = graph.constant #graph.array<[2.0] : tensor<f32>>
  %0 = graph.requantize %x, %a, %b {rounding = #graph.float_half_even, to = i8} : (tensor<4xi32>, tensor<f32>, tensor<f32>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}

// Channels share one shift.
// CHECK-LABEL: @per_channel
// CHECK:         graph.constant #graph.array<[8, 1] : tensor<2x1xi32>>
// CHECK-NEXT:    graph.requantize {{.*}} #graph.fixed<shift = 4, half_up>
func.func @per_channel(%x: tensor<1x2x4xi32>) -> tensor<1x2x4xi8> {
  %a = graph.constant #graph.array<[0.5, 0.0625] : tensor<2x1xf32>>
  %b = graph.constant #graph.array<[1.0] : tensor<f32>>
  %0 = graph.requantize %x, %a, %b {rounding = #graph.float_half_even, to = i8} : (tensor<1x2x4xi32>, tensor<2x1xf32>, tensor<f32>) -> tensor<1x2x4xi8>
  func.return %0 : tensor<1x2x4xi8>
}

// Both terms of a residual add go to a grid that is a ratio of bytes; the sum is multiplied.
// CHECK-LABEL: @residual_add
// CHECK:         %[[MX:.*]] = graph.constant #graph.array<[35] : tensor<i32>>
// CHECK-NEXT:    %[[X:.*]] = graph.requantize %x, %[[MX]] {to = i32, rounding = #graph.fixed<shift = 0, half_up>} : (tensor<4xi8>, tensor<i32>) -> tensor<4xi32>
// CHECK-NEXT:    %[[MY:.*]] = graph.constant #graph.array<[84] : tensor<i32>>
// CHECK-NEXT:    %[[Y:.*]] = graph.requantize %y, %[[MY]]
// CHECK-NEXT:    %[[SUM:.*]] = graph.add %[[X]], %[[Y]] : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
// CHECK-NEXT:    %[[R:.*]] = graph.relu %[[SUM]]
// CHECK-NEXT:    %[[M:.*]] = graph.constant #graph.array<[29959] : tensor<i32>>
// CHECK-NEXT:    %[[Q:.*]] = graph.requantize %[[R]], %[[M]] {rounding = #graph.fixed<shift = 22, half_up>{{.*}}} : (tensor<4xi32>, tensor<i32>) -> tensor<4xi8>
// CHECK-NEXT:    func.return %[[Q]]
func.func @residual_add(%x: tensor<4xi8>, %y: tensor<4xi8>) -> tensor<4xi8> {
  %s = graph.constant #graph.array<[0.25] : tensor<f32>>
  %t = graph.constant #graph.array<[0.6] : tensor<f32>>
  %u = graph.constant #graph.array<[1.0] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.dequantize %y, %t, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %2 = graph.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.relu %2 : (tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.quantize %3, %u, %z {axis = 1 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  func.return %4 : tensor<4xi8>
}

// A zero point, times its multiplier, is taken off where a term goes to the common grid.
// CHECK-LABEL: @asymmetric_add
// CHECK:         graph.requantize %x, %{{[0-9]+}} {to = i32, rounding = #graph.fixed<shift = 0, half_up>}
// CHECK:         graph.requantize %y, %{{[0-9]+}} {to = i32, rounding = #graph.fixed<shift = 0, half_up>, zero_point = -1 : i64}
// CHECK:         graph.add %{{.*}} -> tensor<4xi32>
func.func @asymmetric_add(%x: tensor<4xi8>, %y: tensor<4xi8>) -> tensor<4xi8> {
  %s = graph.constant #graph.array<[0.25] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %a = graph.constant #graph.array<[1] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.dequantize %y, %s, %a {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %2 = graph.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.quantize %2, %s, %z {axis = 1 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  func.return %3 : tensor<4xi8>
}

// The multiplier carries the number of values a window averages.
// CHECK-LABEL: @average_pool
// CHECK:         %[[S:.*]] = graph.sum_pool %x {{.*}} : (tensor<1x2x4x4xi8>) -> tensor<1x2x2x2xi32>
// CHECK-NEXT:    %[[ONE:.*]] = graph.constant #graph.array<[1] : tensor<i32>>
// CHECK-NEXT:    graph.requantize %[[S]], %[[ONE]] {rounding = #graph.fixed<shift = 2, half_up>}
func.func @average_pool(%x: tensor<1x2x4x4xi8>) -> tensor<1x2x2x2xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<1x2x4x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4x4xf32>
  %1 = graph.average_pool %0 {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64, count_include_pad = 0 : i64} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %2 = graph.quantize %1, %s, %z {axis = 1 : i64} : (tensor<1x2x2x2xf32>, tensor<f32>, tensor<i8>) -> tensor<1x2x2x2xi8>
  func.return %2 : tensor<1x2x2x2xi8>
}

// Windows that leave pads out average different numbers of values: a multiplier per position.
// CHECK-LABEL: @padded_average_pool
// CHECK:         graph.sum_pool
// CHECK-NEXT:    graph.constant #graph.array<[4194304, 2796203, 2796203, 4194304] : tensor<4xi32>>
// CHECK-NEXT:    graph.requantize
func.func @padded_average_pool(%x: tensor<1x2x4xi8>) -> tensor<1x2x4xi8> {
  %s = graph.constant #graph.array<[1.0] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<1x2x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4xf32>
  %1 = graph.average_pool %0 {kernel_shape = array<i64: 3>, strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, ceil_mode = 0 : i64, count_include_pad = 0 : i64} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %2 = graph.quantize %1, %s, %z {axis = 1 : i64} : (tensor<1x2x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x2x4xi8>
  func.return %2 : tensor<1x2x4xi8>
}

// CHECK-LABEL: @global_average_pool
// CHECK:         graph.sum_pool %x {kernel_shape = array<i64: 2, 4>, {{.*}} -> tensor<1x3x1x1xi32>
// CHECK-NEXT:    graph.constant #graph.array<[1] : tensor<i32>>
// CHECK-NEXT:    graph.requantize {{.*}} #graph.fixed<shift = 3, half_up>
func.func @global_average_pool(%x: tensor<1x3x2x4xi8>) -> tensor<1x3x1x1xi8> {
  %s = graph.constant #graph.array<[1.0] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<1x3x2x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x3x2x4xf32>
  %1 = graph.global_average_pool %0 : (tensor<1x3x2x4xf32>) -> tensor<1x3x1x1xf32>
  %2 = graph.quantize %1, %s, %z {axis = 1 : i64} : (tensor<1x3x1x1xf32>, tensor<f32>, tensor<i8>) -> tensor<1x3x1x1xi8>
  func.return %2 : tensor<1x3x1x1xi8>
}

// A product of two arrays is one of integers without their zero points.
// CHECK-LABEL: @multiply
// CHECK:         %[[X:.*]] = graph.requantize %x, {{.*}} {{{.*}}to = i32{{.*}}zero_point = -3
// CHECK:         %[[Y:.*]] = graph.requantize %y, {{.*}} {{{.*}}to = i32{{.*}}zero_point = 7
// CHECK:         %[[P:.*]] = graph.mul %[[X]], %[[Y]] : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
// CHECK:         graph.requantize %[[P]], {{.*}}#graph.fixed<shift = {{.*}}(tensor<4xi32>, tensor<i32>) -> tensor<4xi8>
func.func @multiply(%x: tensor<4xi8>, %y: tensor<4xi8>) -> tensor<4xi8> {
  %s = graph.constant #graph.array<[0.25] : tensor<f32>>
  %u = graph.constant #graph.array<[1.0] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %a = graph.constant #graph.array<[3] : tensor<i8>>
  %b = graph.constant #graph.array<[-7] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %a {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.dequantize %y, %s, %b {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %2 = graph.mul %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.quantize %2, %u, %z {axis = 1 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  func.return %3 : tensor<4xi8>
}

// A constant above 0 joins the scale.
// CHECK-LABEL: @multiply_by_a_constant
// CHECK-NOT:     graph.mul
// CHECK:         graph.constant #graph.array<[3, 12] : tensor<2x1xi32>>
// CHECK-NEXT:    graph.requantize {{.*}}#graph.fixed<shift = 4, half_up>
func.func @multiply_by_a_constant(%x: tensor<1x2x4xi8>) -> tensor<1x2x4xi8> {
  %s = graph.constant #graph.array<[0.25] : tensor<f32>>
  %u = graph.constant #graph.array<[1.0] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %w = graph.constant #graph.array<[3, 12] : tensor<2x1xi8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<1x2x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4xf32>
  %1 = graph.dequantize %w, %s, %z {axis = 1 : i64} : (tensor<2x1xi8>, tensor<f32>, tensor<i8>) -> tensor<2x1xf32>
  %2 = graph.mul %0, %1 : (tensor<1x2x4xf32>, tensor<2x1xf32>) -> tensor<1x2x4xf32>
  %3 = graph.quantize %2, %u, %z {axis = 1 : i64} : (tensor<1x2x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x2x4xi8>
  func.return %3 : tensor<1x2x4xi8>
}

// A prelu is a sum of the integers and of those below 0.
// CHECK-LABEL: @prelu
// CHECK:         %[[T:.*]] = graph.requantize %x, {{.*}} {{{.*}}to = i32{{.*}}zero_point = -3
// CHECK-NEXT:    %[[B:.*]] = graph.clip %[[T]] {max = #graph.array<[0] : tensor<i32>>}
// CHECK:         %[[W:.*]] = graph.mul %[[T]], {{.*}} (tensor<1x2x4xi32>, tensor<i32>)
// CHECK:         %[[N:.*]] = graph.mul %[[B]], {{.*}} (tensor<1x2x4xi32>, tensor<2x1xi32>)
// CHECK-NEXT:    %[[SUM:.*]] = graph.add %[[W]], %[[N]]
// CHECK:         graph.requantize %[[SUM]], {{.*}}#graph.fixed
func.func @prelu(%x: tensor<1x2x4xi8>) -> tensor<1x2x4xi8> {
  %s = graph.constant #graph.array<[0.3] : tensor<f32>>
  %u = graph.constant #graph.array<[1.0] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %a = graph.constant #graph.array<[3] : tensor<i8>>
  %slope = graph.constant #graph.array<[0.1, -2.0] : tensor<2x1xf32>>
  %0 = graph.dequantize %x, %s, %a {axis = 1 : i64} : (tensor<1x2x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4xf32>
  %1 = graph.prelu %0, %slope : (tensor<1x2x4xf32>, tensor<2x1xf32>) -> tensor<1x2x4xf32>
  %2 = graph.quantize %1, %u, %z {axis = 1 : i64} : (tensor<1x2x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x2x4xi8>
  func.return %2 : tensor<1x2x4xi8>
}

// The phases of a transposed convolution read alike: one convolution, whose outputs alternate.
// CHECK-LABEL: @transposed
// CHECK:         %[[W:.*]] = graph.constant #graph.array<[1, 2, 3, 4] : tensor<4x1x1x1xi8>>
// CHECK:         graph.conv %x, %[[W]]{{.*}} : (tensor<1x1x3x2xi8>, tensor<4x1x1x1xi8>{{.*}}) -> tensor<1x4x3x2xi32>
// CHECK:         graph.requantize
// CHECK:         graph.transpose
// CHECK:         graph.reshape {{.*}} -> tensor<1x1x6x4xi8>
func.func @transposed(%x: tensor<1x1x3x2xi8>) -> tensor<1x1x6x4xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[3] : tensor<i8>>
  %o = graph.constant #graph.array<[0] : tensor<i8>>
  %w = graph.constant #graph.array<[1, 2, 3, 4] : tensor<1x1x2x2xi8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<1x1x3x2xi8>, tensor<f32>, tensor<i8>) -> tensor<1x1x3x2xf32>
  %1 = graph.dequantize %w, %s, %o {axis = 1 : i64} : (tensor<1x1x2x2xi8>, tensor<f32>, tensor<i8>) -> tensor<1x1x2x2xf32>
  %2 = graph.conv_transpose %0, %1 {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64, output_padding = array<i64: 0, 0>} : (tensor<1x1x3x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x6x4xf32>
  %3 = graph.quantize %2, %s, %z {axis = 1 : i64} : (tensor<1x1x6x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x1x6x4xi8>
  func.return %3 : tensor<1x1x6x4xi8>
}
