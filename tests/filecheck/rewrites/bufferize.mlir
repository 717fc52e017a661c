// RUN: byocir-opt -p bufferize %s | filecheck %s

// The result is computed where the caller wants it; what one block gives to the next has memory of
// its own.

func.func @main(%x: tensor<4xi32> {byoc.name = "x"}) -> (tensor<4xi32> {byoc.name = "y"}) {
  %zero = tir.fill 0 : i32 : tensor<i32>
  %sum = tir.block [| i: 4] ins(%x[i] : tensor<4xi32>) outs(%zero[] : tensor<i32>) {
  ^bb0(%s: i32, %acc: i32):
    %r = arith.addi %acc, %s : i32
    tir.yield %r : i32
  } loc("Sum_0")
  %e = tir.empty : tensor<4xi32>
  %y = tir.block [i: 4] ins(%x[i] : tensor<4xi32>, %sum[] : tensor<i32>) outs(%e[i] : tensor<4xi32>) {
  ^bb0(%s: i32, %t: i32, %d: i32):
    %r = arith.subi %s, %t : i32
    tir.yield %r : i32
  } loc("Sub_1")
  func.return %y : tensor<4xi32>
}

// CHECK:      func.func @main(%x: memref<4xi32> {byoc.name = "x"}, %y: memref<4xi32> {byoc.name = "y"}) {
// CHECK-NEXT:   %[[SUM:.*]] = tir.alloc : memref<i32> loc("Sum_0")
// CHECK-NEXT:   tir.fill 0 : i32 into %[[SUM]] : memref<i32>
// CHECK-NEXT:   tir.block [| i: 4] ins(%x[i] : memref<4xi32>) outs(%[[SUM]][] : memref<i32>) {
// CHECK:        } loc("Sum_0")
// CHECK-NEXT:   tir.block [i: 4] ins(%x[i] : memref<4xi32>, %[[SUM]][] : memref<i32>) outs(%y[i] : memref<4xi32>) {
// CHECK:        } loc("Sub_1")
// CHECK-NEXT:   func.return
