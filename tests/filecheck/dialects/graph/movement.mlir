// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @movement(%x: tensor<8x4xf32>, %d: tensor<1x8x2x4xf32>, %l: tensor<4xi64>, %i: tensor<2x3xi64>, %u: tensor<2x3xf32>, %v: tensor<9xf32>, %j: tensor<2x1xi64>, %w: tensor<2xf32>) {
  %0 = graph.expand %x {shape = array<i64: 2, 8, 4>} : (tensor<8x4xf32>) -> tensor<2x8x4xf32>
  %1 = graph.tile %x {repeats = array<i64: 1, 2>} : (tensor<8x4xf32>) -> tensor<8x8xf32>
  %2 = graph.slice %x {starts = array<i64: 0, 3>, sizes = array<i64: 8, 2>, steps = array<i64: 1, -2>} : (tensor<8x4xf32>) -> tensor<8x2xf32>
  %3, %4 = graph.split %x {axis = 1 : i64, split = array<i64: 1, 3>} : (tensor<8x4xf32>) -> (tensor<8x1xf32>, tensor<8x3xf32>)
  %5 = graph.pad %x {pads = array<i64: 0, 1, 0, 1>, mode = "constant", value = #graph.array<[1.5] : tensor<f32>>} : (tensor<8x4xf32>) -> tensor<8x6xf32>
  %6 = graph.pad %x {pads = array<i64: 0, 1, 0, 1>, mode = "reflect"} : (tensor<8x4xf32>) -> tensor<8x6xf32>
  %7 = graph.depth_to_space %d {blocksize = 2 : i64, mode = "CRD"} : (tensor<1x8x2x4xf32>) -> tensor<1x2x4x8xf32>
  %8 = graph.space_to_depth %d {blocksize = 2 : i64} : (tensor<1x8x2x4xf32>) -> tensor<1x32x1x2xf32>
  %9 = graph.trilu %x {k = -1 : i64, upper = 0 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %10 = graph.reverse_sequence %x, %l {batch_axis = 1 : i64, time_axis = 0 : i64} : (tensor<8x4xf32>, tensor<4xi64>) -> tensor<8x4xf32>
  %11 = graph.gather %x, %i {axis = 0 : i64} : (tensor<8x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  %12 = graph.gather_elements %x, %i {axis = 0 : i64} : (tensor<8x4xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
  %13 = graph.gather_nd %d, %i {batch_dims = 0 : i64} : (tensor<1x8x2x4xf32>, tensor<2x3xi64>) -> tensor<2x4xf32>
  %14 = graph.scatter_elements %x, %i, %u {axis = 0 : i64, reduction = "add"} : (tensor<8x4xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<8x4xf32>
  %15 = graph.scatter_nd %v, %j, %w {reduction = "none"} : (tensor<9xf32>, tensor<2x1xi64>, tensor<2xf32>) -> tensor<9xf32>
  %16 = graph.one_hot %l, %w {axis = 1 : i64, depth = 10 : i64} : (tensor<4xi64>, tensor<2xf32>) -> tensor<4x10xf32>
  %17, %18 = graph.top_k %x {axis = 0 : i64, k = 3 : i64, largest = 1 : i64, sorted = 1 : i64} : (tensor<8x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>)
  func.return
}

// CHECK: %0 = graph.expand %x {shape = array<i64: 2, 8, 4>} : (tensor<8x4xf32>) -> tensor<2x8x4xf32>
// CHECK-NEXT: %1 = graph.tile %x {repeats = array<i64: 1, 2>} : (tensor<8x4xf32>) -> tensor<8x8xf32>
// CHECK-NEXT: %2 = graph.slice %x {starts = array<i64: 0, 3>, sizes = array<i64: 8, 2>, steps = array<i64: 1, -2>} : (tensor<8x4xf32>) -> tensor<8x2xf32>
// CHECK-NEXT: %3, %4 = graph.split %x {axis = 1 : i64, split = array<i64: 1, 3>} : (tensor<8x4xf32>) -> (tensor<8x1xf32>, tensor<8x3xf32>)
// CHECK-NEXT: %5 = graph.pad %x {pads = array<i64: 0, 1, 0, 1>, mode = "constant", value = #graph.array<[1.5] : tensor<f32>>} : (tensor<8x4xf32>) -> tensor<8x6xf32>
// CHECK-NEXT: %6 = graph.pad %x {pads = array<i64: 0, 1, 0, 1>, mode = "reflect"} : (tensor<8x4xf32>) -> tensor<8x6xf32>
// CHECK-NEXT: %7 = graph.depth_to_space %d {blocksize = 2 : i64, mode = "CRD"} : (tensor<1x8x2x4xf32>) -> tensor<1x2x4x8xf32>
// CHECK-NEXT: %8 = graph.space_to_depth %d {blocksize = 2 : i64} : (tensor<1x8x2x4xf32>) -> tensor<1x32x1x2xf32>
// CHECK-NEXT: %9 = graph.trilu %x {k = -1 : i64, upper = 0 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT: %10 = graph.reverse_sequence %x, %l {batch_axis = 1 : i64, time_axis = 0 : i64} : (tensor<8x4xf32>, tensor<4xi64>) -> tensor<8x4xf32>
// CHECK-NEXT: %11 = graph.gather %x, %i {axis = 0 : i64} : (tensor<8x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
// CHECK-NEXT: %12 = graph.gather_elements %x, %i {axis = 0 : i64} : (tensor<8x4xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
// CHECK-NEXT: %13 = graph.gather_nd %d, %i {batch_dims = 0 : i64} : (tensor<1x8x2x4xf32>, tensor<2x3xi64>) -> tensor<2x4xf32>
// CHECK-NEXT: %14 = graph.scatter_elements %x, %i, %u {axis = 0 : i64, reduction = "add"} : (tensor<8x4xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<8x4xf32>
// CHECK-NEXT: %15 = graph.scatter_nd %v, %j, %w {reduction = "none"} : (tensor<9xf32>, tensor<2x1xi64>, tensor<2xf32>) -> tensor<9xf32>
// CHECK-NEXT: %16 = graph.one_hot %l, %w {axis = 1 : i64, depth = 10 : i64} : (tensor<4xi64>, tensor<2xf32>) -> tensor<4x10xf32>
// CHECK-NEXT: %17, %18 = graph.top_k %x {axis = 0 : i64, k = 3 : i64, largest = 1 : i64, sorted = 1 : i64} : (tensor<8x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>)
