// RUN: byocir-opt --no-debuginfo --load-target %S/../../../programs/alu_engine.py:Engine -p 'split-bodies' %s | filecheck %s

// A product with 1 is nothing, and what is added on both sides of one with 3 is one number before it.
// CHECK-LABEL: func.func @added_before
// CHECK-NOT:   arith.muli
// CHECK:       arith.constant 25 : i32
// CHECK-NEXT:  arith.addi
// CHECK-NOT:   arith.addi
// CHECK:       arith.constant 3 : i32
// CHECK-NEXT:  arith.muli
// CHECK-NOT:   arith.muli
// CHECK:       arith.constant 4 : i32
// CHECK-NEXT:  arith.shrsi
// CHECK-NOT:   arith.addi
func.func @added_before(%a: tensor<4x16xi8>) -> tensor<4x16xi8> attributes {byoc.target = #byoc.target<"alu", {}>} {
  %r = byoc.composite "alu.any" at "tensor" (%x = %a : tensor<4x16xi8>) -> tensor<4x16xi8> {
    %e = tir.empty : tensor<4x16xi8>
    %y = tir.block [i: 4, j: 16] ins(%x[i, j] : tensor<4x16xi8>) outs(%e[i, j] : tensor<4x16xi8>) {
    ^bb0(%p: i8, %old: i8):
      %0 = arith.extsi %p : i8 to i64
      %one = arith.constant 1 : i64
      %1 = arith.muli %0, %one : i64
      %b = arith.constant 5 : i64
      %2 = arith.addi %1, %b : i64
      %m = arith.constant 3 : i64
      %3 = arith.muli %2, %m : i64
      %h = arith.constant 60 : i64
      %4 = arith.addi %3, %h : i64
      %s = arith.constant 4 : i64
      %5 = arith.shrsi %4, %s : i64
      %6 = arith.trunci %5 : i64 to i8
      tir.yield %6 : i8
    }
    byoc.yield %y : tensor<4x16xi8>
  }
  func.return %r : tensor<4x16xi8>
}

// 1000 is no multiple of the factors: times these, the numbers of channels are added with it, here as
// what products of bytes begin with.
// CHECK-LABEL: func.func @added_behind
// CHECK:       tir.constant <[8007, 8014, 8021, 8028, 10045, 10054, 10063, 10072] : tensor<8xi32>>
// CHECK-NOT:   arith.addi
// CHECK:       arith.muli
// CHECK-NEXT:  arith.addi
// CHECK-NOT:   arith.addi
// CHECK:       arith.shrsi
func.func @added_behind(%a: tensor<2x8xi8>) -> tensor<2x8xi8> attributes {byoc.target = #byoc.target<"alu", {}>} {
  %r = byoc.composite "alu.any" at "tensor" (%x = %a : tensor<2x8xi8>) -> tensor<2x8xi8> {
    %b = tir.constant <[1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008] : tensor<8xi32>> : tensor<8xi32>
    %m = tir.constant <[7, 7, 7, 7, 9, 9, 9, 9] : tensor<8xi32>> : tensor<8xi32>
    %e = tir.empty : tensor<2x8xi8>
    %y = tir.block [i: 2, j: 8] ins(%x[i, j] : tensor<2x8xi8>, %b[j] : tensor<8xi32>, %m[j] : tensor<8xi32>) outs(%e[i, j] : tensor<2x8xi8>) {
    ^bb0(%p: i8, %q: i32, %f: i32, %old: i8):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.addi %0, %q : i32
      %2 = arith.muli %1, %f : i32
      %h = arith.constant 1000 : i32
      %3 = arith.addi %2, %h : i32
      %s = arith.constant 8 : i32
      %4 = arith.shrsi %3, %s : i32
      %5 = arith.trunci %4 : i32 to i8
      tir.yield %5 : i8
    }
    byoc.yield %y : tensor<2x8xi8>
  }
  func.return %r : tensor<2x8xi8>
}
