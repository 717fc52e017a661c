"""Matrix products, of which the later ones are quantised: what may be summed in another order."""

MATMULS = """
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xi8>) {
  %0 = graph.matmul %x, %y : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = graph.matmul %y, %y : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = graph.matmul %1, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = graph.constant #graph.array<[0.5] : tensor<f32>>
  %z = graph.constant #graph.array<[0] : tensor<i8>>
  %3 = graph.quantize %2, %s, %z {axis = 1 : i64}
    : (tensor<4x4xf32>, tensor<f32>, tensor<i8>) -> tensor<4x4xi8>
  func.return %0, %3 : tensor<4x4xf32>, tensor<4x4xi8>
}
"""
