// RUN: byocir-opt --verify-diagnostics --split-input-file %s | filecheck %s

// Definitions come before uses, which xDSL's own verifier does not check.

func.func @later(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: expected operand 0 of graph.relu ("first") to be defined before it, found a result of graph.relu ("second"), which comes later
  %0 = "graph.relu"(%1) : (tensor<4xf32>) -> tensor<4xf32> loc("first")
  %1 = "graph.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("second")
  func.return %0 : tensor<4xf32>
}

// -----

func.func @itself() -> tensor<4xf32> {
  // CHECK: expected operand 0 of graph.relu to be defined before it, found a result of graph.relu, which comes later
  %0 = "graph.relu"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @branches(%c: i1) -> i32 {
  "cf.cond_br"(%c) [^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i1) -> ()
^bb1:
  %0 = arith.constant 1 : i32
  "cf.br"() [^bb2] : () -> ()
^bb2:
  // CHECK: expected operand 0 of func.return to be defined before it, found a value of a block that control flow need not have passed
  func.return %0 : i32
}

// -----

// CHECK: func.func @enclosing
func.func @enclosing(%n: index, %x: i32) -> i32 {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %sum = scf.for %i = %zero to %n step %one iter_args(%s = %x) -> (i32) {
    %next = arith.addi %s, %x : i32
    scf.yield %next : i32
  }
  func.return %sum : i32
}
