// RUN: byocir-opt --no-debuginfo -p vta-legalise %s | filecheck %s

// A dense layer with relu: the bias times 9000 and the half that rounds are one operand, added behind
// the product; the relu and the lower clamp of the result are one; no accumulator's product leaves
// i32, so none is clamped before it; a machine that multiplies shifts by 20 in one step.
// CHECK-LABEL: @dense
// CHECK:         %[[W:.*]] = tir.constant {{.*}} : tensor<3x2xi8>
// CHECK-NEXT:    %[[ZERO:.*]] = tir.fill 0 : i32 : tensor<1x2xi32>
// CHECK-NEXT:    %[[ACC:.*]] = tir.block [n: 1, m: 2 | k: 3] ins({{.*}}[n, k] : tensor<1x3xi8>, %[[W]][k, m] : tensor<3x2xi8>) outs(%[[ZERO]][n, m]
// CHECK:         %[[PRODUCT:.*]] = tir.block [n: 1, c: 2] outs(%[[ACC]][n, c]
// CHECK:           arith.constant 9000 : i32
// CHECK-NEXT:      arith.muli
// CHECK:         %[[B:.*]] = tir.constant <[630524288, 479288] : tensor<2xi32>>
// CHECK-NEXT:    tir.block [n: 1, c: 2] ins(%[[B]][c] : tensor<2xi32>) outs(%[[PRODUCT]][n, c]
// CHECK:           arith.addi
// CHECK:         arith.constant 20 : i32
// CHECK-NEXT:      arith.shrsi
// CHECK:         arith.constant 0 : i32
// CHECK-NEXT:      arith.maxsi
// CHECK:         arith.constant 127 : i32
// CHECK-NEXT:      arith.minsi
// CHECK:         tir.empty : tensor<1x2xi8>
// CHECK-NEXT:    tir.block
// CHECK:           arith.trunci
// CHECK:         byoc.yield
func.func @dense(%x: tensor<1x3xi8>) -> tensor<1x2xi8> attributes {byoc.target = #byoc.target<"vta", {}>} {
  %y = byoc.composite "vta.dense" at "graph" (%a = %x : tensor<1x3xi8>) -> tensor<1x2xi8> {
    %w = tir.constant <[1, 2, 3, 4, 5, 6] : tensor<3x2xi8>> : tensor<3x2xi8>
    %zero = tir.fill 0 : i32 : tensor<1x2xi32>
    %acc = tir.block [n: 1, m: 2 | k: 3] ins(%a[n, k] : tensor<1x3xi8>, %w[k, m] : tensor<3x2xi8>) outs(%zero[n, m] : tensor<1x2xi32>) {
    ^bb0(%p: i8, %q: i8, %r: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.extsi %q : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %r, %2 : i32
      tir.yield %3 : i32
    }
    %b = tir.constant <[70000, -5] : tensor<2xi32>> : tensor<2xi32>
    %e0 = tir.empty : tensor<1x2xi32>
    %sum = tir.block [i: 1, j: 2] ins(%acc[i, j] : tensor<1x2xi32>, %b[j] : tensor<2xi32>) outs(%e0[i, j] : tensor<1x2xi32>) {
    ^bb0(%p: i32, %q: i32, %r: i32):
      %0 = arith.addi %p, %q : i32
      tir.yield %0 : i32
    }
    %relu = tir.block [i: 1, j: 2] ins(%sum[i, j] : tensor<1x2xi32>) outs(%e0[i, j] : tensor<1x2xi32>) {
    ^bb0(%p: i32, %r: i32):
      %c = arith.constant 0 : i32
      %0 = arith.maxsi %p, %c : i32
      tir.yield %0 : i32
    }
    %m = tir.constant <[9000] : tensor<i32>> : tensor<i32>
    %e1 = tir.empty : tensor<1x2xi8>
    %q8 = tir.block [i: 1, j: 2] ins(%relu[i, j] : tensor<1x2xi32>, %m[] : tensor<i32>) outs(%e1[i, j] : tensor<1x2xi8>) {
    ^bb0(%p: i32, %f: i32, %r: i8):
      %0 = arith.extsi %p : i32 to i64
      %1 = arith.extsi %f : i32 to i64
      %2 = arith.muli %0, %1 : i64
      %half = arith.constant 524288 : i64
      %3 = arith.addi %2, %half : i64
      %s = arith.constant 20 : i64
      %4 = arith.shrsi %3, %s : i64
      %low = arith.constant -128 : i64
      %5 = arith.maxsi %4, %low : i64
      %high = arith.constant 127 : i64
      %6 = arith.minsi %5, %high : i64
      %7 = arith.trunci %6 : i64 to i8
      tir.yield %7 : i8
    }
    byoc.yield %q8 : tensor<1x2xi8>
  }
  func.return %y : tensor<1x2xi8>
}

// Another target's function stays as it is.
// CHECK-LABEL: @other
// CHECK:         arith.maxsi
// CHECK:         i8
// CHECK-NOT:     arith.trunci
func.func @other(%x: tensor<1x3xi8>) -> tensor<1x3xi8> attributes {byoc.target = #byoc.target<"npu", {}>} {
  %y = byoc.composite "npu.relu" at "graph" (%a = %x : tensor<1x3xi8>) -> tensor<1x3xi8> {
    %e = tir.empty : tensor<1x3xi8>
    %0 = tir.block [i: 1, j: 3] ins(%a[i, j] : tensor<1x3xi8>) outs(%e[i, j] : tensor<1x3xi8>) {
    ^bb0(%p: i8, %r: i8):
      %c = arith.constant 0 : i8
      %1 = arith.maxsi %p, %c : i8
      tir.yield %1 : i8
    }
    byoc.yield %0 : tensor<1x3xi8>
  }
  func.return %y : tensor<1x3xi8>
}

// The maxima of what is requantised are those of the sums: fewer are requantised. A number that
// no sum is below begins each; a guard leaves out what is outside of the sums.
// CHECK-LABEL: @conv_pool
// CHECK:         %[[SUMS:.*]] = tir.block [n: 1, o: 3, h: 5 | c: 2]
// CHECK:         %[[LEAST:.*]] = tir.fill -1408 : i32 : tensor<1x3x3xi32>
// CHECK-NEXT:    %[[MAX:.*]] = tir.block [n: 1, c: 3, h: 3 | r: 3] ins(%[[SUMS]][n, c, 2 * h + r - 1] : tensor<1x3x5xi32>) outs(%[[LEAST]][n, c, h] : tensor<1x3x3xi32>) where(2 * h + r - 1 >= 0, -2 * h - r + 5 >= 0) {
// CHECK:           arith.maxsi
// CHECK:         tir.block [n: 1, c: 3, d0: 3] outs(%[[MAX]]
// CHECK:           arith.muli
// CHECK:           arith.shrsi
func.func @conv_pool(%x: tensor<1x2x5xi8>) -> tensor<1x3x3xi8> attributes {byoc.target = #byoc.target<"vta", {}>} {
  %y = byoc.composite "vta.conv_pool" at "graph" (%a = %x : tensor<1x2x5xi8>) -> tensor<1x3x3xi8> {
    %w = tir.constant <[1, 2, 3, 4, 5, 6] : tensor<3x2xi8>> : tensor<3x2xi8>
    %zero = tir.fill 0 : i32 : tensor<1x3x5xi32>
    %acc = tir.block [n: 1, o: 3, h: 5 | c: 2] ins(%a[n, c, h] : tensor<1x2x5xi8>, %w[o, c] : tensor<3x2xi8>) outs(%zero[n, o, h] : tensor<1x3x5xi32>) {
    ^bb0(%p: i8, %q: i8, %r: i32):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.extsi %q : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %r, %2 : i32
      tir.yield %3 : i32
    }
    %m = tir.constant <[3] : tensor<i32>> : tensor<i32>
    %e = tir.empty : tensor<1x3x5xi8>
    %q8 = tir.block [i: 1, j: 3, k: 5] ins(%acc[i, j, k] : tensor<1x3x5xi32>, %m[] : tensor<i32>) outs(%e[i, j, k] : tensor<1x3x5xi8>) {
    ^bb0(%p: i32, %f: i32, %r: i8):
      %0 = arith.extsi %p : i32 to i64
      %1 = arith.extsi %f : i32 to i64
      %2 = arith.muli %0, %1 : i64
      %s = arith.constant 4 : i64
      %4 = arith.shrsi %2, %s : i64
      %low = arith.constant -128 : i64
      %5 = arith.maxsi %4, %low : i64
      %high = arith.constant 127 : i64
      %6 = arith.minsi %5, %high : i64
      %7 = arith.trunci %6 : i64 to i8
      tir.yield %7 : i8
    }
    %least = tir.fill -128 : i8 : tensor<1x3x3xi8>
    %max = tir.block [n: 1, c: 3, h: 3 | r: 3] ins(%q8[n, c, h * 2 + r - 1] pad -128 : i8 : tensor<1x3x5xi8>) outs(%least[n, c, h] : tensor<1x3x3xi8>) {
    ^bb0(%p: i8, %r: i8):
      %0 = arith.maxsi %r, %p : i8
      tir.yield %0 : i8
    }
    byoc.yield %max : tensor<1x3x3xi8>
  }
  func.return %y : tensor<1x3x3xi8>
}
