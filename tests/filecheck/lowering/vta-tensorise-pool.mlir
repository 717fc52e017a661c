// RUN: byocir-opt %s -p vta-tensorise | filecheck %s

// A 2x2 maximum at stride 2 whose windows reach over the left edge: the points outside are left out,
// so the left column takes its own instruction. The fill, -2^31, is -1 shifted left, by 16 at a time.

// CHECK-LABEL: func.func @pool
// CHECK:       [[TABLE:%.+]] = tir.constant
// CHECK-NEXT:  vta.load acc8[0] from %x[0] size [1, 4]
// CHECK-NEXT:  vta.load uop[0]
// CHECK-NEXT:  vta.gemm reset uops [0, 1] loops [1, 3]
// CHECK-NEXT:  vta.alu add imm -1 uops [0, 1]
// CHECK-NEXT:  vta.alu shr imm -16 uops [0, 1]
// CHECK-NEXT:  vta.alu shr imm -15 uops [0, 1]
// CHECK-NEXT:  vta.load uop[1]
// CHECK-NEXT:  vta.alu max uops [1, 2] loops [1, 2] dst [0, 1] src [0, 2]
// CHECK-NEXT:  vta.load uop[2]
// CHECK-NEXT:  vta.alu max uops [2, 3] loops [1, 2] dst [0, 1] src [0, 2]
// CHECK-NEXT:  vta.store acc[4] to %y[0] size [1, 3]
// CHECK-NEXT:  vta.finish
func.func @pool(%x: memref<4x16xi8>, %y: memref<3x16xi8>) attributes {byoc.target = #byoc.target<"vta", {}>} {
  byoc.composite "vta.max_pool" at "graph" (%in = %x : memref<4x16xi8>, %out = %y : memref<3x16xi8>) {
    %tile = tir.alloc : memref<4x16xi32, "vta.acc">
    tir.copy %in to %tile sizes [4, 16] : memref<4x16xi8> to memref<4x16xi32, "vta.acc">
    %acc = tir.alloc : memref<3x16xi32, "vta.acc">
    tir.fill -2147483648 : i32 into %acc : memref<3x16xi32, "vta.acc">
    tir.block [w: 3, l: 16 | s: 2] ins(%tile[2 * w + s - 1, l] : memref<4x16xi32, "vta.acc">) outs(%acc[w, l] : memref<3x16xi32, "vta.acc">) where(2 * w + s - 1 >= 0, 4 - 2 * w - s >= 0) {
    ^bb0(%a: i32, %d: i32):
      %s = arith.maxsi %d, %a : i32
      tir.yield %s : i32
    }
    tir.copy %acc to %out sizes [3, 16] : memref<3x16xi32, "vta.acc"> to memref<3x16xi8>
    byoc.yield
  } loc("MaxPool_0")
  func.return
}
