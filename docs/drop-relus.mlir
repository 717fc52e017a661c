func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %s = graph.sigmoid %x : (tensor<2x4xf32>) -> tensor<2x4xf32> loc("squash")
  %r = graph.relu %s : (tensor<2x4xf32>) -> tensor<2x4xf32> loc("superfluous")
  func.return %r : tensor<2x4xf32>
}
