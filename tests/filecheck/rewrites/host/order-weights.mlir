// RUN: byocir-opt --no-debuginfo -p 'order-weights' %s | filecheck %s

// Weights [o, c, r] of a block that sums over r and c become [r, c, o]; a matrix [k, n] stays.
func.func @main(%x: tensor<5x2xi8>, %a: tensor<3x2xi8>) -> (tensor<4x3xi32>, tensor<3x2xi32>) {
  %w = tir.constant <[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] : tensor<3x2x2xi8>> : tensor<3x2x2xi8>
  %b = tir.constant <[1, 2, 3, 4] : tensor<2x2xi8>> : tensor<2x2xi8>
  %zero = tir.fill 0 : i32 : tensor<4x3xi32>
  %y = tir.block [w: 4, o: 3 | r: 2, c: 2] ins(%x[w + r, c] : tensor<5x2xi8>, %w[o, c, r] : tensor<3x2x2xi8>) outs(%zero[w, o] : tensor<4x3xi32>) {
  ^bb0(%p: i8, %q: i8, %acc: i32):
    %0 = arith.extsi %p : i8 to i32
    %1 = arith.extsi %q : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    tir.yield %3 : i32
  }
  %none = tir.fill 0 : i32 : tensor<3x2xi32>
  %z = tir.block [m: 3, n: 2 | k: 2] ins(%a[m, k] : tensor<3x2xi8>, %b[k, n] : tensor<2x2xi8>) outs(%none[m, n] : tensor<3x2xi32>) {
  ^bb0(%p: i8, %q: i8, %acc: i32):
    %0 = arith.extsi %p : i8 to i32
    %1 = arith.extsi %q : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    tir.yield %3 : i32
  }
  func.return %y, %z : tensor<4x3xi32>, tensor<3x2xi32>
}

// CHECK:      tir.constant <[1, 5, 9, 3, 7, 11, 2, 6, 10, 4, 8, 12] : tensor<2x2x3xi8>>
// CHECK:      tir.block [w: 4, o: 3 | r: 2, c: 2] ins(%x[w + r, c] : tensor<5x2xi8>, %{{.*}}[r, c, o] : tensor<2x2x3xi8>)
// CHECK:      tir.block [m: 3, n: 2 | k: 2] ins(%a[m, k] : tensor<3x2xi8>, %b[k, n] : tensor<2x2xi8>)

// Weights [g + o, c, r] of a depthwise convolution, whose groups have one channel, become [r, g];
// those of two groups of two channels [r, c, g, o].
func.func @groups(%x: tensor<5x2xi8>, %a: tensor<5x4xi8>) -> (tensor<4x2xi32>, tensor<4x4xi32>) {
  %w = tir.constant <[1, 2, 3, 4] : tensor<2x1x2xi8>> : tensor<2x1x2xi8>
  %b = tir.constant <[1, 2, 3, 4, 5, 6, 7, 8] : tensor<4x2x1xi8>> : tensor<4x2x1xi8>
  %zero = tir.fill 0 : i32 : tensor<4x2xi32>
  %y = tir.block [w: 4, g: 2, o: 1 | r: 2, c: 1] ins(%x[w + r, g + c] : tensor<5x2xi8>, %w[g + o, c, r] : tensor<2x1x2xi8>) outs(%zero[w, g + o] : tensor<4x2xi32>) {
  ^bb0(%p: i8, %q: i8, %acc: i32):
    %0 = arith.extsi %p : i8 to i32
    %1 = arith.extsi %q : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    tir.yield %3 : i32
  }
  %none = tir.fill 0 : i32 : tensor<4x4xi32>
  %z = tir.block [w: 4, g: 2, o: 2 | r: 1, c: 2] ins(%a[w + r, 2 * g + c] : tensor<5x4xi8>, %b[2 * g + o, c, r] : tensor<4x2x1xi8>) outs(%none[w, 2 * g + o] : tensor<4x4xi32>) {
  ^bb0(%p: i8, %q: i8, %acc: i32):
    %0 = arith.extsi %p : i8 to i32
    %1 = arith.extsi %q : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    tir.yield %3 : i32
  }
  func.return %y, %z : tensor<4x2xi32>, tensor<4x4xi32>
}

// CHECK:      func.func @groups
// CHECK:      tir.constant <[1, 3, 2, 4] : tensor<2x2xi8>>
// CHECK:      tir.block [w: 4, g: 2 | r: 2] ins(%x[w + r, g] : tensor<5x2xi8>, %{{.*}}[r, g] : tensor<2x2xi8>) outs(%{{.*}}[w, g] : tensor<4x2xi32>)
// CHECK:      tir.constant <[1, 3, 5, 7, 2, 4, 6, 8] : tensor<1x2x2x2xi8>>
// CHECK:      tir.block [w: 4, g: 2, o: 2 | r: 1, c: 2] ins(%a[w + r, 2 * g + c] : tensor<5x4xi8>, %{{.*}}[r, c, g, o] : tensor<1x2x2x2xi8>)
