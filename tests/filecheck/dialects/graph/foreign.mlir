// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @f(%x: tensor<?x3xf32>, %c: tensor<i1>, %s: tensor<*x!graph.string>, %q: !graph.sequence<tensor<?xf32>>, %m: !graph.map<i64, tensor<f32>>, %o: !graph.optional<tensor<2xcomplex<f32>>>, %u: !graph.unknown, %sp: !graph.sparse<tensor<4x4xf32>>) {
  %0 = graph.foreign "ai.onnx.ml" "Scaler" 1 (%x) {scale = #graph.floats<#graph.array<[0.5, inf] : tensor<2xf32>>>} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %1, %2 = graph.foreign "Foo" 21 (%x, none, %x, none) {a = 1 : i64, b = 0.1 : f32, c = "text\0A\"", d = array<i64: 1, 2>, e = ["a", "b"], f = #graph.array<[1, 2] : tensor<2xi8>>, g = #graph.strings<[2], ["x", "y\22"]>, h = tensor<?xf32>, "odd name" = !graph.sequence<tensor<f32>>, z = "\FF\00"} : (tensor<?x3xf32>, tensor<?x3xf32>) -> (tensor<?x3xf32>, !graph.unknown) outputs array<i64: 0, 1, 1> because "expected x, found y"
  %3 = graph.foreign "If" 21 (%c) {} : (tensor<i1>) -> tensor<?x3xf32> "then_branch" {
    graph.yield %x : tensor<?x3xf32>
  } "else_branch" {
    %4 = graph.foreign "Abs" 13 (%x) {} : (tensor<?x3xf32>) -> tensor<?x3xf32>
    graph.yield %4 : tensor<?x3xf32>
  }
  %5 = graph.foreign "Loop" 21 (none, %c, %x) {} : (tensor<i1>, tensor<?x3xf32>) -> tensor<?x3xf32> "body" {
  ^bb0(%i : tensor<i64>, %d : tensor<i1>, %v : tensor<?x3xf32>):
    graph.yield %d, %v : tensor<i1>, tensor<?x3xf32>
  }
  %6 = graph.constant #graph.array<[1, -2] : tensor<2xi4>>
  %7 = graph.constant #graph.array<[0.5] : tensor<1xf8E4M3FN>>
  func.return
}

// CHECK: func.func @f(%x: tensor<?x3xf32>, %c: tensor<i1>, %s: tensor<*x!graph.string>, %q: !graph.sequence<tensor<?xf32>>, %m: !graph.map<i64, tensor<f32>>, %o: !graph.optional<tensor<2xcomplex<f32>>>, %u: !graph.unknown, %sp: !graph.sparse<tensor<4x4xf32>>) {
// CHECK-NEXT: %0 = graph.foreign "ai.onnx.ml" "Scaler" 1 (%x) {scale = #graph.floats<#graph.array<[0.5, inf] : tensor<2xf32>>>} : (tensor<?x3xf32>) -> tensor<?x3xf32>
// CHECK-NEXT: %1, %2 = graph.foreign "Foo" 21 (%x, none, %x, none) {a = 1 : i64, b = 1.000000e-01 : f32, c = "text\0A\22", d = array<i64: 1, 2>, e = ["a", "b"], f = #graph.array<[1, 2] : tensor<2xi8>>, g = #graph.strings<[2], ["x", "y\22"]>, h = tensor<?xf32>, "odd name" = !graph.sequence<tensor<f32>>, z = "\FF\00"} : (tensor<?x3xf32>, tensor<?x3xf32>) -> (tensor<?x3xf32>, !graph.unknown) outputs array<i64: 0, 1, 1> because "expected x, found y"
// CHECK-NEXT: %3 = graph.foreign "If" 21 (%c) {} : (tensor<i1>) -> tensor<?x3xf32> "then_branch" {
// CHECK-NEXT: graph.yield %x : tensor<?x3xf32>
// CHECK-NEXT: } "else_branch" {
// CHECK-NEXT: %4 = graph.foreign "Abs" 13 (%x) {} : (tensor<?x3xf32>) -> tensor<?x3xf32>
// CHECK-NEXT: graph.yield %4 : tensor<?x3xf32>
// CHECK: %5 = graph.foreign "Loop" 21 (none, %c, %x) {} : (tensor<i1>, tensor<?x3xf32>) -> tensor<?x3xf32> "body" {
// CHECK-NEXT: ^bb0(%i: tensor<i64>, %d: tensor<i1>, %v: tensor<?x3xf32>):
// CHECK-NEXT: graph.yield %d, %v : tensor<i1>, tensor<?x3xf32>
// CHECK: %6 = graph.constant #graph.array<[1, -2] : tensor<2xi4>>
// CHECK-NEXT: %7 = graph.constant #graph.array<[0.5] : tensor<1xf8E4M3FN>>
