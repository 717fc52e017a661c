// RUN: byocir-opt --verify-diagnostics --split-input-file %s | filecheck %s

func.func @f(%x: tensor<4xi8>) -> tensor<4xi8> {
  // CHECK: expected level graph or tensor, found loop
  %y = byoc.composite "vta.relu" at "loop" (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
    byoc.yield %a : tensor<4xi8>
  }
  func.return %y : tensor<4xi8>
}

// -----

func.func @f(%x: tensor<4xi8>) -> tensor<4xi32> {
  // CHECK: expected yielded values (tensor<4xi32>), found (tensor<4xi8>)
  %y = byoc.composite "vta.relu" at "graph" (%a = %x : tensor<4xi8>) -> tensor<4xi32> {
    byoc.yield %a : tensor<4xi8>
  }
  func.return %y : tensor<4xi32>
}

// -----

func.func @f(%x: tensor<4xi8>) -> tensor<4xi8> {
  // CHECK: expected only composites in a region, found graph.relu
  %y = byoc.region #byoc.target<"vta", {}> (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
    %b = graph.relu %a : (tensor<4xi8>) -> tensor<4xi8>
    byoc.yield %b : tensor<4xi8>
  }
  func.return %y : tensor<4xi8>
}

// -----

func.func @f(%x: tensor<4xi8>) -> tensor<4xi8> {
  // CHECK: graph.relu terminates block in single-block region but is not a terminator
  %y = byoc.composite "vta.relu" at "graph" (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
    %b = graph.relu %a : (tensor<4xi8>) -> tensor<4xi8>
  }
  func.return %y : tensor<4xi8>
}

// -----

func.func @f(%x: tensor<4xi8>) -> tensor<4xi8> {
  // CHECK: expected a function @vta_0 to call, found none
  %y = byoc.call @vta_0(%x) : (tensor<4xi8>) -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// -----

func.func private @vta_0(tensor<8xi8>) -> tensor<4xi8>
func.func @f(%x: tensor<4xi8>) -> tensor<4xi8> {
  // CHECK: expected @vta_0 to take (tensor<4xi8>) and give (tensor<4xi8>), found (tensor<8xi8>) -> tensor<4xi8>
  %y = byoc.call @vta_0(%x) : (tensor<4xi8>) -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// -----

func.func @f(%x: tensor<4xi8>) {
  // CHECK: attribute tensor<4xi8> expected from variable 'T', but got tensor<5xi8>
  %b = "byoc.begin"(%x) {target = "vta"} : (tensor<4xi8>) -> tensor<5xi8>
  func.return
}

// -----

func.func @f(%x: tensor<4xi8>) {
  // CHECK: property 'target' expected in operation 'byoc.end'
  %e = "byoc.end"(%x) : (tensor<4xi8>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK: property 'nodes' expected in operation 'byoc.source'
"byoc.source"() : () -> ()

// -----

// CHECK: property 'decisions' expected in operation 'byoc.trail'
"byoc.trail"() : () -> ()

// -----

func.func @f(%x: tensor<4xi8>) -> tensor<4xi8> {
  // CHECK: expected constants among 1 inputs, found 1
  %y = byoc.composite "vta.relu" at "graph" constants [0, 1] (%a = %x : tensor<4xi8>) -> tensor<4xi8> {
    byoc.yield %a : tensor<4xi8>
  }
  func.return %y : tensor<4xi8>
}
