// RUN: not byocir-opt -p match-composites %s 2>&1 | filecheck %s --check-prefix=TARGETS
// RUN: not byocir-opt -p set-targets{targets=vtx} %s 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not byocir-opt -p set-targets{targets=vta},match-composites{level=loop} %s 2>&1 | filecheck %s --check-prefix=LEVEL

// TARGETS: error[B211]: the module names no targets
// UNKNOWN: error[B210]: unknown target 'vtx'
// UNKNOWN: did you mean 'vta'?
// LEVEL: error[B212]: expected level graph or tensor, found 'loop'
func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
  func.return %x : tensor<4xi8>
}
