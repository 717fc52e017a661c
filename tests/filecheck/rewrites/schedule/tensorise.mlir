// RUN: byocir-opt --no-debuginfo --load-target %S/npu.py:Npu -p 'schedule{script="m, k = tile(gemm, m=4, k=3); stage(gemm, 0, npu.near, at=k); tensorise(gemm, npu.gemm)"}' %s | filecheck %s

// RUN: not byocir-opt --load-target %S/npu.py:Npu -p 'schedule{script="tile(gemm, m=2); tensorise(gemm, npu.gemm)"}' %s 2>&1 | filecheck %s --check-prefix=RULE
// RULE:      error[B259]: expected a block that npu.gemm describes: 1 of 1 rules fail
// RULE-NEXT: at    tir.block of gemm
// RULE-NEXT: help  Tiles have four rows, found 2

// RUN: not byocir-opt --load-target %S/npu.py:Npu -p 'schedule{script="tensorise(gemm, npu.gem)"}' %s 2>&1 | filecheck %s --check-prefix=PATTERN
// PATTERN:      error[B250]: expected a pattern of target npu, found 'npu.gem'
// PATTERN-NEXT: help  did you mean 'npu.gemm'?

// RUN: not byocir-opt --load-target %S/npu.py:Npu -p 'schedule{script="tile(gemm, m=4, n=4, remainder=guard); tensorise(gemm, npu.gemm)"}' %s 2>&1 | filecheck %s --check-prefix=GUARD
// GUARD:      error[B259]: expected a tile without pads and guards, found some
// GUARD-NEXT: at    tir.block of gemm
// GUARD-NEXT: help  stage its operands first

func.func @main(%a: memref<8x12xi8>, %b: memref<12x6xi8>, %c: memref<8x6xi32>) {
  tir.block [m: 8, n: 6 | k: 12] ins(%a[m, k] : memref<8x12xi8>, %b[k, n] : memref<12x6xi8>) outs(%c[m, n] : memref<8x6xi32>) {
  ^bb0(%x: i8, %w: i8, %acc: i32):
    %0 = arith.extsi %x : i8 to i32
    %1 = arith.extsi %w : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    tir.yield %3 : i32
  } loc("gemm")
  func.return
}

// CHECK-LABEL: @main
// CHECK-NEXT:  %c3 = arith.constant 3 : index
// CHECK-NEXT:  %c0 = arith.constant 0 : index
// CHECK-NEXT:  %c4 = arith.constant 4 : index
// CHECK-NEXT:  tir.for %m = 0 to 2 serial {
// CHECK-NEXT:    %0 = arith.muli %m, %c4 : index
// CHECK-NEXT:    tir.for %k = 0 to 4 serial {
// CHECK-NEXT:      %1 = arith.muli %k, %c3 : index
// CHECK-NEXT:      %a_1 = tir.alloc : memref<4x3xi8, "npu.near">
// CHECK-NEXT:      tir.copy %a[%0, %1] to %a_1 sizes [4, 3] : memref<8x12xi8> to memref<4x3xi8, "npu.near">
// CHECK-NEXT:      tir.intrinsic "npu.gemm" {
// CHECK-NEXT:        tir.block [m: 4, n: 6, m0: 1, k0: 1 | k: 3] at(%0, %c0, %0, %1, %1) ins(%a_1[m - m0, -k0 + k] : memref<4x3xi8, "npu.near">, %b[k, n] : memref<12x6xi8>) outs(%c[m, n] : memref<8x6xi32>)
