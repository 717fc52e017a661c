// RUN: not byocir-opt -p set-targets{targets=vta},assign-targets %s 2>&1 | filecheck %s

// CHECK: error[B214]: composite vtb.relu belongs to target 'vtb', which the module does not name
// CHECK: did you mean 'vta'?
func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
  %0 = byoc.composite "vtb.relu" at "graph" (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
    %r = graph.relu %a : (tensor<4xi8>) -> tensor<4xi8>
    byoc.yield %r : tensor<4xi8>
  }
  func.return %0 : tensor<4xi8>
}
