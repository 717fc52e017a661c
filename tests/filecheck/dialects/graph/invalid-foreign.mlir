// RUN: byocir-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

func.func @opset() {
  // CHECK: expected an opset of at least 1, found 0
  %0 = graph.foreign "Foo" 0 () {} : () -> tensor<f32>
  func.return
}

// -----

func.func @no_name() {
  // CHECK: expected the name of an operator, found none
  %0 = graph.foreign "" 1 () {} : () -> tensor<f32>
  func.return
}

// -----

func.func @attribute_kind() {
  // CHECK: expected an attribute as ONNX has it, found a 1 : i32
  %0 = graph.foreign "Foo" 1 () {a = 1 : i32} : () -> tensor<f32>
  func.return
}

// -----

func.func @mask_without_zero() {
  // CHECK: expected output_mask of zeros and ones with a zero, found [1]
  %0 = graph.foreign "Foo" 1 () {} : () -> tensor<f32> outputs array<i64: 1>
  func.return
}

// -----

func.func @mask_count() {
  // CHECK: expected 1 ones in output_mask, found 2
  %0 = graph.foreign "Foo" 1 () {} : () -> tensor<f32> outputs array<i64: 1, 0, 1>
  func.return
}

// -----

func.func @graph_without_yield(%x: tensor<f32>) {
  // CHECK: expected graph 'body' to end in graph.yield
  %0 = graph.foreign "Foo" 1 () {} : () -> tensor<f32> "body" {
    byoc.yield %x : tensor<f32>
  }
  func.return
}

// -----

func.func @graph_twice(%x: tensor<f32>) {
  // CHECK: expected each attribute once, found ['body'] twice
  %0 = graph.foreign "Foo" 1 () {body = 1 : i64} : () -> tensor<f32> "body" {
    graph.yield %x : tensor<f32>
  }
  func.return
}

// -----

func.func @graph_names(%x: tensor<f32>) {
  // CHECK: expected a name for each of 1 graphs, found 0
  %0 = "graph.foreign"() <{domain = "", op_type = "Foo", opset = 1 : i64, attrs = {}}> ({
    graph.yield %x : tensor<f32>
  }) : () -> tensor<f32>
  func.return
}

// -----

func.func @strings() {
  // CHECK: expected 2 strings, found 1
  %0 = graph.foreign "Foo" 1 () {a = #graph.strings<[2], ["x"]>} : () -> tensor<f32>
  func.return
}

// -----

func.func @floats() {
  // CHECK: expected a list of f32, found tensor<1xi8>
  %0 = graph.foreign "Foo" 1 () {a = #graph.floats<#graph.array<[1] : tensor<1xi8>>>} : () -> tensor<f32>
  func.return
}
