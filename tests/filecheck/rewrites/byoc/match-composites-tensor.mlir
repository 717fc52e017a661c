// RUN: byocir-opt -p set-targets{targets=vta},match-composites{level=tensor} %s | filecheck %s
// RUN: byocir-opt --load-target %S/policies.py:Rectifier -p set-targets{targets=rectifier},match-composites{level=tensor} %s | filecheck %s --check-prefix=MEMORY

// The same pass on blocks, in value form: what the result starts from goes along as constants do.
// CHECK-LABEL: @values
// CHECK-NEXT:    byoc.composite "vta.bound" at "tensor" (%[[A:.*]] = %x : tensor<1x4xi8>) -> tensor<1x4xi8> {
// CHECK-NEXT:      %[[E:.*]] = tir.empty : tensor<1x4xi8>
// CHECK-NEXT:      %[[B:.*]] = tir.block [n: 1, i: 4] ins(%[[A]][n, i] : tensor<1x4xi8>) outs(%[[E]][n, i] : tensor<1x4xi8>) {
// CHECK:           byoc.yield %[[B]] : tensor<1x4xi8>
// CHECK-NEXT:    } loc("relu")
func.func @values(%x: tensor<1x4xi8>) -> tensor<1x4xi8> {
  %e = tir.empty : tensor<1x4xi8>
  %0 = tir.block [n: 1, i: 4] ins(%x[n, i] : tensor<1x4xi8>) outs(%e[n, i] : tensor<1x4xi8>) {
  ^bb0(%a: i8, %b: i8):
    %zero = arith.constant 0 : i8
    %m = arith.maxsi %a, %zero : i8
    tir.yield %m : i8
  } loc("relu")
  func.return %0 : tensor<1x4xi8>
}

// And in buffer form: the composite takes the memref that it fills. VTA leaves memory alone.
// CHECK-LABEL: @buffers
// CHECK-NOT:     byoc.composite
// MEMORY-LABEL: @buffers
// MEMORY-NEXT:    byoc.composite "rectifier.floor" at "tensor" (%[[A:.*]] = %x : memref<1x4xi8>, %[[O:.*]] = %y : memref<1x4xi8>) {
// MEMORY-NEXT:      tir.block [n: 1, i: 4] ins(%[[A]][n, i] : memref<1x4xi8>) outs(%[[O]][n, i] : memref<1x4xi8>) {
// MEMORY:           byoc.yield
func.func @buffers(%x: memref<1x4xi8>, %y: memref<1x4xi8>) {
  tir.block [n: 1, i: 4] ins(%x[n, i] : memref<1x4xi8>) outs(%y[n, i] : memref<1x4xi8>) {
  ^bb0(%a: i8, %b: i8):
    %zero = arith.constant 0 : i8
    %m = arith.maxsi %a, %zero : i8
    tir.yield %m : i8
  }
  func.return
}

// A smallest value instead of the largest is another computation.
// CHECK-LABEL: @smallest
// CHECK-NOT:     byoc.composite
func.func @smallest(%x: tensor<1x1x4x4xi8>) -> tensor<1x1x2x2xi8> {
  %e = tir.fill -128 : i8 : tensor<1x1x2x2xi8>
  %0 = tir.block [n: 1, c: 1, h: 2, w: 2 | r: 2, s: 2] ins(%x[n, c, 2 * h + r, 2 * w + s] : tensor<1x1x4x4xi8>) outs(%e[n, c, h, w] : tensor<1x1x2x2xi8>) {
  ^bb0(%a: i8, %b: i8):
    %m = arith.minsi %b, %a : i8
    tir.yield %m : i8
  } loc("min pool")
  func.return %0 : tensor<1x1x2x2xi8>
}

// CHECK:         byoc.trail
// CHECK-SAME:    "vta.bound", "taken", ["relu"]
// CHECK-SAME:    "vta.window_max", "misses part", ["min pool"], #builtin.int<1>, #builtin.int<2>, "expected body
