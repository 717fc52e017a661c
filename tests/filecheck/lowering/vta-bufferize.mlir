// RUN: byocir-opt --no-debuginfo -p vta-bufferize %s | filecheck %s

// What passes between composites is in main memory; the result goes to the last argument.
// CHECK-LABEL: func.func @two(%x: memref<1x1x16xi8>, %{{.*}}: memref<1x1x16xi8>)
// CHECK-NEXT:    %[[MID:.*]] = tir.alloc : memref<1x1x16xi8>
// CHECK-NEXT:    byoc.composite "vta.a" at "graph" (%{{.*}} = %x : memref<1x1x16xi8>, %[[OUT:.*]] = %[[MID]] : memref<1x1x16xi8>) {
// CHECK-NEXT:      %[[ACC:.*]] = tir.alloc : memref<1x1x16xi32>
// CHECK-NEXT:      tir.block [n: 1, c: 1, l: 16] ins(%{{.*}}[n, c, l] : memref<1x1x16xi8>) outs(%[[ACC]][n, c, l] : memref<1x1x16xi32>)
// A value that is needed again is copied before it is updated.
// CHECK:           %[[COPY:.*]] = tir.alloc : memref<1x1x16xi32>
// CHECK-NEXT:      tir.fill 0 : i32 into %[[COPY]]
// CHECK-NEXT:      tir.block {{.*}} ins(%[[ACC]][{{.*}} outs(%[[COPY]]
// CHECK:             arith.addi
// CHECK:           tir.block {{.*}} outs(%[[COPY]]
// CHECK:             arith.muli
// CHECK:           tir.block {{.*}} ins(%[[COPY]][{{.*}} outs(%[[ACC]]
// CHECK:             arith.addi
// CHECK:           tir.block {{.*}} ins(%[[ACC]][n, c, l] : memref<1x1x16xi32>) outs(%[[OUT]][n, c, l] : memref<1x1x16xi8>)
// CHECK:         byoc.composite "vta.b" at "graph" (%{{.*}} = %[[MID]] : memref<1x1x16xi8>, %{{.*}} = %{{.*}} : memref<1x1x16xi8>)
// CHECK:         func.return
func.func @two(%x: tensor<1x1x16xi8>) -> tensor<1x1x16xi8> attributes {byoc.target = #byoc.target<"vta", {}>} {
  %y = byoc.composite "vta.a" at "graph" (%a = %x : tensor<1x1x16xi8>) -> tensor<1x1x16xi8> {
    %e = tir.empty : tensor<1x1x16xi32>
    %wide = tir.block [n: 1, c: 1, l: 16] ins(%a[n, c, l] : tensor<1x1x16xi8>) outs(%e[n, c, l] : tensor<1x1x16xi32>) {
    ^bb0(%p: i8, %r: i32):
      %0 = arith.extsi %p : i8 to i32
      tir.yield %0 : i32
    }
    %twice = tir.block [n: 1, c: 1, l: 16] outs(%wide[n, c, l] : tensor<1x1x16xi32>) {
    ^bb0(%r: i32):
      %k = arith.constant 2 : i32
      %0 = arith.muli %r, %k : i32
      tir.yield %0 : i32
    }
    %sum = tir.block [n: 1, c: 1, l: 16] ins(%twice[n, c, l] : tensor<1x1x16xi32>) outs(%wide[n, c, l] : tensor<1x1x16xi32>) {
    ^bb0(%p: i32, %r: i32):
      %0 = arith.addi %r, %p : i32
      tir.yield %0 : i32
    }
    %f = tir.empty : tensor<1x1x16xi8>
    %z = tir.block [n: 1, c: 1, l: 16] ins(%sum[n, c, l] : tensor<1x1x16xi32>) outs(%f[n, c, l] : tensor<1x1x16xi8>) {
    ^bb0(%p: i32, %r: i8):
      %0 = arith.trunci %p : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield %z : tensor<1x1x16xi8>
  }
  %u = byoc.composite "vta.b" at "graph" (%a = %y : tensor<1x1x16xi8>) -> tensor<1x1x16xi8> {
    %e = tir.empty : tensor<1x1x16xi32>
    %wide = tir.block [n: 1, c: 1, l: 16] ins(%a[n, c, l] : tensor<1x1x16xi8>) outs(%e[n, c, l] : tensor<1x1x16xi32>) {
    ^bb0(%p: i8, %r: i32):
      %0 = arith.extsi %p : i8 to i32
      tir.yield %0 : i32
    }
    %f = tir.empty : tensor<1x1x16xi8>
    %z = tir.block [n: 1, c: 1, l: 16] ins(%wide[n, c, l] : tensor<1x1x16xi32>) outs(%f[n, c, l] : tensor<1x1x16xi8>) {
    ^bb0(%p: i32, %r: i8):
      %0 = arith.trunci %p : i32 to i8
      tir.yield %0 : i8
    }
    byoc.yield %z : tensor<1x1x16xi8>
  }
  func.return %u : tensor<1x1x16xi8>
}
