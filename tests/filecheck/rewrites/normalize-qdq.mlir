// RUN: byocir-opt --no-debuginfo -p normalize-qdq %s | filecheck %s

// A shape op between dequantize and quantize runs on integers; the pair behind it is gone.
// CHECK-LABEL: @shape_op
// CHECK-NEXT:    %[[Y:.*]] = graph.transpose %x {perm = array<i64: 1, 0>} : (tensor<2x3xi8>) -> tensor<3x2xi8>
// CHECK-NEXT:    func.return %[[Y]]
func.func @shape_op(%x: tensor<2x3xi8>) -> tensor<3x2xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[3] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<2x3xi8>, tensor<f32>, tensor<i8>) -> tensor<2x3xf32>
  %1 = graph.transpose %0 {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = graph.quantize %1, %s, %z {axis = 1 : i64} : (tensor<3x2xf32>, tensor<f32>, tensor<i8>) -> tensor<3x2xi8>
  func.return %2 : tensor<3x2xi8>
}

// A scale per channel follows its axis through a transpose.
// CHECK-LABEL: @per_channel_transpose
// CHECK:         %[[W:.*]] = graph.transpose %w {perm = array<i64: 1, 0>} : (tensor<2x3xi8>) -> tensor<3x2xi8>
// CHECK-NEXT:    graph.dequantize %[[W]], %{{.*}}, %{{.*}} {axis = 1 : i64} : (tensor<3x2xi8>
func.func @per_channel_transpose(%w: tensor<2x3xi8>) -> tensor<3x2xf32> {
  %s = graph.constant #graph.array<[0.5, 0.25] : tensor<2xf32>>
  %z = graph.constant #graph.array<[0, 0] : tensor<2xi8>>
  %0 = graph.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<2x3xi8>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x3xf32>
  %1 = graph.transpose %0 {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  func.return %1 : tensor<3x2xf32>
}

// A scale per channel has no place behind a reshape: nothing moves.
// CHECK-LABEL: @per_channel_reshape
// CHECK:         graph.dequantize
// CHECK-NEXT:    graph.reshape
func.func @per_channel_reshape(%w: tensor<2x3xi8>) -> tensor<6xf32> {
  %s = graph.constant #graph.array<[0.5, 0.25] : tensor<2xf32>>
  %z = graph.constant #graph.array<[0, 0] : tensor<2xi8>>
  %0 = graph.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<2x3xi8>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x3xf32>
  %1 = graph.reshape %0 {shape = array<i64: 6>} : (tensor<2x3xf32>) -> tensor<6xf32>
  func.return %1 : tensor<6xf32>
}

// A padded max_pool of floats is one of integers.
// CHECK-LABEL: @max_pool
// CHECK:         %[[Y:.*]] = graph.max_pool %x {{.*}} : (tensor<1x2x4x4xi8>) -> tensor<1x2x2x2xi8>
// CHECK-NEXT:    graph.dequantize %[[Y]]
func.func @max_pool(%x: tensor<1x2x4x4xi8>) -> tensor<1x2x2x2xf32> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<1x2x4x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4x4xf32>
  %1 = graph.max_pool %0 {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  func.return %1 : tensor<1x2x2x2xf32>
}

// Windows over pads alone give minus infinity, which no integer is: nothing moves.
// CHECK-LABEL: @max_pool_of_pads
// CHECK:         graph.dequantize
// CHECK-NEXT:    graph.max_pool
func.func @max_pool_of_pads(%x: tensor<1x1x1xi8>) -> tensor<1x1x1xf32> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<1x1x1xi8>, tensor<f32>, tensor<i8>) -> tensor<1x1x1xf32>
  %1 = graph.max_pool %0 {kernel_shape = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 2>, ceil_mode = 0 : i64} : (tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
  func.return %1 : tensor<1x1x1xf32>
}

