// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s
// One op in many dresses: value and buffer form, pads, bases, a guard, indices that divide.

func.func @value_form(%a: tensor<4x16xi8>, %b: tensor<16x8xi8>, %zero: tensor<4x8xi32>) -> tensor<4x8xi32> {
  %y = tir.block [m: 4, n: 8 | k: 16] ins(%a[m, k] : tensor<4x16xi8>, %b[k, n] : tensor<16x8xi8>) outs(%zero[m, n] : tensor<4x8xi32>) {
  ^bb0(%x: i8, %w: i8, %acc: i32):
    %0 = arith.extsi %x : i8 to i32
    %1 = arith.extsi %w : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    tir.yield %3 : i32
  }
  func.return %y : tensor<4x8xi32>
}

// CHECK-LABEL: @value_form
// CHECK: tir.block [m: 4, n: 8 | k: 16] ins(%a[m, k] : tensor<4x16xi8>, %b[k, n] : tensor<16x8xi8>) outs(%zero[m, n] : tensor<4x8xi32>) {
// CHECK-NEXT: ^bb0(%x: i8, %w: i8, %acc: i32):
// CHECK: tir.yield %{{.*}} : i32

func.func @padded(%x: tensor<1x8x8xf32>, %out: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = tir.block [h: 4, w: 4 | r: 3, s: 3] ins(%x[0, h * 2 + r - 1, 2 * w + s + -1] pad 0xFF800000 : f32 : tensor<1x8x8xf32>) outs(%out[h, w] : tensor<4x4xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %0 = arith.maximumf %acc, %e : f32
    tir.yield %0 : f32
  }
  func.return %y : tensor<4x4xf32>
}

// Indices have one form.
// CHECK-LABEL: @padded
// CHECK: ins(%x[0, 2 * h + r - 1, 2 * w + s - 1] pad 0xff800000 : f32 : tensor<1x8x8xf32>)

func.func @buffer_form(%x: memref<16xi8>, %y: memref<16xi8, "fast">, %i: index) {
  tir.block [a: 4] at(%i) ins(%x[a] : memref<16xi8>) outs(%y[15 - a] : memref<16xi8, "fast">) where(a - 1 >= 0, 13 - 2 * a >= 0) attributes {note} {
  ^bb0(%e: i8, %old: i8):
    tir.yield %e : i8
  }
  func.return
}

// CHECK-LABEL: @buffer_form
// CHECK: tir.block [a: 4] at(%i) ins(%x[a] : memref<16xi8>) outs(%y[-a + 15] : memref<16xi8, "fast">) where(a - 1 >= 0, -2 * a + 13 >= 0) attributes {note} {

func.func @division(%x: tensor<2x3xi1>, %out: tensor<6xi1>) -> tensor<6xi1> {
  %y = tir.block [i: 6] ins(%x[i floordiv 3, i mod 3] : tensor<2x3xi1>) outs(%out[i] : tensor<6xi1>) {
  ^bb0(%e: i1, %old: i1):
    tir.yield %e : i1
  }
  func.return %y : tensor<6xi1>
}

// CHECK-LABEL: @division
// CHECK: ins(%x[i floordiv 3, i mod 3] : tensor<2x3xi1>)

func.func @no_inputs(%out: tensor<f32>, %many: tensor<2xi32>) -> (tensor<f32>, tensor<2xi32>) {
  %y = tir.block [] outs(%out[] : tensor<f32>) {
  ^bb0(%old: f32):
    %0 = math.exp %old : f32
    tir.yield %0 : f32
  }
  %z = tir.block [k: 3 reduction, i: 2] outs(%many[i] : tensor<2xi32>) {
  ^bb0(%old: i32):
    %0 = arith.addi %old, %old : i32
    tir.yield %0 : i32
  }
  func.return %y, %z : tensor<f32>, tensor<2xi32>
}

// CHECK-LABEL: @no_inputs
// CHECK: tir.block [] outs(%out[] : tensor<f32>) {
// CHECK: tir.block [k: 3 reduction, i: 2] outs(%many[i] : tensor<2xi32>) {

func.func @two_results(%x: tensor<4xf32>, %a: tensor<4xf32>, %b: tensor<1xi32>) -> (tensor<4xf32>, tensor<1xi32>) {
  %y:2 = tir.block [i: 4] ins(%x[i] : tensor<4xf32>) outs(%a[3 - i] : tensor<4xf32>, %b[0] : tensor<1xi32>) {
  ^bb0(%e: f32, %old: f32, %last: i32):
    tir.yield %e, %last : f32, i32
  }
  func.return %y#0, %y#1 : tensor<4xf32>, tensor<1xi32>
}

// CHECK-LABEL: @two_results
// CHECK: %{{.*}}, %{{.*}} = tir.block [i: 4] ins(%x[i] : tensor<4xf32>) outs(%a[-i + 3] : tensor<4xf32>, %b[0] : tensor<1xi32>) {

func.func @look_up(%i: tensor<4xi64>, %c: tensor<8xi64>, %t: tensor<100x8xf32>, %e: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tir.block [m: 4, n: 8] ins(%i[m] : tensor<4xi64>, %c[n] : tensor<8xi64>, %t : tensor<100x8xf32>) outs(%e[m, n] : tensor<4x8xf32>) {
  ^bb0(%row: i64, %column: i64, %table: tensor<100x8xf32>, %o: f32):
    %v = tir.read %table[%row, %column] : tensor<100x8xf32> -> f32
    tir.yield %v : f32
  }
  func.return %y : tensor<4x8xf32>
}

// CHECK-LABEL: @look_up
// CHECK-NEXT: %y = tir.block [m: 4, n: 8] ins(%i[m] : tensor<4xi64>, %c[n] : tensor<8xi64>, %t : tensor<100x8xf32>) outs(%e[m, n] : tensor<4x8xf32>) {
// CHECK-NEXT: ^bb0(%row: i64, %column: i64, %table: tensor<100x8xf32>, %o: f32):
// CHECK-NEXT: %v = tir.read %table[%row, %column] : tensor<100x8xf32> -> f32
