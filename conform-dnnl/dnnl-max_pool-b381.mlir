builtin.module attributes {byoc.levels = ["graph"]} {
  func.func @main(%0: tensor<1x3xui8>, %1: tensor<1x1xui8>, %2: tensor<2x5x8x3xui8>, %3: tensor<4xf32>, %4: tensor<1x4x8x8xi8>) -> (tensor<1x1xi32>, tensor<1x3xui8>, tensor<1x3xui8>, tensor<2x5x7x3xui8>, tensor<4xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<1x4x4x4xi8>) {
    %5 = graph.transpose %0 {perm = array<i64: 1, 0>} : (tensor<1x3xui8>) -> tensor<3x1xui8> loc("n0")
    %6 = graph.transpose %5 {perm = array<i64: 1, 0>} : (tensor<3x1xui8>) -> tensor<1x3xui8> loc("n1")
    %7 = graph.cast %6 {to = i32} : (tensor<1x3xui8>) -> tensor<1x3xi32> loc("n2")
    %8 = graph.cast %1 {to = i32} : (tensor<1x1xui8>) -> tensor<1x1xi32> loc("n3")
    %9 = graph.add %7, %8 : (tensor<1x3xi32>, tensor<1x1xi32>) -> tensor<1x3xi32> loc("n4")
    %10 = graph.relu %9 : (tensor<1x3xi32>) -> tensor<1x3xi32> loc("n5")
    %11 = graph.constant #graph.array<[-4.0] : tensor<f32>> loc("n6")
    %12 = graph.requantize %10, %11 {to = ui8, rounding = #graph.float_half_even} : (tensor<1x3xi32>, tensor<f32>) -> tensor<1x3xui8> loc("n7")
    %13 = graph.clip %12 {max = #graph.array<[6] : tensor<ui8>>} : (tensor<1x3xui8>) -> tensor<1x3xui8> loc("n8")
    %14 = graph.max_pool %2 {strides = array<i64: 1, 1>, dilations = array<i64: 1, 2>, pads = array<i64: 0, 0, 0, 1>, kernel_shape = array<i64: 2, 1>, ceil_mode = 1 : i64} : (tensor<2x5x8x3xui8>) -> tensor<2x5x7x3xui8> loc("n9")
    %15 = graph.transpose %3 {perm = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32> loc("n10")
    %16 = graph.transpose %15 {perm = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32> loc("n11")
    %17 = graph.abs %16 : (tensor<4xf32>) -> tensor<4xf32> loc("n12")
    %18 = graph.reshape %17 {shape = array<i64: 4, 1>} : (tensor<4xf32>) -> tensor<4x1xf32> loc("n13")
    %19 = graph.add %18, %18 : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32> loc("n14")
    %20 = graph.transpose %4 {perm = array<i64: 3, 2, 1, 0>} : (tensor<1x4x8x8xi8>) -> tensor<8x8x4x1xi8> loc("n15")
    %21 = graph.transpose %20 {perm = array<i64: 3, 2, 1, 0>} : (tensor<8x8x4x1xi8>) -> tensor<1x4x8x8xi8> loc("n16")
    %22 = graph.neg %21 : (tensor<1x4x8x8xi8>) -> tensor<1x4x8x8xi8> loc("n17")
    %23 = graph.max_pool %22 {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64} : (tensor<1x4x8x8xi8>) -> tensor<1x4x4x4xi8> loc("n18")
    %24 = graph.add %23, %23 : (tensor<1x4x4x4xi8>, tensor<1x4x4x4xi8>) -> tensor<1x4x4x4xi8> loc("n19")
    func.return %8, %12, %13, %14, %17, %18, %19, %24 : tensor<1x1xi32>, tensor<1x3xui8>, tensor<1x3xui8>, tensor<2x5x7x3xui8>, tensor<4xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<1x4x4x4xi8>
  }
}
