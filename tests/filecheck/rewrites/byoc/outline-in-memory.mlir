// RUN: byocir-opt -p outline-regions %s | filecheck %s

// What a region in memory writes comes behind what it only reads, and its function counts the
// latter: (a, c, b) -> (a, b, c).
// CHECK:       byoc.call @npu_0(%a, %b, %c)
// CHECK:       func.func private @npu_0(%[[A:.*]]: memref<4xi32>, %[[B:.*]]: memref<4xi32>, %[[C:.*]]: memref<4xi32>) attributes {byoc.target = #byoc.target<"npu", {}>, inputs = 2 : i64} {
// CHECK:         byoc.composite "npu.sums" at "tensor" (%{{.*}} = %[[A]] : memref<4xi32>, %{{.*}} = %[[C]] : memref<4xi32>, %{{.*}} = %[[B]] : memref<4xi32>)
func.func @main(%a: memref<4xi32>, %b: memref<4xi32>, %c: memref<4xi32>) {
  byoc.region #byoc.target<"npu", {}> (%x = %a : memref<4xi32>, %z = %c : memref<4xi32>, %y = %b : memref<4xi32>) {
    byoc.composite "npu.sums" at "tensor" (%1 = %x : memref<4xi32>, %3 = %z : memref<4xi32>, %2 = %y : memref<4xi32>) {
      tir.block [i: 4] ins(%1[i] : memref<4xi32>, %2[i] : memref<4xi32>) outs(%3[i] : memref<4xi32>) {
      ^bb0(%p: i32, %q: i32, %old: i32):
        %s = arith.addi %p, %q : i32
        tir.yield %s : i32
      }
      byoc.yield
    }
    byoc.yield
  }
  func.return
}
