// RUN: byocir-opt --no-debuginfo --load-target %S/../../../programs/alu_engine.py:Engine -p 'split-bodies' %s | filecheck %s

// A requantise in i64, whose numbers fit i32: one block for each operation, in one buffer. The clamp
// and the relu behind it are one, and 1000 is no number of eight bits.
// CHECK-LABEL: func.func @requantise
// CHECK:       %[[WIDE:.*]] = tir.block [i: 4, j: 16] ins(%{{.*}}[i, j] : tensor<4x16xi8>) outs
// CHECK:         arith.extsi
// CHECK:       %[[FACTOR:.*]] = tir.constant <{{.*}}> : tensor<16xi32>
// CHECK:       %[[PRODUCT:.*]] = tir.block [i: 4, j: 16] ins(%[[FACTOR]][j] : tensor<16xi32>) outs(%[[WIDE]][i, j]
// CHECK:         arith.muli
// CHECK:       %[[SHIFTED:.*]] = tir.block [i: 4, j: 16] outs(%[[PRODUCT]][i, j]
// CHECK:         arith.constant 9 : i32
// CHECK:         arith.shrsi
// CHECK:       %[[RELU:.*]] = tir.block [i: 4, j: 16] outs(%[[SHIFTED]][i, j]
// CHECK:         arith.maxsi
// CHECK:       %[[CLAMPED:.*]] = tir.block [i: 4, j: 16] outs(%[[RELU]][i, j]
// CHECK:         arith.minsi
// CHECK:       tir.block [i: 4, j: 16] ins(%[[CLAMPED]][i, j] : tensor<4x16xi32>) outs(%{{.*}}[i, j] : tensor<4x16xi8>)
// CHECK:         arith.trunci
// CHECK-NOT:   tir.block
func.func @requantise(%a: tensor<4x16xi8>) -> tensor<4x16xi8> attributes {byoc.target = #byoc.target<"alu", {}>} {
  %r = byoc.composite "alu.any" at "tensor" (%x = %a : tensor<4x16xi8>) -> tensor<4x16xi8> {
    %e = tir.empty : tensor<4x16xi8>
    %y = tir.block [i: 4, j: 16] ins(%x[i, j] : tensor<4x16xi8>) outs(%e[i, j] : tensor<4x16xi8>) {
    ^bb0(%p: i8, %old: i8):
      %0 = arith.extsi %p : i8 to i64
      %m = arith.constant 1000 : i64
      %1 = arith.muli %0, %m : i64
      %s = arith.constant 9 : i64
      %2 = arith.shrsi %1, %s : i64
      %lo = arith.constant -128 : i64
      %3 = arith.maxsi %2, %lo : i64
      %hi = arith.constant 127 : i64
      %4 = arith.minsi %3, %hi : i64
      %5 = arith.trunci %4 : i64 to i8
      %z = arith.constant 0 : i8
      %6 = arith.maxsi %5, %z : i8
      tir.yield %6 : i8
    }
    byoc.yield %y : tensor<4x16xi8>
  }
  func.return %r : tensor<4x16xi8>
}

// A bias is added as the products of one vector for all rows with weights: 1000 is 127 * 8 - 16.
// CHECK-LABEL: func.func @biased
// CHECK-DAG:   %[[ONE:.*]] = tir.constant <[127, 1] : tensor<2xi8>> : tensor<2xi8>
// CHECK-DAG:   %[[WEIGHTS:.*]] = tir.constant <{{.*}}> : tensor<2x8xi8>
// CHECK:       tir.block [i: 16, j: 8 | k: 2] ins(%[[ONE]][k] : tensor<2xi8>, %[[WEIGHTS]][k, j] : tensor<2x8xi8>) outs(%{{.*}}[i, j]
// CHECK:         arith.muli
// CHECK:         arith.addi
func.func @biased(%a: tensor<16x8xi8>) -> tensor<16x8xi8> attributes {byoc.target = #byoc.target<"alu", {}>} {
  %r = byoc.composite "alu.any" at "tensor" (%x = %a : tensor<16x8xi8>) -> tensor<16x8xi8> {
    %b = tir.constant <[1000, -1000, 999, 5, 4, 3, 2, 1] : tensor<8xi32>> : tensor<8xi32>
    %e = tir.empty : tensor<16x8xi8>
    %y = tir.block [i: 16, j: 8] ins(%x[i, j] : tensor<16x8xi8>, %b[j] : tensor<8xi32>) outs(%e[i, j] : tensor<16x8xi8>) {
    ^bb0(%p: i8, %q: i32, %old: i8):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.addi %0, %q : i32
      %s = arith.constant 4 : i32
      %2 = arith.shrsi %1, %s : i32
      %3 = arith.trunci %2 : i32 to i8
      tir.yield %3 : i8
    }
    byoc.yield %y : tensor<16x8xi8>
  }
  func.return %r : tensor<16x8xi8>
}

// Numbers of -100 and less give 0 in the sum, whatever is added, so that the term has one clamp.
// CHECK-LABEL: func.func @rectified_sum
// CHECK-NOT:   arith.maxsi
// CHECK:       arith.minsi
// CHECK-NOT:   arith.maxsi
// CHECK:       arith.addi
// CHECK:       arith.maxsi
// CHECK-NOT:   arith.maxsi
func.func @rectified_sum(%a: tensor<4x16xi8>, %b: tensor<4x16xi8>) -> tensor<4x16xi8> attributes {byoc.target = #byoc.target<"alu", {}>} {
  %r = byoc.composite "alu.any" at "tensor" (%x = %a : tensor<4x16xi8>, %y = %b : tensor<4x16xi8>) -> tensor<4x16xi8> {
    %e = tir.empty : tensor<4x16xi8>
    %v = tir.block [i: 4, j: 16] ins(%x[i, j] : tensor<4x16xi8>, %y[i, j] : tensor<4x16xi8>) outs(%e[i, j] : tensor<4x16xi8>) {
    ^bb0(%p: i8, %q: i8, %old: i8):
      %0 = arith.extsi %p : i8 to i64
      %m = arith.constant 9 : i64
      %1 = arith.muli %0, %m : i64
      %lo = arith.constant -100 : i64
      %2 = arith.maxsi %1, %lo : i64
      %hi = arith.constant 100 : i64
      %3 = arith.minsi %2, %hi : i64
      %two = arith.constant 2 : i64
      %4 = arith.muli %3, %two : i64
      %5 = arith.extsi %q : i8 to i64
      %6 = arith.addi %4, %5 : i64
      %zero = arith.constant 0 : i64
      %7 = arith.maxsi %6, %zero : i64
      %most = arith.constant 127 : i64
      %8 = arith.minsi %7, %most : i64
      %9 = arith.trunci %8 : i64 to i8
      tir.yield %9 : i8
    }
    byoc.yield %v : tensor<4x16xi8>
  }
  func.return %r : tensor<4x16xi8>
}
