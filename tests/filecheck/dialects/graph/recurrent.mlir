// RUN: byocir-opt %s | byocir-opt | filecheck %s
// RUN: byocir-opt --print-op-generic %s | byocir-opt | filecheck %s

func.func @recurrent(%x: tensor<5x2x3xf32>, %n: tensor<2xi32>, %h: tensor<1x2x4xf32>, %p: tensor<1x12xf32>, %w1: tensor<1x4x3xf32>, %r1: tensor<1x4x4xf32>, %b1: tensor<1x8xf32>, %w3: tensor<1x12x3xf32>, %r3: tensor<1x12x4xf32>, %b3: tensor<1x24xf32>, %w4: tensor<1x16x3xf32>, %r4: tensor<1x16x4xf32>, %b4: tensor<1x32xf32>) {
  %0, %1 = graph.rnn %x, %w1, %r1, %b1, %n, %h {direction = "reverse"} : (tensor<5x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>, tensor<1x8xf32>, tensor<2xi32>, tensor<1x2x4xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)
  %2, %3 = graph.gru %x, %w3, %r3, %b3, %n, %h {direction = "reverse", linear_before_reset = 1 : i64} : (tensor<5x2x3xf32>, tensor<1x12x3xf32>, tensor<1x12x4xf32>, tensor<1x24xf32>, tensor<2xi32>, tensor<1x2x4xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)
  %4, %5, %6 = graph.lstm %x, %w4, %r4, %b4, %n, %h, %h, %p {direction = "reverse"} : (tensor<5x2x3xf32>, tensor<1x16x3xf32>, tensor<1x16x4xf32>, tensor<1x32xf32>, tensor<2xi32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x12xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
  func.return
}

// CHECK: %0, %1 = graph.rnn %x, %w1, %r1, %b1, %n, %h {direction = "reverse"} : (tensor<5x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>, tensor<1x8xf32>, tensor<2xi32>, tensor<1x2x4xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)
// CHECK-NEXT: %2, %3 = graph.gru %x, %w3, %r3, %b3, %n, %h {direction = "reverse", linear_before_reset = 1 : i64} : (tensor<5x2x3xf32>, tensor<1x12x3xf32>, tensor<1x12x4xf32>, tensor<1x24xf32>, tensor<2xi32>, tensor<1x2x4xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)
// CHECK-NEXT: %4, %5, %6 = graph.lstm %x, %w4, %r4, %b4, %n, %h, %h, %p {direction = "reverse"} : (tensor<5x2x3xf32>, tensor<1x16x3xf32>, tensor<1x16x4xf32>, tensor<1x32xf32>, tensor<2xi32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x12xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)
