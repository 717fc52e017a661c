// RUN: byocir-opt --verify-diagnostics --parsing-diagnostics --split-input-file %s | filecheck %s

func.func @expand_shape(%x: tensor<3xf32>) {
  // CHECK: expected shapes that broadcast, found 3 and 4
  %0 = graph.expand %x {shape = array<i64: 4>} : (tensor<3xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @expand_shrinks(%x: tensor<3x4xf32>) {
  // CHECK: expected a shape that 3x4 broadcasts to, found 1x4
  %0 = graph.expand %x {shape = array<i64: 1, 4>} : (tensor<3x4xf32>) -> tensor<1x4xf32>
  func.return
}

// -----

func.func @tile_repeats(%x: tensor<3x4xf32>) {
  // CHECK: expected 2 repeats, found 1
  %0 = graph.tile %x {repeats = array<i64: 1>} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  func.return
}

// -----

func.func @tile_negative(%x: tensor<3xf32>) {
  // CHECK: expected repeats >= 0, found [-1]
  %0 = graph.tile %x {repeats = array<i64: -1>} : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @slice_count(%x: tensor<3x4xf32>) {
  // CHECK: expected 2 starts, found 1
  %0 = graph.slice %x {starts = array<i64: 0>, sizes = array<i64: 1, 1>, steps = array<i64: 1, 1>} : (tensor<3x4xf32>) -> tensor<1x1xf32>
  func.return
}

// -----

func.func @slice_step(%x: tensor<3xf32>) {
  // CHECK: expected steps other than 0, found [0]
  %0 = graph.slice %x {starts = array<i64: 0>, sizes = array<i64: 1>, steps = array<i64: 0>} : (tensor<3xf32>) -> tensor<1xf32>
  func.return
}

// -----

func.func @slice_outside(%x: tensor<3xf32>) {
  // CHECK: expected elements 0 to 2 of axis 0, found 1 to -1
  %0 = graph.slice %x {starts = array<i64: 1>, sizes = array<i64: 3>, steps = array<i64: -1>} : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @split_sizes(%x: tensor<3xf32>) {
  // CHECK: expected sizes that sum to 3, found [1, 1]
  %0 = graph.split %x {axis = 0 : i64, split = array<i64: 1, 1>} : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @pad_mode(%x: tensor<3xf32>) {
  // CHECK: expected mode constant, reflect, edge, wrap, found mirror
  %0 = graph.pad %x {pads = array<i64: 0, 0>, mode = "mirror"} : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @pad_count(%x: tensor<3xf32>) {
  // CHECK: expected 2 pads, found 1
  %0 = graph.pad %x {pads = array<i64: 0>, mode = "constant"} : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @pad_value(%x: tensor<3xf32>) {
  // CHECK: expected a value of type tensor<f32>, found tensor<i8>
  %0 = graph.pad %x {pads = array<i64: 0, 0>, mode = "constant", value = #graph.array<[1] : tensor<i8>>} : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @pad_value_mode(%x: tensor<3xf32>) {
  // CHECK: expected no value in mode edge, found one
  %0 = graph.pad %x {pads = array<i64: 0, 0>, mode = "edge", value = #graph.array<[1.0] : tensor<f32>>} : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @pad_negative(%x: tensor<3xf32>) {
  // CHECK: expected pads that leave sizes >= 0, found [-1]
  %0 = graph.pad %x {pads = array<i64: -2, -2>, mode = "constant"} : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @pad_reflect(%x: tensor<3xf32>) {
  // CHECK: expected pads of at most 2 in axis 0, found 3
  %0 = graph.pad %x {pads = array<i64: 3, 0>, mode = "reflect"} : (tensor<3xf32>) -> tensor<6xf32>
  func.return
}

// -----

func.func @depth_to_space_mode(%x: tensor<1x4x2x2xf32>) {
  // CHECK: expected mode DCR or CRD, found ABC
  %0 = graph.depth_to_space %x {blocksize = 2 : i64, mode = "ABC"} : (tensor<1x4x2x2xf32>) -> tensor<1x1x4x4xf32>
  func.return
}

// -----

func.func @depth_to_space_channels(%x: tensor<1x3x2x2xf32>) {
  // CHECK: expected channels divisible by 4, found 3
  %0 = graph.depth_to_space %x {blocksize = 2 : i64, mode = "DCR"} : (tensor<1x3x2x2xf32>) -> tensor<1x1x4x4xf32>
  func.return
}

// -----

func.func @space_to_depth_plane(%x: tensor<1x3x2x3xf32>) {
  // CHECK: expected a plane divisible by 2, found 2x3
  %0 = graph.space_to_depth %x {blocksize = 2 : i64} : (tensor<1x3x2x3xf32>) -> tensor<1x1x4x4xf32>
  func.return
}

// -----

func.func @space_to_depth_block(%x: tensor<1x3x2x3xf32>) {
  // CHECK: expected blocksize >= 1, found 0
  %0 = graph.space_to_depth %x {blocksize = 0 : i64} : (tensor<1x3x2x3xf32>) -> tensor<1x1x4x4xf32>
  func.return
}

// -----

func.func @trilu_rank(%x: tensor<3xf32>) {
  // CHECK: expected an input of rank >= 2, found 3
  %0 = graph.trilu %x {k = 0 : i64, upper = 1 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @trilu_upper(%x: tensor<3x3xf32>) {
  // CHECK: expected upper 0 or 1, found 2
  %0 = graph.trilu %x {k = 0 : i64, upper = 2 : i64} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  func.return
}

// -----

func.func @reverse_sequence_axes(%x: tensor<3x3xf32>, %l: tensor<3xi64>) {
  // CHECK: expected axes 0 and 1, found 1 and 1
  %0 = graph.reverse_sequence %x, %l {batch_axis = 1 : i64, time_axis = 1 : i64} : (tensor<3x3xf32>, tensor<3xi64>) -> tensor<3x3xf32>
  func.return
}

// -----

func.func @reverse_sequence_lengths(%x: tensor<3x4xf32>, %l: tensor<3xi64>) {
  // CHECK: expected tensor<4xi64>, found tensor<3xi64>
  %0 = graph.reverse_sequence %x, %l {batch_axis = 1 : i64, time_axis = 0 : i64} : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  func.return
}

// -----

func.func @gather_indices(%x: tensor<3x4xf32>, %i: tensor<3xi8>) {
  // CHECK: expected indices of i32 or i64, found i8
  %0 = graph.gather %x, %i {axis = 0 : i64} : (tensor<3x4xf32>, tensor<3xi8>) -> tensor<3x4xf32>
  func.return
}

// -----

func.func @gather_axis(%x: tensor<3x4xf32>, %i: tensor<3xi64>) {
  // CHECK: expected axis from 0 to 1, found 2
  %0 = graph.gather %x, %i {axis = 2 : i64} : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  func.return
}

// -----

func.func @gather_elements_shape(%x: tensor<3x4xf32>, %i: tensor<4x4xi64>) {
  // CHECK: expected indices within 3x4 but for axis 1, found 4x4
  %0 = graph.gather_elements %x, %i {axis = 1 : i64} : (tensor<3x4xf32>, tensor<4x4xi64>) -> tensor<4x4xf32>
  func.return
}

// -----

func.func @gather_nd_depth(%x: tensor<3x4xf32>, %i: tensor<2x3xi64>) {
  // CHECK: expected positions of 1 to 2 indices, found 3
  %0 = graph.gather_nd %x, %i {batch_dims = 0 : i64} : (tensor<3x4xf32>, tensor<2x3xi64>) -> tensor<2xf32>
  func.return
}

// -----

func.func @gather_nd_batch(%x: tensor<3x4xf32>, %i: tensor<2x1xi64>) {
  // CHECK: expected 1 equal dimensions first, found 3x4 and 2x1
  %0 = graph.gather_nd %x, %i {batch_dims = 1 : i64} : (tensor<3x4xf32>, tensor<2x1xi64>) -> tensor<2xf32>
  func.return
}

// -----

func.func @scatter_updates(%x: tensor<3x4xf32>, %i: tensor<2x4xi64>, %u: tensor<2x3xf32>) {
  // CHECK: expected updates tensor<2x4xf32>, found tensor<2x3xf32>
  %0 = graph.scatter_elements %x, %i, %u {axis = 0 : i64, reduction = "none"} : (tensor<3x4xf32>, tensor<2x4xi64>, tensor<2x3xf32>) -> tensor<3x4xf32>
  func.return
}

// -----

func.func @scatter_reduction(%x: tensor<3x4xf32>, %i: tensor<2x4xi64>, %u: tensor<2x4xf32>) {
  // CHECK: expected reduction none, add, mul, min, max, found sub
  %0 = graph.scatter_elements %x, %i, %u {axis = 0 : i64, reduction = "sub"} : (tensor<3x4xf32>, tensor<2x4xi64>, tensor<2x4xf32>) -> tensor<3x4xf32>
  func.return
}

// -----

func.func @scatter_bool(%x: tensor<3x4xi1>, %i: tensor<2x1xi64>, %u: tensor<2x4xi1>) {
  // CHECK: expected numbers, found i1
  %0 = graph.scatter_nd %x, %i, %u {reduction = "add"} : (tensor<3x4xi1>, tensor<2x1xi64>, tensor<2x4xi1>) -> tensor<3x4xi1>
  func.return
}

// -----

func.func @scatter_nd_depth(%x: tensor<3x4xf32>, %i: tensor<2x3xi64>, %u: tensor<2xf32>) {
  // CHECK: expected positions of 1 to 2 indices, found 3
  %0 = graph.scatter_nd %x, %i, %u {reduction = "none"} : (tensor<3x4xf32>, tensor<2x3xi64>, tensor<2xf32>) -> tensor<3x4xf32>
  func.return
}

// -----

func.func @one_hot_values(%i: tensor<3xi64>, %v: tensor<3xf32>) {
  // CHECK: expected 2 values, found tensor<3xf32>
  %0 = graph.one_hot %i, %v {axis = 0 : i64, depth = 4 : i64} : (tensor<3xi64>, tensor<3xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

func.func @one_hot_depth(%i: tensor<3xi64>, %v: tensor<2xf32>) {
  // CHECK: expected depth >= 1, found 0
  %0 = graph.one_hot %i, %v {axis = 0 : i64, depth = 0 : i64} : (tensor<3xi64>, tensor<2xf32>) -> tensor<0x3xf32>
  func.return
}

// -----

func.func @top_k_k(%x: tensor<3x4xf32>) {
  // CHECK: expected k from 0 to 4, found 5
  %0, %1 = graph.top_k %x {axis = 1 : i64, k = 5 : i64, largest = 1 : i64, sorted = 1 : i64} : (tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>)
  func.return
}
