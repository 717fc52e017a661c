// RUN: byocir-opt --no-debuginfo --load-target %S/engine.py:Engine -p 'route-copies' %s | filecheck %s --check-prefix=COPIES
// RUN: byocir-opt --no-debuginfo --load-target %S/engine.py:Engine -p 'route-copies,write-out-loops' %s | filecheck %s --check-prefix=OUT
// RUN: byocir-opt --no-debuginfo --load-target %S/engine.py:Engine -p 'route-copies,write-out-loops,select-instructions' %s | filecheck %s --check-prefix=SELECT
// RUN: byocir-opt --no-debuginfo --load-target %S/engine.py:Engine -p 'route-copies,write-out-loops,select-instructions,overlap-loads,allocate-memories' %s | filecheck %s --check-prefix=ROWS
// RUN: byocir-opt --no-debuginfo --load-target %S/engine.py:Engine -p 'route-copies,write-out-loops,select-instructions,overlap-loads,allocate-memories,synchronise' %s | filecheck %s --check-prefix=WAITS

func.func @main(%x: memref<6x4xi8>, %y: memref<6x4xi8>) attributes {byoc.target = #byoc.target<"engine", {}>} {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  tir.for %i = 0 to 2 serial {
    %b = arith.muli %i, %c3 : index
    %t = tir.alloc : memref<3x4xi8, "engine.near">
    tir.copy %x[%b, %c0] to %t sizes [3, 4] : memref<6x4xi8> to memref<3x4xi8, "engine.near">
    %u = tir.alloc : memref<3x4xi8, "engine.near">
    tir.block [m: 3, n: 4] ins(%t[m, n] : memref<3x4xi8, "engine.near">) outs(%u[m, n] : memref<3x4xi8, "engine.near">) {
    ^bb0(%a: i8, %old: i8):
      %r = arith.addi %a, %a : i8
      tir.yield %r : i8
    } loc("double")
    tir.copy %u to %y[%b, %c0] sizes [3, 4] : memref<3x4xi8, "engine.near"> to memref<6x4xi8>
  }
  func.return
}

// Copies are blocks.
// COPIES:      tir.for %i = 0 to 2 serial {
// COPIES:        %t = tir.alloc : memref<3x4xi8, "engine.near">
// COPIES:        tir.block [d0: 3, d1: 4, s0: 1, s1: 1] at(%c0, %c0, %b, %c0) ins(%x[d0 + s0, d1 + s1]
// COPIES:        tir.block [m: 3, n: 4] ins(%t[m, n]

// Each iteration is written out.
// OUT-NOT:  tir.for
// OUT:      tir.block [d0: 3, d1: 4] ins(%x[d0, d1] : memref<6x4xi8>) outs(%t[d0, d1]
// OUT:      tir.block [m: 3, n: 4] ins(%t[m, n]
// OUT:      tir.block [d0: 3, d1: 4] ins(%u[d0, d1] {{.*}} outs(%y[d0, d1]
// OUT:      tir.block [d0: 3, d1: 4] ins(%x[d0 + 3, d1]

// Instructions take up to two rows: one op is the two calls that do three.
// SELECT:      tir.intrinsic "engine.load" cut [2, 4] {
// SELECT-NEXT:   tir.block [d0: 3, d1: 4] ins(%x[d0, d1]
// SELECT:      tir.intrinsic "engine.double" cut [2, 4] {
// SELECT-NEXT:   tir.block [m: 3, n: 4]
// SELECT:      tir.intrinsic "engine.store" cut [2, 4] {

// Both tiles are in memory at once: the second is loaded beside the work on the first.
// ROWS:      tir.alloc {row = 0 : i64} : memref<3x4xi8, "engine.near">
// ROWS-NEXT: tir.alloc {row = 6 : i64} : memref<3x4xi8, "engine.near">
// ROWS-NEXT: tir.alloc {row = 3 : i64} : memref<3x4xi8, "engine.near">
// ROWS-NEXT: tir.alloc {row = 9 : i64} : memref<3x4xi8, "engine.near">
// ROWS:      tir.intrinsic "engine.load" cut [2, 4] {
// ROWS:      tir.intrinsic "engine.load" cut [2, 4] beside {
// ROWS:      tir.intrinsic "engine.double"

// The core waits until the loads of its rows are done, the DMA unit until the core is. What is
// waited for counts calls: one of the second load may be outstanding, as they are issued by turns.
// WAITS:      tir.intrinsic "engine.load" cut [2, 4] {
// WAITS:      tir.intrinsic "engine.load" cut [2, 4] beside {
// WAITS:      tir.intrinsic "engine.double" cut [2, 4] waits(dma = 1) {
// WAITS:      tir.intrinsic "engine.store" cut [2, 4] waits(core = 0) {
