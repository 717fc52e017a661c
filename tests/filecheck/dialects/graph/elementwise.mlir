// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @elementwise(%x: tensor<2x3xf32>, %v: tensor<3xf32>, %i: tensor<2x1xi32>, %j: tensor<3xi32>, %b: tensor<2x3xi8>, %c: tensor<2x1xi1>) {
  %0 = graph.add %i, %j : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
  %1 = graph.sub %x, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %2 = graph.mul %x, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %3 = graph.div %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = graph.relu %i : (tensor<2x1xi32>) -> tensor<2x1xi32>
  %5 = graph.clip %x {min = #graph.array<[0.0] : tensor<f32>>, max = #graph.array<[inf] : tensor<f32>>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = graph.clip %b {max = #graph.array<[6] : tensor<i8>>} : (tensor<2x3xi8>) -> tensor<2x3xi8>
  %7 = graph.clip %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %8 = graph.max %x, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %9 = graph.min %x, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %10 = graph.mod %i, %j {fmod = 0 : i64} : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
  %11 = graph.pow %x, %j : (tensor<2x3xf32>, tensor<3xi32>) -> tensor<2x3xf32>
  %12 = graph.where %c, %x, %v : (tensor<2x1xi1>, tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %13 = graph.cast %x {to = ui8} : (tensor<2x3xf32>) -> tensor<2x3xui8>
  func.return
}

// CHECK: %0 = graph.add %i, %j : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %1 = graph.sub %x, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %2 = graph.mul %x, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %3 = graph.div %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %4 = graph.relu %i : (tensor<2x1xi32>) -> tensor<2x1xi32>
// CHECK-NEXT: %5 = graph.clip %x {min = #graph.array<[0.0] : tensor<f32>>, max = #graph.array<[inf] : tensor<f32>>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %6 = graph.clip %b {max = #graph.array<[6] : tensor<i8>>} : (tensor<2x3xi8>) -> tensor<2x3xi8>
// CHECK-NEXT: %7 = graph.clip %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %8 = graph.max %x, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %9 = graph.min %x, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %10 = graph.mod %i, %j {fmod = 0 : i64} : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %11 = graph.pow %x, %j : (tensor<2x3xf32>, tensor<3xi32>) -> tensor<2x3xf32>
// CHECK-NEXT: %12 = graph.where %c, %x, %v : (tensor<2x1xi1>, tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %13 = graph.cast %x {to = ui8} : (tensor<2x3xf32>) -> tensor<2x3xui8>
