// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt %s --print-op-generic | byocir-opt | filecheck %s
// RUN: byocir-opt %s --no-debuginfo | filecheck %s --check-prefix NONE

// Locations survive printing and reading back; unknown ones are not mentioned.

// CHECK:      func.func @main
// CHECK-NEXT:   graph.relu {{.*}} -> tensor<4xf32> loc("Relu \22a\22\0A"){{$}}
// CHECK-NEXT:   graph.relu {{.*}} -> tensor<4xf32>{{$}}
// CHECK-NEXT:   graph.relu {{.*}} -> tensor<4xf32> loc(fused["Conv_1", "Relu_2"]){{$}}
// CHECK-NEXT:   byoc.composite {{.*}} {
// CHECK-NEXT:     byoc.yield {{.*}} : tensor<4xf32>{{$}}
// CHECK-NEXT:   } loc("whole"){{$}}
// NONE-NOT: loc(
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32> loc("Relu \22a\22\n")
  %1 = graph.relu %0 : (tensor<4xf32>) -> tensor<4xf32> loc(unknown)
  %2 = graph.relu %1 : (tensor<4xf32>) -> tensor<4xf32> loc(fused["Conv_1", "Relu_2"])
  %3 = byoc.composite "p" at "graph" (%a = %2 : tensor<4xf32>) -> tensor<4xf32> {
    byoc.yield %a : tensor<4xf32>
  } loc("whole")
  func.return %3 : tensor<4xf32>
}
