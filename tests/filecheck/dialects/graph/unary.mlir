// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @unary(%x: tensor<2x3xf32>, %i: tensor<2x3xi32>) {
  %0 = graph.abs %i : (tensor<2x3xi32>) -> tensor<2x3xi32>
  %1 = graph.neg %i : (tensor<2x3xi32>) -> tensor<2x3xi32>
  %2 = graph.sign %i : (tensor<2x3xi32>) -> tensor<2x3xi32>
  %3 = graph.relu %i : (tensor<2x3xi32>) -> tensor<2x3xi32>
  %4 = graph.floor %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = graph.ceil %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = graph.round %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = graph.sqrt %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %8 = graph.reciprocal %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %9 = graph.exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %10 = graph.log %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %11 = graph.erf %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %12 = graph.sin %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %13 = graph.cos %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %14 = graph.tan %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %15 = graph.asin %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %16 = graph.acos %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %17 = graph.atan %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %18 = graph.sinh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %19 = graph.cosh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %20 = graph.tanh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %21 = graph.asinh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %22 = graph.acosh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %23 = graph.atanh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %24 = graph.sigmoid %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %25 = graph.softplus %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %26 = graph.softsign %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %27 = graph.mish %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %28 = graph.hard_swish %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK: %0 = graph.abs %i : (tensor<2x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %1 = graph.neg %i : (tensor<2x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %2 = graph.sign %i : (tensor<2x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %3 = graph.relu %i : (tensor<2x3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %4 = graph.floor %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %5 = graph.ceil %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %6 = graph.round %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %7 = graph.sqrt %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %8 = graph.reciprocal %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %9 = graph.exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %10 = graph.log %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %11 = graph.erf %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %12 = graph.sin %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %13 = graph.cos %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %14 = graph.tan %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %15 = graph.asin %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %16 = graph.acos %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %17 = graph.atan %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %18 = graph.sinh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %19 = graph.cosh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %20 = graph.tanh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %21 = graph.asinh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %22 = graph.acosh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %23 = graph.atanh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %24 = graph.sigmoid %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %25 = graph.softplus %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %26 = graph.softsign %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %27 = graph.mish %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %28 = graph.hard_swish %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
