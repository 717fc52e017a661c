// RUN: byocir-opt -p convert-graph-to-tir %s | filecheck %s

func.func @conv(%x: tensor<1x4x8x8xi8>, %w: tensor<6x4x3x3xi8>, %b: tensor<6xi32>) -> tensor<1x6x4x4xi32> {
  %0 = graph.conv %x, %w, %b {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x8x8xi8>, tensor<6x4x3x3xi8>, tensor<6xi32>) -> tensor<1x6x4x4xi32> loc("Conv_0")
  func.return %0 : tensor<1x6x4x4xi32>
}

// One contraction over a zero fill; the bias is added by a block of its own.
// CHECK-LABEL: @conv
// CHECK-NEXT: %[[zero:.*]] = tir.fill 0 : i32 : tensor<1x6x4x4xi32> loc("Conv_0")
// CHECK-NEXT: %[[sum:.*]] = tir.block [n: 1, o: 6, h: 4, w: 4 | c: 4, r: 3, s: 3] ins(%x[n, c, 2 * h + r - 1, 2 * w + s - 1] pad 0 : i8 : tensor<1x4x8x8xi8>, %w[o, c, r, s] : tensor<6x4x3x3xi8>) outs(%[[zero]][n, o, h, w] : tensor<1x6x4x4xi32>) {
// CHECK-NEXT: ^bb0(%[[a:.*]]: i8, %[[k:.*]]: i8, %[[acc:.*]]: i32):
// CHECK-NEXT: %[[wa:.*]] = arith.extsi %[[a]] : i8 to i32 loc("Conv_0")
// CHECK-NEXT: %[[wk:.*]] = arith.extsi %[[k]] : i8 to i32
// CHECK-NEXT: %[[p:.*]] = arith.muli %[[wa]], %[[wk]] : i32
// CHECK-NEXT: %[[s:.*]] = arith.addi %[[acc]], %[[p]] : i32
// CHECK-NEXT: tir.yield %[[s]] : i32 loc("Conv_0")
// CHECK-NEXT: } loc("Conv_0")
// CHECK-NEXT: %[[out:.*]] = tir.empty : tensor<1x6x4x4xi32>
// CHECK-NEXT: %[[biased:.*]] = tir.block [i0: 1, i1: 6, i2: 4, i3: 4] ins(%[[sum]][i0, i1, i2, i3] : tensor<1x6x4x4xi32>, %b[i1] : tensor<6xi32>) outs(%[[out]][i0, i1, i2, i3] : tensor<1x6x4x4xi32>) {
// CHECK: func.return %[[biased]]

func.func @grouped(%x: tensor<1x4x8xf32>, %w: tensor<6x2x3xf32>) -> tensor<1x6x6xf32> {
  %0 = graph.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 2 : i64} : (tensor<1x4x8xf32>, tensor<6x2x3xf32>) -> tensor<1x6x6xf32>
  func.return %0 : tensor<1x6x6xf32>
}

// CHECK-LABEL: @grouped
// CHECK: tir.block [n: 1, g: 2, o: 3, h: 6 | c: 2, r: 3] ins(%x[n, 2 * g + c, h + r] : tensor<1x4x8xf32>, %w[3 * g + o, c, r] : tensor<6x2x3xf32>) outs(%{{.*}}[n, 3 * g + o, h] : tensor<1x6x6xf32>) {

func.func @matmul(%a: tensor<5x1x2x3xf32>, %b: tensor<4x3x7xf32>) -> tensor<5x4x2x7xf32> {
  %0 = graph.matmul %a, %b : (tensor<5x1x2x3xf32>, tensor<4x3x7xf32>) -> tensor<5x4x2x7xf32>
  func.return %0 : tensor<5x4x2x7xf32>
}

// CHECK-LABEL: @matmul
// CHECK: tir.block [b0: 5, b1: 4, m: 2, n: 7 | k: 3] ins(%a[b0, 0, m, k] : tensor<5x1x2x3xf32>, %b[b1, k, n] : tensor<4x3x7xf32>) outs(%{{.*}}[b0, b1, m, n] : tensor<5x4x2x7xf32>) {

