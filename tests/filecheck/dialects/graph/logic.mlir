// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @logic(%f32: tensor<2x3xf32>, %f32v: tensor<3xf32>, %i1: tensor<2x3xi1>, %i1v: tensor<3xi1>, %ui8: tensor<2x3xui8>, %ui8v: tensor<3xui8>) {
  %0 = graph.equal %f32, %f32v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %1 = graph.less %f32, %f32v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %2 = graph.less_or_equal %f32, %f32v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %3 = graph.greater %f32, %f32v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %4 = graph.greater_or_equal %f32, %f32v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %5 = graph.equal %i1, %i1v : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
  %6 = graph.and %i1, %i1v : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
  %7 = graph.or %i1, %i1v : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
  %8 = graph.xor %i1, %i1v : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
  %9 = graph.bitwise_and %ui8, %ui8v : (tensor<2x3xui8>, tensor<3xui8>) -> tensor<2x3xui8>
  %10 = graph.bitwise_or %ui8, %ui8v : (tensor<2x3xui8>, tensor<3xui8>) -> tensor<2x3xui8>
  %11 = graph.bitwise_xor %ui8, %ui8v : (tensor<2x3xui8>, tensor<3xui8>) -> tensor<2x3xui8>
  %12 = graph.bit_shift %ui8, %ui8v {direction = "LEFT"} : (tensor<2x3xui8>, tensor<3xui8>) -> tensor<2x3xui8>
  %13 = graph.not %i1 : (tensor<2x3xi1>) -> tensor<2x3xi1>
  %14 = graph.bitwise_not %ui8 : (tensor<2x3xui8>) -> tensor<2x3xui8>
  %15 = graph.is_nan %f32 : (tensor<2x3xf32>) -> tensor<2x3xi1>
  %16 = graph.is_inf %f32 {detect_negative = 1 : i64, detect_positive = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xi1>
  func.return
}

// CHECK: %0 = graph.equal %f32, %f32v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
// CHECK-NEXT: %1 = graph.less %f32, %f32v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
// CHECK-NEXT: %2 = graph.less_or_equal %f32, %f32v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
// CHECK-NEXT: %3 = graph.greater %f32, %f32v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
// CHECK-NEXT: %4 = graph.greater_or_equal %f32, %f32v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
// CHECK-NEXT: %5 = graph.equal %i1, %i1v : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
// CHECK-NEXT: %6 = graph.and %i1, %i1v : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
// CHECK-NEXT: %7 = graph.or %i1, %i1v : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
// CHECK-NEXT: %8 = graph.xor %i1, %i1v : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
// CHECK-NEXT: %9 = graph.bitwise_and %ui8, %ui8v : (tensor<2x3xui8>, tensor<3xui8>) -> tensor<2x3xui8>
// CHECK-NEXT: %10 = graph.bitwise_or %ui8, %ui8v : (tensor<2x3xui8>, tensor<3xui8>) -> tensor<2x3xui8>
// CHECK-NEXT: %11 = graph.bitwise_xor %ui8, %ui8v : (tensor<2x3xui8>, tensor<3xui8>) -> tensor<2x3xui8>
// CHECK-NEXT: %12 = graph.bit_shift %ui8, %ui8v {direction = "LEFT"} : (tensor<2x3xui8>, tensor<3xui8>) -> tensor<2x3xui8>
// CHECK-NEXT: %13 = graph.not %i1 : (tensor<2x3xi1>) -> tensor<2x3xi1>
// CHECK-NEXT: %14 = graph.bitwise_not %ui8 : (tensor<2x3xui8>) -> tensor<2x3xui8>
// CHECK-NEXT: %15 = graph.is_nan %f32 : (tensor<2x3xf32>) -> tensor<2x3xi1>
// CHECK-NEXT: %16 = graph.is_inf %f32 {detect_negative = 1 : i64, detect_positive = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xi1>
