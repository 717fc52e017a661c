// RUN: not byocir-opt -p 'schedule{script="tile(gem, m=4)"}' %s 2>&1 | filecheck %s --check-prefix=NAME
// NAME:      error[B250]: expected one block named 'gem', found none
// NAME-NEXT: help  did you mean 'gemm'?

// RUN: not byocir-opt -p 'schedule{script="tile(gemm, q=4)"}' %s 2>&1 | filecheck %s --check-prefix=ITERATOR
// ITERATOR:      error[B251]: expected an iterator (m, n, k), found 'q'
// ITERATOR-NEXT: at    tir.block of gemm

// RUN: not byocir-opt -p 'schedule{script="m, = tile(gemm, m=4); n, = tile(gemm, n=6); fuse(m, n); split(n, 2)"}' %s 2>&1 | filecheck %s --check-prefix=GONE
// GONE: error[B251]: expected a loop of the program, found one that is gone

// RUN: not byocir-opt -p 'schedule{script="tile(gemm, m=3)"}' %s 2>&1 | filecheck %s --check-prefix=SIZE
// SIZE:      error[B252]: expected a size that divides m (8), found 3
// SIZE-NEXT: at    tir.block of gemm
// SIZE-NEXT: help  remainder="guard" leaves out what is past the end, "overlap" begins the last tile earlier

// RUN: not byocir-opt -p 'schedule{script="m, = tile(gemm, m=4); split(m, 4)"}' %s 2>&1 | filecheck %s --check-prefix=FACTOR
// FACTOR: error[B252]: expected a factor from 1 to 2, found 4

// RUN: not byocir-opt -p 'schedule{script="tile(gemm, m=3, remainder=overlap)"}' %s 2>&1 | filecheck %s --check-prefix=OVERLAP
// OVERLAP: error[B252]: expected a size that divides m (8), found 3: tiles cannot overlap where a result depends on what it was before

// RUN: not byocir-opt -p 'schedule{script="tile(sum, s=1)"}' %s 2>&1 | filecheck %s --check-prefix=ORDER
// ORDER:      error[B253]: expected loops over r around those over s, as the reductions of the block are ordered, found s with sizes 1
// ORDER-NEXT: at    tir.block of sum

// RUN: not byocir-opt -p 'schedule{script="r, s = tile(sum, r=1, s=1); reorder(s, r)"}' %s 2>&1 | filecheck %s --check-prefix=LOOPS
// LOOPS: error[B253]: expected loops that depend on each other to keep their order, found the loop over r (0 to 8) moved; its iterations share a buffer that tir.block of sum writes

// RUN: not byocir-opt -p 'schedule{script="m, n = tile(gemm, m=4, n=3); r, = tile(sum, r=1); reorder(r, m)"}' %s 2>&1 | filecheck %s --check-prefix=NEST
// NEST: error[B254]: expected loops directly inside each other

// RUN: not byocir-opt -p 'schedule{script="m, n, k = tile(gemm, m=4, n=3, k=3); parallel(k)"}' %s 2>&1 | filecheck %s --check-prefix=REDUCTION
// REDUCTION:      error[B255]: expected iterations that do not depend on each other, found that all of them may access what tir.block of gemm writes
// REDUCTION-NEXT: at    tir.for of gemm
// REDUCTION-NEXT: help  a loop over a reduction, or over tiles that overlap, stays serial; tile a parallel iterator instead, or with remainder="guard"

// RUN: not byocir-opt -p 'schedule{script="i, = tile(sum, i=1); compute_at(gemm, i)"}' %s 2>&1 | filecheck %s --check-prefix=ESCAPES
// ESCAPES:      error[B256]: expected a buffer that nothing outside the function sees, found another
// ESCAPES-NEXT: at    tir.block of gemm

// RUN: not byocir-opt -p 'schedule{script="m, = tile(gemm, m=3, remainder=guard); stage(gemm, 2, acc, at=m)"}' %s 2>&1 | filecheck %s --check-prefix=LEAVES
// LEAVES:      error[B257]: expected boxes inside the buffer of shape [8, 6] that is written, found boxes of [3, 6] that leave it
// LEAVES-NEXT: at    tir.block of gemm
// LEAVES-NEXT: help  choose sizes that divide, or remainder='overlap', and stage whole tiles

// RUN: not byocir-opt -p 'schedule{script="tile(gemm, m=4); pack(gemm, 0, {1: 4})"}' %s 2>&1 | filecheck %s --check-prefix=TILED
// TILED:      error[B258]: expected a whole block, found a tile
// TILED-NEXT: at    tir.block of gemm
// TILED-NEXT: help  pack, then tile

// RUN: not byocir-opt -p 'schedule{script="stage(gemm, 3, acc)"}' %s 2>&1 | filecheck %s --check-prefix=OPERAND
// OPERAND: error[B251]: expected an operand from 0 to 2, found 3

// RUN: not byocir-opt -p 'schedule{script="tile(gemm, m=3"}' %s 2>&1 | filecheck %s --check-prefix=SYNTAX
// SYNTAX: error[B260]: expected calls of primitives such as m, n = tile(gemm, m=16, n=32), found '(' was never closed in column 5

// RUN: not byocir-opt -p 'schedule{script="tiel(gemm, m=4)"}' %s 2>&1 | filecheck %s --check-prefix=PRIMITIVE
// PRIMITIVE:      error[B260]: expected a primitive, found 'tiel'
// PRIMITIVE-NEXT: at    schedule 'tiel(gemm, m=4)'
// PRIMITIVE-NEXT: help  did you mean 'tile'?

func.func @main(%a: memref<8x12xi8>, %b: memref<12x6xi8>, %c: memref<8x6xi32>, %x: memref<5x8x4xf32>, %y: memref<5xf32>) {
  tir.block [m: 8, n: 6 | k: 12] ins(%a[m, k] : memref<8x12xi8>, %b[k, n] : memref<12x6xi8>) outs(%c[m, n] : memref<8x6xi32>) {
  ^bb0(%p: i8, %w: i8, %acc: i32):
    %0 = arith.extsi %p : i8 to i32
    %1 = arith.extsi %w : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    tir.yield %3 : i32
  } loc("gemm")
  tir.block [i: 5 | r: 8, s: 4] ins(%x[i, r, s] : memref<5x8x4xf32>) outs(%y[i] : memref<5xf32>) {
  ^bb0(%p: f32, %acc: f32):
    %0 = arith.addf %acc, %p : f32
    tir.yield %0 : f32
  } loc("sum")
  func.return
}
