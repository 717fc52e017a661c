// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s
// An array whose values are not given is legal: only its digest prints.

func.func @const() {
  %0 = graph.constant #graph.array<[1, -2] : tensor<2xi8>>
  %1 = graph.constant #graph.array<[inf, -inf, nan, -0.0, 0.5] : tensor<5xf32>>
  %2 = graph.constant #graph.array<[1, 0] : tensor<2xi1>>
  %3 = graph.constant #graph.array<[] : tensor<0x3xf32>>
  %4 = graph.constant #graph.array<[7] : tensor<i64>>
  %5 = graph.constant #graph.array<"00112233445566778899aabbccddeeff" : tensor<64x64x3x3xi8>>
  %6 = graph.constant #graph.array<[1.5] : tensor<1xf32>> {note = 1 : i64}
  func.return
}

// CHECK: %0 = graph.constant #graph.array<[1, -2] : tensor<2xi8>>
// CHECK-NEXT: %1 = graph.constant #graph.array<[inf, -inf, nan, -0.0, 0.5] : tensor<5xf32>>
// CHECK-NEXT: %2 = graph.constant #graph.array<[1, 0] : tensor<2xi1>>
// CHECK-NEXT: %3 = graph.constant #graph.array<[] : tensor<0x3xf32>>
// CHECK-NEXT: %4 = graph.constant #graph.array<[7] : tensor<i64>>
// CHECK-NEXT: %5 = graph.constant #graph.array<"00112233445566778899aabbccddeeff" : tensor<64x64x3x3xi8>>
// CHECK-NEXT: %6 = graph.constant #graph.array<[1.5] : tensor<1xf32>> {note = 1 : i64}
