// RUN: byocir-opt -p bufferize --split-input-file %s | filecheck %s

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

// -----

// A loop keeps what it carries in one place; values that change places go through a third.

// CHECK-LABEL: func.func @swap(%x: memref<2xi8>, %y: memref<2xi8>, %a: memref<2xi8>, %b: memref<2xi8>)
func.func @swap(%x: tensor<2xi8>, %y: tensor<2xi8>) -> (tensor<2xi8>, tensor<2xi8>) {
  // CHECK-NEXT: tir.copy %x to %a
  // CHECK-NEXT: tir.copy %y to %b
  // CHECK-NEXT: tir.for %t = 0 to 5 serial {
  // CHECK:        tir.copy %b to %[[B:.*]] sizes
  // CHECK:        tir.copy %a to %[[A:.*]] sizes
  // CHECK:        tir.copy %[[B]] to %a
  // CHECK:        tir.copy %[[A]] to %b
  %a, %b = tir.for %t = 0 to 5 serial carry(%s = %x : tensor<2xi8>, %r = %y : tensor<2xi8>) {
    tir.yield %r, %s : tensor<2xi8>, tensor<2xi8>
  }
  func.return %a, %b : tensor<2xi8>, tensor<2xi8>
}
