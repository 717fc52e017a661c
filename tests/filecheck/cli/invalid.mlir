// RUN: not byocir-opt %s --split-input-file 2>&1 | filecheck %s
func.func @fine() {
  func.return
}
// -----
func.func @outer(%x: tensor<3xi8>) -> tensor<4xi8> {
  // An op that breaks a rule is shown where it stands.
  // CHECK:      error[B121]: expected result type tensor<3xi8> to match operands, found tensor<4xi8>
  // CHECK-NEXT:   at    {{.*}}invalid.mlir:13:3
  // CHECK-NEXT:       %0 = graph.relu %x : (tensor<3xi8>) -> tensor<4xi8>
  // CHECK-NEXT:       ^
  // CHECK-NOT: Traceback
  %0 = graph.relu %x : (tensor<3xi8>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}
