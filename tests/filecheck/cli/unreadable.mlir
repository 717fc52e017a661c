// RUN: byocir-opt %s --parsing-diagnostics --split-input-file | filecheck %s
// RUN: not byocir-opt %s --split-input-file 2>&1 | filecheck %s --check-prefix FIRST

// FIRST:      error[B120]: operation graph.rellu is not registered
// FIRST-NEXT:   at    {{.*}}unreadable.mlir:14:3
// FIRST-NEXT:       %0 = graph.rellu %x : tensor<4xf32>
// FIRST-NEXT:       ^
// FIRST-NEXT:   help  did you mean 'graph.relu'?
func.func @fine() {
  func.return
}
// -----
func.func @unknown(%x: tensor<4xf32>) {
  %0 = graph.rellu %x : tensor<4xf32>
  // CHECK: unreadable.mlir:14:3
  // CHECK: Operation graph.rellu is not registered
  func.return
}
// -----
func.func @not_defined() {
  func.return %x : tensor<4xf32>
  // CHECK: values used but not defined: [%x]
}