// The pair before a relu goes when the scale behind it is the same.
// CHECK-LABEL: @relu_on_one_grid
// CHECK:         %[[R:.*]] = graph.relu %x
// CHECK-NEXT:    %[[Q:.*]] = graph.quantize %[[R]]
// CHECK-NEXT:    func.return %[[Q]]
func.func @relu_on_one_grid(%x: tensor<4xf32>) -> tensor<4xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.quantize %x, %s, %z {axis = 1 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  %1 = graph.dequantize %0, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %2 = graph.relu %1 : (tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.quantize %2, %s, %z {axis = 1 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  func.return %3 : tensor<4xi8>
}

// The pair before a clip stays when the scales differ.
// CHECK-LABEL: @clip_between_grids
// CHECK:         graph.quantize
// CHECK-NEXT:    graph.dequantize
// CHECK-NEXT:    graph.clip
// CHECK-NEXT:    graph.quantize
func.func @clip_between_grids(%x: tensor<4xf32>) -> tensor<4xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %t = graph.constant #graph.array<[0.25] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.quantize %x, %s, %z {axis = 1 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  %1 = graph.dequantize %0, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %2 = graph.clip %1 {min = #graph.array<[0.0] : tensor<f32>>, max = #graph.array<[6.0] : tensor<f32>>} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.quantize %2, %t, %z {axis = 1 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  func.return %3 : tensor<4xi8>
}

// What torch writes for a global pool ends as pool, quantize and a reshape of integers.
// CHECK-LABEL: @torch_global_pool
// CHECK:         %[[P:.*]] = graph.global_average_pool %x : (tensor<1x4x2x2xf32>) -> tensor<1x4x1x1xf32>
// CHECK-NEXT:    %[[Q:.*]] = graph.quantize %[[P]]
// CHECK-NEXT:    graph.reshape %[[Q]] {{.*}} -> tensor<1x4xi8>
func.func @torch_global_pool(%x: tensor<1x4x2x2xf32>) -> tensor<1x4xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.reduce_mean %x {axes = array<i64: 2, 3>, keepdims = 1 : i64} : (tensor<1x4x2x2xf32>) -> tensor<1x4x1x1xf32>
  %1 = graph.reshape %0 {shape = array<i64: 1, 4>} : (tensor<1x4x1x1xf32>) -> tensor<1x4xf32>
  %2 = graph.quantize %1, %s, %z {axis = 1 : i64} : (tensor<1x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x4xi8>
  func.return %2 : tensor<1x4xi8>
}

// A global max pool of bytes is a max pool, which the dequantize moves across; one of floats stays.
// CHECK-LABEL: @global_max_pools
// CHECK:         %[[P:.*]] = graph.max_pool %x {kernel_shape = array<i64: 5, 2>, strides = array<i64: 1, 1>, {{.*}} : (tensor<1x4x5x2xi8>) -> tensor<1x4x1x1xi8>
// CHECK-NEXT:    graph.dequantize %[[P]]
// CHECK-NEXT:    graph.global_max_pool %y
func.func @global_max_pools(%x: tensor<1x4x5x2xi8>, %y: tensor<1x4x5x2xf32>) -> (tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>) {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[3] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<1x4x5x2xi8>, tensor<f32>, tensor<i8>) -> tensor<1x4x5x2xf32>
  %1 = graph.global_max_pool %0 : (tensor<1x4x5x2xf32>) -> tensor<1x4x1x1xf32>
  %2 = graph.global_max_pool %y : (tensor<1x4x5x2xf32>) -> tensor<1x4x1x1xf32>
  func.return %1, %2 : tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>
}

// A quantize goes before the concat; where a part is on its grid, nothing is left of it.
// CHECK-LABEL: @concat
// CHECK:         %[[D:.*]] = graph.dequantize %y
// CHECK-NEXT:    %[[Q:.*]] = graph.quantize %[[D]]
// CHECK-NEXT:    graph.concat %x, %[[Q]] {axis = 1 : i64} : (tensor<1x2xi8>, tensor<1x3xi8>) -> tensor<1x5xi8>
func.func @concat(%x: tensor<1x2xi8>, %y: tensor<1x3xi8>) -> tensor<1x5xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %t = graph.constant #graph.array<[0.25] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<1x2xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2xf32>
  %1 = graph.dequantize %y, %t, %z {axis = 1 : i64} : (tensor<1x3xi8>, tensor<f32>, tensor<i8>) -> tensor<1x3xf32>
  %2 = graph.concat %0, %1 {axis = 1 : i64} : (tensor<1x2xf32>, tensor<1x3xf32>) -> tensor<1x5xf32>
  %3 = graph.quantize %2, %s, %z {axis = 1 : i64} : (tensor<1x5xf32>, tensor<f32>, tensor<i8>) -> tensor<1x5xi8>
  func.return %3 : tensor<1x5xi8>
}

