// RUN: byocir-opt --verify-diagnostics --parsing-diagnostics --split-input-file %s | filecheck %s

func.func @exp_integers(%x: tensor<2xi32>) {
  // CHECK: expected a floating-point tensor, found tensor<2xi32>
  %0 = graph.exp %x : (tensor<2xi32>) -> tensor<2xi32>
  func.return
}

// -----

func.func @neg_unsigned(%x: tensor<2xui8>) {
  // CHECK: expected an input of signed numbers, found ui8
  %0 = graph.neg %x : (tensor<2xui8>) -> tensor<2xui8>
  func.return
}

// -----

func.func @abs_bool(%x: tensor<2xi1>) {
  // CHECK: expected an input of numbers, found i1
  %0 = graph.abs %x : (tensor<2xi1>) -> tensor<2xi1>
  func.return
}

// -----

func.func @gelu_form(%x: tensor<2xf32>) {
  // CHECK: expected approximate none or tanh, found erf
  %0 = graph.gelu %x {approximate = "erf"} : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @prelu_element(%x: tensor<2xf32>, %s: tensor<2xi32>) {
  // CHECK: expected a slope of f32, found i32
  %0 = graph.prelu %x, %s : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @prelu_bool(%x: tensor<2xi1>) {
  // CHECK: expected an input of numbers, found i1
  %0 = graph.prelu %x, %x : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  func.return
}

// -----

func.func @prelu_shape(%x: tensor<2xf32>, %s: tensor<3x1xf32>) {
  // CHECK: expected a slope that broadcasts to 2, found 3x1
  %0 = graph.prelu %x, %s : (tensor<2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  func.return
}

// -----

func.func @mod_floats(%x: tensor<2xf32>) {
  // CHECK: expected fmod 1 for f32, found 0
  %0 = graph.mod %x, %x {fmod = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @mod_flag(%x: tensor<2xi32>) {
  // CHECK: expected fmod 0 or 1, found 2
  %0 = graph.mod %x, %x {fmod = 2 : i64} : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  func.return
}

// -----

func.func @pow_bool(%x: tensor<2xf32>, %c: tensor<2xi1>) {
  // CHECK: expected operands of numbers, found i1
  %0 = graph.pow %x, %c : (tensor<2xf32>, tensor<2xi1>) -> tensor<2xf32>
  func.return
}

// -----

func.func @where_condition(%x: tensor<2xf32>, %c: tensor<2xi8>) {
  // CHECK: expected a condition of i1, found i8
  %0 = graph.where %c, %x, %x : (tensor<2xi8>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @where_element(%x: tensor<2xf32>, %c: tensor<2xi1>, %i: tensor<2xi32>) {
  // CHECK: expected operands of one element type, found f32 and i32
  %0 = graph.where %c, %x, %i : (tensor<2xi1>, tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @cast_index(%x: tensor<2xf32>) {
  // CHECK: expected to of a number type or i1, found index
  %0 = graph.cast %x {to = index} : (tensor<2xf32>) -> tensor<2xindex>
  func.return
}

// -----

func.func @equal_element(%x: tensor<2xf32>, %i: tensor<2xi32>) {
  // CHECK: expected operands of one element type, found f32 and i32
  %0 = graph.equal %x, %i : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xi1>
  func.return
}

// -----

func.func @less_result(%x: tensor<2xf32>) {
  // CHECK: expected result type tensor<2xi1> to match operands, found tensor<2xf32>
  %0 = graph.less %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @and_numbers(%x: tensor<2xi8>) {
  // CHECK: expected operands of i1, found i8 and i8
  %0 = graph.and %x, %x : (tensor<2xi8>, tensor<2xi8>) -> tensor<2xi8>
  func.return
}

// -----

func.func @not_numbers(%x: tensor<2xi8>) {
  // CHECK: expected an input of i1, found i8
  %0 = graph.not %x : (tensor<2xi8>) -> tensor<2xi8>
  func.return
}

// -----

func.func @bitwise_and_floats(%x: tensor<2xf32>) {
  // CHECK: expected operands of integers, found f32
  %0 = graph.bitwise_and %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @bitwise_not_bool(%x: tensor<2xi1>) {
  // CHECK: expected an input of integers, found i1
  %0 = graph.bitwise_not %x : (tensor<2xi1>) -> tensor<2xi1>
  func.return
}

// -----

func.func @bit_shift_signed(%x: tensor<2xi8>) {
  // CHECK: expected operands of unsigned integers, found i8
  %0 = graph.bit_shift %x, %x {direction = "LEFT"} : (tensor<2xi8>, tensor<2xi8>) -> tensor<2xi8>
  func.return
}

// -----

func.func @bit_shift_direction(%x: tensor<2xui8>) {
  // CHECK: expected direction LEFT or RIGHT, found UP
  %0 = graph.bit_shift %x, %x {direction = "UP"} : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xui8>
  func.return
}

// -----

func.func @is_nan_integers(%x: tensor<2xi8>) {
  // CHECK: expected a floating-point tensor, found tensor<2xi8>
  %0 = graph.is_nan %x : (tensor<2xi8>) -> tensor<2xi1>
  func.return
}

// -----

func.func @is_inf_flag(%x: tensor<2xf32>) {
  // CHECK: expected detect_positive 0 or 1, found 2
  %0 = graph.is_inf %x {detect_negative = 0 : i64, detect_positive = 2 : i64} : (tensor<2xf32>) -> tensor<2xi1>
  func.return
}