func.func @max_pool(%x: tensor<1x4x8x8xi8>) -> tensor<1x4x4x4xi8> {
  %0 = graph.max_pool %x {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64} : (tensor<1x4x8x8xi8>) -> tensor<1x4x4x4xi8>
  func.return %0 : tensor<1x4x4x4xi8>
}

// Pads never win.
// CHECK-LABEL: @max_pool
// CHECK-NEXT: %[[low:.*]] = tir.fill -128 : i8 : tensor<1x4x4x4xi8>
// CHECK-NEXT: tir.block [n: 1, c: 4, h: 4, w: 4 | r: 3, s: 3] ins(%x[n, c, 2 * h + r - 1, 2 * w + s - 1] pad -128 : i8 : tensor<1x4x8x8xi8>) outs(%[[low]][n, c, h, w] : tensor<1x4x4x4xi8>) {
// CHECK-NEXT: ^bb0(%[[x:.*]]: i8, %[[acc:.*]]: i8):
// CHECK-NEXT: %[[max:.*]] = arith.maxsi %[[acc]], %[[x]] : i8
// CHECK-NEXT: tir.yield %[[max]] : i8

func.func @requantize(%x: tensor<1x4x2x2xi32>, %m: tensor<4x1x1xi32>) -> tensor<1x4x2x2xi8> {
  %0 = graph.requantize %x, %m {rounding = #graph.fixed<shift = 23, half_up>, to = i8} : (tensor<1x4x2x2xi32>, tensor<4x1x1xi32>) -> tensor<1x4x2x2xi8>
  func.return %0 : tensor<1x4x2x2xi8>
}

// CHECK-LABEL: @requantize
// CHECK: tir.block [i0: 1, i1: 4, i2: 2, i3: 2] ins(%x[i0, i1, i2, i3] : tensor<1x4x2x2xi32>, %m[i1, 0, 0] : tensor<4x1x1xi32>)
// CHECK-NEXT: ^bb0(%[[x:.*]]: i32, %[[m:.*]]: i32, %{{.*}}: i8):
// CHECK-NEXT: %[[wx:.*]] = arith.extsi %[[x]] : i32 to i64
// CHECK-NEXT: %[[wm:.*]] = arith.extsi %[[m]] : i32 to i64
// CHECK-NEXT: %[[p:.*]] = arith.muli %[[wx]], %[[wm]] : i64
// CHECK-NEXT: %[[half:.*]] = arith.constant 4194304 : i64
// CHECK-NEXT: %[[r:.*]] = arith.addi %[[p]], %[[half]] : i64
// CHECK-NEXT: %[[shift:.*]] = arith.constant 23 : i64
// CHECK-NEXT: %[[q:.*]] = arith.shrsi %[[r]], %[[shift]] : i64
// CHECK-NEXT: %[[least:.*]] = arith.constant -128 : i64
// CHECK-NEXT: %[[above:.*]] = arith.maxsi %[[q]], %[[least]] : i64
// CHECK-NEXT: %[[most:.*]] = arith.constant 127 : i64
// CHECK-NEXT: %[[within:.*]] = arith.minsi %[[above]], %[[most]] : i64
// CHECK-NEXT: %[[y:.*]] = arith.trunci %[[within]] : i64 to i8
// CHECK-NEXT: tir.yield %[[y]] : i8

func.func @average_pool(%x: tensor<1x1x4x4xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x4x4xf32>) {
  %0 = graph.average_pool %x {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64, count_include_pad = 0 : i64} : (tensor<1x1x4x4xf32>) -> tensor<1x1x2x2xf32>
  %1 = graph.average_pool %x {kernel_shape = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64, count_include_pad = 0 : i64} : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  func.return %0, %1 : tensor<1x1x2x2xf32>, tensor<1x1x4x4xf32>
}

// Windows that all count the same are divided by a number, others by an array.
// CHECK-LABEL: @average_pool
// CHECK: %[[four:.*]] = arith.constant 4.000000e+00 : f32
// CHECK-NEXT: arith.divf %{{.*}}, %[[four]] : f32
// CHECK: %[[counts:.*]] = tir.constant <[4.0, 6.0, 6.0, 4.0, 6.0, 9.0, 9.0, 6.0, 6.0, 9.0, 9.0, 6.0, 4.0, 6.0, 6.0, 4.0] : tensor<4x4xf32>> : tensor<4x4xf32>
// CHECK: %[[counts]][i2, i3] : tensor<4x4xf32>

func.func @reshape(%x: tensor<1x6x2x2xf32>) -> (tensor<1x24xf32>, tensor<6x4xf32>, tensor<4x6xf32>) {
  %0 = graph.flatten %x {axis = 1 : i64} : (tensor<1x6x2x2xf32>) -> tensor<1x24xf32>
  %1 = graph.reshape %x {shape = array<i64: 6, 4>} : (tensor<1x6x2x2xf32>) -> tensor<6x4xf32>
  %2 = graph.transpose %1 {perm = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  func.return %0, %1, %2 : tensor<1x24xf32>, tensor<6x4xf32>, tensor<4x6xf32>
}

// Only dimensions that are split or joined divide.
// CHECK-LABEL: @reshape
// CHECK: ins(%x[0, i1 floordiv 4, (i1 floordiv 2) mod 2, i1 mod 2] : tensor<1x6x2x2xf32>)
// CHECK: ins(%x[0, i0, i1 floordiv 2, i1 mod 2] : tensor<1x6x2x2xf32>)
// CHECK: ins(%{{.*}}[i1, i0] : tensor<6x4xf32>)

func.func @concat(%x: tensor<2x3xi1>, %y: tensor<2x1xi1>) -> tensor<2x4xi1> {
  %0 = graph.concat %x, %y {axis = 1 : i64} : (tensor<2x3xi1>, tensor<2x1xi1>) -> tensor<2x4xi1>
  func.return %0 : tensor<2x4xi1>
}

// CHECK-LABEL: @concat
// CHECK-NEXT: %[[init:.*]] = tir.empty : tensor<2x4xi1>
// CHECK-NEXT: %[[first:.*]] = tir.block [i0: 2, i1: 3] ins(%x[i0, i1] : tensor<2x3xi1>) outs(%[[init]][i0, i1] : tensor<2x4xi1>) {
// CHECK: tir.block [i0: 2, i1: 1] ins(%y[i0, i1] : tensor<2x1xi1>) outs(%[[first]][i0, i1 + 3] : tensor<2x4xi1>) {

func.func @softmax(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = graph.softmax %x {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: @softmax
// CHECK: %[[max:.*]] = tir.block [i0: 2 | r1: 3] ins(%x[i0, r1] : tensor<2x3xf32>)
// CHECK: arith.maximumf
// CHECK: %[[exp:.*]] = tir.block [i0: 2, i1: 3] ins(%x[i0, i1] : tensor<2x3xf32>, %[[max]][i0] : tensor<2xf32>)
// CHECK: math.exp
// CHECK: %[[sum:.*]] = tir.block [i0: 2 | r1: 3] ins(%[[exp]][i0, r1] : tensor<2x3xf32>)
// CHECK: tir.block [i0: 2, i1: 3] ins(%[[exp]][i0, i1] : tensor<2x3xf32>, %[[sum]][i0] : tensor<2xf32>)
// CHECK: arith.divf

func.func @inside(%x: tensor<4xi8>) -> tensor<4xi8> {
  %0 = byoc.region #byoc.target<"vta", {}> (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
    %1 = byoc.composite "vta.relu" at "graph" (%b = %a : tensor<4xi8>) -> tensor<4xi8> {
      %2 = graph.relu %b : (tensor<4xi8>) -> tensor<4xi8>
      byoc.yield %2 : tensor<4xi8>
    }
    byoc.yield %1 : tensor<4xi8>
  }
  func.return %0 : tensor<4xi8>
}

// CHECK-LABEL: @inside
// CHECK: byoc.composite
// CHECK-NOT: graph.relu
// CHECK: tir.block
