// RUN: not byocir-opt -p verify-regions %s 2>&1 | filecheck %s

// CHECK: error[B226]: expected every input of a region once, found #1 again
// CHECK: at    byoc.region (r)
func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
  %r = byoc.region #byoc.target<"vta", {block = 16 : i64, config = "", gather = true, rounding = "half_up"}> (%a = %x : tensor<4xi8>, %b = %x : tensor<4xi8>) -> tensor<4xi8> {
    %s = byoc.composite "vta.sum" at "graph" (%c = %a : tensor<4xi8>, %d = %b : tensor<4xi8>) -> tensor<4xi8> {
      %e = graph.add %c, %d : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
      byoc.yield %e : tensor<4xi8>
    }
    byoc.yield %s : tensor<4xi8>
  } loc("r")
  func.return %r : tensor<4xi8>
}