// Parts on one grid are joined as integers, whatever follows.
// CHECK-LABEL: @concat_on_one_grid
// CHECK:         %[[C:.*]] = graph.concat %x, %y {axis = 0 : i64} : (tensor<2xi8>, tensor<3xi8>) -> tensor<5xi8>
// CHECK-NEXT:    graph.dequantize %[[C]]
func.func @concat_on_one_grid(%x: tensor<2xi8>, %y: tensor<3xi8>) -> tensor<5xf32> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<2xi8>, tensor<f32>, tensor<i8>) -> tensor<2xf32>
  %1 = graph.dequantize %y, %s, %z {axis = 1 : i64} : (tensor<3xi8>, tensor<f32>, tensor<i8>) -> tensor<3xf32>
  %2 = graph.concat %0, %1 {axis = 0 : i64} : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
  func.return %2 : tensor<5xf32>
}

// Each use of a dequantize gets one of its own.
// CHECK-LABEL: @one_dequantize_per_use
// CHECK:         %[[A:.*]] = graph.dequantize %x
// CHECK-NEXT:    %[[B:.*]] = graph.dequantize %x
// CHECK-NEXT:    graph.add %[[A]], %[[B]]
func.func @one_dequantize_per_use(%x: tensor<4xi8>) -> tensor<4xf32> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.add %0, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// What a pad adds is the integer that stands for it; a number that is not on the grid is only added
// before the values are quantised.
// CHECK-LABEL: @pad
// CHECK:         %[[P:.*]] = graph.pad %x {{.*}}value = #graph.array<[7] : tensor<i8>>} : (tensor<4xi8>) -> tensor<5xi8>
// CHECK-NEXT:    graph.dequantize %[[P]]
// CHECK-LABEL: @pad_with_another_number
// CHECK:         graph.dequantize %x
// CHECK-NEXT:    graph.pad
func.func @pad(%x: tensor<4xi8>) -> tensor<5xf32> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[3] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.pad %0 {mode = "constant", pads = array<i64: 1, 0>, value = #graph.array<[2.0] : tensor<f32>>} : (tensor<4xf32>) -> tensor<5xf32>
  func.return %1 : tensor<5xf32>
}
func.func @pad_with_another_number(%x: tensor<4xi8>) -> tensor<5xf32> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[3] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1 = graph.pad %0 {mode = "constant", pads = array<i64: 1, 0>, value = #graph.array<[2.1] : tensor<f32>>} : (tensor<4xf32>) -> tensor<5xf32>
  func.return %1 : tensor<5xf32>
}

// Each part of a split is dequantised, and a slice is of integers; what is quantised behind a slice
// is no more than before.
// CHECK-LABEL: @split_and_slice
// CHECK:         %[[A:.*]], %[[B:.*]] = graph.split %x
// CHECK-SAME:    (tensor<4xi8>) -> (tensor<1xi8>, tensor<3xi8>)
// CHECK:         graph.dequantize %[[A]]
// CHECK:         graph.slice %[[B]]
// CHECK-SAME:    (tensor<3xi8>) -> tensor<2xi8>
// CHECK-LABEL: @slice_before_quantize
// CHECK:         graph.slice %x
// CHECK-NEXT:    graph.quantize
func.func @split_and_slice(%x: tensor<4xi8>) -> (tensor<1xf32>, tensor<2xf32>) {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[3] : tensor<i8>>
  %0 = graph.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %1, %2 = graph.split %0 {axis = 0 : i64, split = array<i64: 1, 3>} : (tensor<4xf32>) -> (tensor<1xf32>, tensor<3xf32>)
  %3 = graph.slice %2 {starts = array<i64: 1>, sizes = array<i64: 2>, steps = array<i64: 1>} : (tensor<3xf32>) -> tensor<2xf32>
  func.return %1, %3 : tensor<1xf32>, tensor<2xf32>
}
func.func @slice_before_quantize(%x: tensor<4xf32>) -> tensor<2xi8> {
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[3] : tensor<i8>>
  %0 = graph.slice %x {starts = array<i64: 1>, sizes = array<i64: 2>, steps = array<i64: 1>} : (tensor<4xf32>) -> tensor<2xf32>
  %1 = graph.quantize %0, %s, %z {axis = 1 : i64} : (tensor<2xf32>, tensor<f32>, tensor<i8>) -> tensor<2xi8>
  func.return %1 : tensor<2xi8>
}
