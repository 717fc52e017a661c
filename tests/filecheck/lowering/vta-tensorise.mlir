// RUN: byocir-opt %s -p vta-tensorise | filecheck %s

// Two tiles of a 3x3 convolution: loads with padding, alternating addresses, micro-ops loaded where
// they are first needed, the steps of the ALU with immediates and with a bias, one store per tile.

// CHECK-LABEL: func.func @conv
// CHECK-NEXT:  %w = tir.constant
// CHECK-NEXT:  %b = tir.constant
// CHECK-NEXT:  [[TABLE:%.+]] = tir.constant
// CHECK-NEXT:  vta.load uop[0] from [[TABLE]][0] size [1, 1]
// CHECK-SAME:  loc(callsite("Conv_0" at "tile 0"))
// CHECK-NEXT:  vta.gemm reset uops [0, 1] loops [1, 8] dst [0, 1] src [0, 1] wgt [0, 0]
// CHECK-NEXT:  vta.load inp[0] from %x[0] size [3, 4] pads [1, 0, 1, 1]
// CHECK-NEXT:  vta.load wgt[0] from %w[0] size [1, 9]
// CHECK-NEXT:  vta.load uop[1] from [[TABLE]][1] size [1, 8]
// CHECK-NEXT:  vta.gemm uops [1, 9] loops [3, 3] dst [0, 0] src [6, 1] wgt [3, 1]
// CHECK-NEXT:  vta.load acc[16] from %b[0] size [1, 1]
// CHECK-NEXT:  vta.load uop[9] from [[TABLE]][9] size [1, 1]
// CHECK-NEXT:  vta.alu add uops [9, 10] loops [1, 8] dst [0, 1] src [0, 0]
// CHECK-SAME:  loc(callsite("Add_1" at "tile 0"))
// CHECK-NEXT:  vta.alu shr imm -2 uops [0, 1] loops [1, 8] dst [0, 1] src [0, 1]
// CHECK-NEXT:  vta.alu min imm 127 uops [0, 1] loops [1, 8] dst [0, 1] src [0, 1]
// CHECK-NEXT:  vta.store acc[0] to %y[0] size [1, 8]
// CHECK-NEXT:  vta.load uop[10] from [[TABLE]][10] size [1, 1]
// CHECK-NEXT:  vta.gemm reset uops [10, 11] loops [1, 8] dst [0, 1] src [0, 1] wgt [0, 0]
// CHECK-NEXT:  vta.load inp[24] from %x[4] size [3, 4] pads [0, 1, 1, 1]
// CHECK-NEXT:  vta.load wgt[9] from %w[0] size [1, 9]
// CHECK:       vta.store acc[8] to %y[8] size [1, 8]
// CHECK-SAME:  loc(callsite("Conv_0" at "tile 1"))
// CHECK-NEXT:  vta.finish
// CHECK-NEXT:  func.return
func.func @conv(%x: memref<1x1x4x4x16xi8>, %y: memref<1x1x4x4x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  %w = tir.constant <"w" : tensor<1x1x3x3x16x16xi8>> : memref<1x1x3x3x16x16xi8>
  %b = tir.constant <"b" : tensor<1x16xi32>> : memref<1x16xi32>
  byoc.composite "vta.conv" at "graph" (%in = %x : memref<1x1x4x4x16xi8>, %k = %w : memref<1x1x3x3x16x16xi8>, %bias = %b : memref<1x16xi32>, %out = %y : memref<1x1x4x4x16xi8>) {
    %0 = arith.constant 0 : index
    %1 = arith.constant 1 : index
    %2 = arith.constant 2 : index
    %m1 = arith.constant -1 : index
    tir.for %h = 0 to 2 serial {
      %h0 = arith.muli %h, %2 : index
      %top = arith.subi %h0, %1 : index
      %acc = tir.alloc : memref<1x1x2x4x16xi32, "vta.acc">
      tir.fill 0 : i32 into %acc : memref<1x1x2x4x16xi32, "vta.acc">
      %inp = tir.alloc : memref<1x1x4x6x16xi8, "vta.inp">
      tir.copy %in[%0, %0, %top, %m1, %0] to %inp sizes [1, 1, 4, 6, 16] pad 0 : i8 : memref<1x1x4x4x16xi8> to memref<1x1x4x6x16xi8, "vta.inp">
      %wgt = tir.alloc : memref<1x1x3x3x16x16xi8, "vta.wgt">
      tir.copy %k to %wgt sizes [1, 1, 3, 3, 16, 16] : memref<1x1x3x3x16x16xi8> to memref<1x1x3x3x16x16xi8, "vta.wgt">
      tir.block [n: 1, o: 1, h: 2, w: 4, ol: 16 | c: 1, r: 3, s: 3, il: 16]
          ins(%inp[n, c, h + r, w + s, il] : memref<1x1x4x6x16xi8, "vta.inp">, %wgt[o, c, r, s, ol, il] : memref<1x1x3x3x16x16xi8, "vta.wgt">)
          outs(%acc[n, o, h, w, ol] : memref<1x1x2x4x16xi32, "vta.acc">) {
      ^bb0(%a: i8, %c: i8, %d: i32):
        %e = arith.extsi %a : i8 to i32
        %f = arith.extsi %c : i8 to i32
        %g = arith.muli %e, %f : i32
        %s = arith.addi %d, %g : i32
        tir.yield %s : i32
      }
      %bs = tir.alloc : memref<1x16xi32, "vta.acc">
      tir.copy %bias to %bs sizes [1, 16] : memref<1x16xi32> to memref<1x16xi32, "vta.acc"> loc("Add_1")
      tir.block [n: 1, c: 1, h: 2, w: 4, l: 16] ins(%bs[c, l] : memref<1x16xi32, "vta.acc">) outs(%acc[n, c, h, w, l] : memref<1x1x2x4x16xi32, "vta.acc">) {
      ^bb0(%a: i32, %d: i32):
        %s = arith.addi %d, %a : i32
        tir.yield %s : i32
      } loc("Add_1")
      tir.block [n: 1, c: 1, h: 2, w: 4, l: 16] outs(%acc[n, c, h, w, l] : memref<1x1x2x4x16xi32, "vta.acc">) {
      ^bb0(%d: i32):
        %n = arith.constant 2 : i32
        %s = arith.shli %d, %n : i32
        tir.yield %s : i32
      }
      tir.block [n: 1, c: 1, h: 2, w: 4, l: 16] outs(%acc[n, c, h, w, l] : memref<1x1x2x4x16xi32, "vta.acc">) {
      ^bb0(%d: i32):
        %n = arith.constant 127 : i32
        %s = arith.minsi %d, %n : i32
        tir.yield %s : i32
      }
      tir.copy %acc to %out[%0, %0, %h0, %0, %0] sizes [1, 1, 2, 4, 16] : memref<1x1x2x4x16xi32, "vta.acc"> to memref<1x1x4x4x16xi8>
    }
    byoc.yield
  } loc("Conv_0")
  func.return
}
