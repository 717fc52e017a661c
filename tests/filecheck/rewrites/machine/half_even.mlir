// RUN: byocir-opt --no-debuginfo --load-target %S/../../../programs/alu_engine.py:Engine -p 'split-bodies' %s | filecheck %s

// Numbers that may be half-way are copied: the lowest bit of their quotient, 8 bits up, is turned
// around and becomes the sign, and that is -1 where it is shifted down. Numbers that no instruction
// adds are sums of products of constants.
// CHECK-LABEL: func.func @half_way
// CHECK:       %[[PRODUCT:.*]] = tir.block [i: 4, j: 16] outs(
// CHECK:         arith.muli
// CHECK:       %[[COPY:.*]] = tir.block [i: 4, j: 16] ins(%[[PRODUCT]][i, j]
// CHECK-NEXT:  ^bb0(%[[VALUE:.*]]: i32, %{{.*}}: i32):
// CHECK-NEXT:    tir.yield %[[VALUE]]
// CHECK:       tir.block [i: 4, j: 16 | k: 2] {{.*}} outs(%[[COPY]][i, j]
// CHECK:         arith.addi
// CHECK:       tir.constant <[8388608
// CHECK:         arith.muli
// CHECK:         arith.constant 31 : i32
// CHECK:         arith.shrsi
// CHECK:       tir.block [i: 4, j: 16 | k: 2]
// CHECK:         arith.addi
// CHECK:       tir.block [i: 4, j: 16] ins(%[[PRODUCT]][i, j]
// CHECK:         arith.addi
// CHECK:         arith.constant 8 : i32
// CHECK:         arith.shrsi
func.func @half_way(%a: tensor<4x16xi8>) -> tensor<4x16xi8> attributes {byoc.target = #byoc.target<"alu", {}>} {
  %r = byoc.composite "alu.any" at "tensor" (%x = %a : tensor<4x16xi8>) -> tensor<4x16xi8> {
    %e = tir.empty : tensor<4x16xi8>
    %y = tir.block [i: 4, j: 16] ins(%x[i, j] : tensor<4x16xi8>) outs(%e[i, j] : tensor<4x16xi8>) {
    ^bb0(%p: i8, %old: i8):
      %0 = arith.extsi %p : i8 to i64
      %m = arith.constant 100 : i64
      %1 = arith.muli %0, %m : i64
      %s = arith.constant 8 : i64
      %2 = arith.shrsi %1, %s : i64
      %one = arith.constant 1 : i64
      %3 = arith.shrsi %2, %one : i64
      %two = arith.constant 2 : i64
      %4 = arith.muli %3, %two : i64
      %5 = arith.subi %2, %4 : i64
      %b = arith.constant 127 : i64
      %6 = arith.addi %1, %b : i64
      %7 = arith.addi %6, %5 : i64
      %8 = arith.shrsi %7, %s : i64
      %9 = arith.trunci %8 : i64 to i8
      tir.yield %9 : i8
    }
    byoc.yield %y : tensor<4x16xi8>
  }
  func.return %r : tensor<4x16xi8>
}

// No byte times 81 is half of 512, or three halves.
// CHECK-LABEL: func.func @never_half_way
// CHECK:         arith.constant 81 : i32
// CHECK:         arith.muli
// CHECK-NOT:     arith.shrsi
// CHECK:         arith.constant 9 : i32
// CHECK:         arith.shrsi
// CHECK-NOT:     arith.shrsi
func.func @never_half_way(%a: tensor<4x16xi8>) -> tensor<4x16xi8> attributes {byoc.target = #byoc.target<"alu", {}>} {
  %r = byoc.composite "alu.any" at "tensor" (%x = %a : tensor<4x16xi8>) -> tensor<4x16xi8> {
    %e = tir.empty : tensor<4x16xi8>
    %y = tir.block [i: 4, j: 16] ins(%x[i, j] : tensor<4x16xi8>) outs(%e[i, j] : tensor<4x16xi8>) {
    ^bb0(%p: i8, %old: i8):
      %0 = arith.extsi %p : i8 to i64
      %m = arith.constant 81 : i64
      %1 = arith.muli %0, %m : i64
      %s = arith.constant 9 : i64
      %2 = arith.shrsi %1, %s : i64
      %one = arith.constant 1 : i64
      %3 = arith.shrsi %2, %one : i64
      %two = arith.constant 2 : i64
      %4 = arith.muli %3, %two : i64
      %5 = arith.subi %2, %4 : i64
      %b = arith.constant 255 : i64
      %6 = arith.addi %1, %b : i64
      %7 = arith.addi %6, %5 : i64
      %8 = arith.shrsi %7, %s : i64
      %9 = arith.trunci %8 : i64 to i8
      tir.yield %9 : i8
    }
    byoc.yield %y : tensor<4x16xi8>
  }
  func.return %r : tensor<4x16xi8>
}
