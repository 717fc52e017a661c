// RUN: byocir-opt --no-debuginfo -p 'fix-point{rounding=half_even}' %s | filecheck %s

// CHECK:         graph.requantize %x, %{{.*}} {rounding = #graph.fixed<shift = 6, half_even>
func.func @power_of_two(%x: tensor<4xi32>) -> tensor<4xi8> {
  %a = graph.constant #graph.array<[0.03125] : tensor<f32>>
  %b = graph.constant #graph.array<[2.0] : tensor<f32>>
  %0 = graph.requantize %x, %a, %b {rounding = #graph.float_half_even, to = i8} : (tensor<4xi32>, tensor<f32>, tensor<f32>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}
