// RUN: byocir-opt --verify-diagnostics --parsing-diagnostics --split-input-file %s | filecheck %s

func.func @outside(%x: tensor<4xi8>, %y: tensor<4xi8>) {
  // CHECK: expected index i + 1 inside [0, 4), found [1, 4]; give the input a pad or the block a where
  %0 = tir.block [i: 4] ins(%x[i + 1] : tensor<4xi8>) outs(%y[i] : tensor<4xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  func.return
}

// -----

func.func @reduced_out(%x: tensor<4xi8>, %y: tensor<4xi8>) {
  // CHECK: expected outs to be indexed by parallel iterators only
  %0 = tir.block [| i: 4] ins(%x[i] : tensor<4xi8>) outs(%y[i] : tensor<4xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  func.return
}

// -----

func.func @rank(%x: tensor<4x4xi8>, %y: tensor<4xi8>) {
  // CHECK: expected a map from 1 iterators to 2 indices, found (d0) -> (d0)
  %0 = tir.block [i: 4] ins(%x[i] : tensor<4x4xi8>) outs(%y[i] : tensor<4xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  func.return
}

// -----

func.func @mixed(%x: memref<4xi8>, %y: tensor<4xi8>) {
  // CHECK: expected operands that are all tensors or all memrefs, found MemRefType, TensorType
  %0 = tir.block [i: 4] ins(%x[i] : memref<4xi8>) outs(%y[i] : tensor<4xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  func.return
}

// -----

func.func @arguments(%x: tensor<4xi8>, %y: tensor<4xi32>) {
  // CHECK: expected body arguments (i8, i32), found (i32, i32)
  %0 = tir.block [i: 4] ins(%x[i] : tensor<4xi8>) outs(%y[i] : tensor<4xi32>) {
  ^bb0(%a: i32, %b: i32):
    tir.yield %a : i32
  }
  func.return
}

// -----

func.func @yields(%x: tensor<4xi8>, %y: tensor<4xi32>) {
  // CHECK: expected yielded values (i32), found (i8)
  %0 = tir.block [i: 4] ins(%x[i] : tensor<4xi8>) outs(%y[i] : tensor<4xi32>) {
  ^bb0(%a: i8, %b: i32):
    tir.yield %a : i8
  }
  func.return
}

// -----

func.func @no_yield(%y: tensor<4xi8>) {
  // CHECK: Operation arith.constant terminates block in single-block region but is not a terminator
  %0 = tir.block [i: 4] outs(%y[i] : tensor<4xi8>) {
  ^bb0(%b: i8):
    %c = arith.constant 1 : i8
  }
  func.return
}

// -----

func.func @captured(%y: tensor<4xi8>, %s: i8) {
  // CHECK: expected a body of its own values, found another used by tir.yield
  %0 = tir.block [i: 4] outs(%y[i] : tensor<4xi8>) {
  ^bb0(%b: i8):
    tir.yield %s : i8
  }
  func.return
}

// -----

func.func @bases(%y: memref<4x4xi8>, %i: index) {
  // CHECK: expected no base or one per iterator (2), found 1
  tir.block [a: 4, b: 4] at(%i) outs(%y[a, b] : memref<4x4xi8>) {
  ^bb0(%b: i8):
    tir.yield %b : i8
  }
  func.return
}

// -----

func.func @names(%y: memref<4x4xi8>) {
  // CHECK: expected distinct iterator names, found ['a', 'a']
  tir.block [a: 4, a: 4] outs(%y[a, a] : memref<4x4xi8>) {
  ^bb0(%b: i8):
    tir.yield %b : i8
  }
  func.return
}

// -----

func.func @extent(%y: memref<4xi8>) {
  // CHECK: expected extents > 0, found (0,)
  tir.block [a: 0] outs(%y[a] : memref<4xi8>) {
  ^bb0(%b: i8):
    tir.yield %b : i8
  }
  func.return
}

// -----

func.func @pad(%x: tensor<4xi8>, %y: tensor<4xi8>) {
  // CHECK: expected a pad of type i8, found 0 : i32
  %0 = tir.block [i: 4] ins(%x[i - 1] pad 0 : i32 : tensor<4xi8>) outs(%y[i] : tensor<4xi8>) {
  ^bb0(%a: i8, %b: i8):
    tir.yield %a : i8
  }
  func.return
}

// -----

func.func @unknown_iterator(%y: memref<4xi8>) {
  // CHECK: expected an iterator (a), found 'b'
  tir.block [a: 4] outs(%y[b] : memref<4xi8>) {
  ^bb0(%b: i8):
    tir.yield %b : i8
  }
  func.return
}

// -----

func.func @product_of_iterators(%y: memref<4xi8>) {
  // CHECK: expected an affine expression, found a product of iterators
  tir.block [a: 2, b: 2] outs(%y[a * b] : memref<4xi8>) {
  ^bb0(%e: i8):
    tir.yield %e : i8
  }
  func.return
}

// -----

func.func @division_by_zero(%y: memref<4xi8>) {
  // CHECK: expected division by a positive constant
  tir.block [a: 2] outs(%y[a floordiv 0] : memref<4xi8>) {
  ^bb0(%e: i8):
    tir.yield %e : i8
  }
  func.return
}

// -----

func.func @fill_type() {
  // CHECK: expected a number of type i32, found 0 : i8
  %0 = tir.fill 0 : i8 : tensor<4xi32>
  func.return
}

// -----

func.func @constant_type() {
  // CHECK: expected shape and element type of tensor<2xi8>, found tensor<2xi32>
  %0 = tir.constant <[1, 2] : tensor<2xi8>> : tensor<2xi32>
  func.return
}

// -----

func.func @loop_extent() {
  // CHECK: expected an extent > 0, found 0
  tir.for %i = 0 to 0 serial {
  }
  func.return
}

// -----

func.func @carried_kind(%x: tensor<4xi8>) {
  // CHECK: expected a loop in order to carry values, found parallel
  %y = tir.for %i = 0 to 2 parallel carry(%a = %x : tensor<4xi8>) {
    tir.yield %a : tensor<4xi8>
  }
  func.return
}

// -----

func.func @condition(%x: tensor<4xi8>) {
  // CHECK: expected a first carried value of type tensor<i1> that says whether there is a next iteration, found tensor<4xi8>
  %y = tir.for %i = 0 to 2 serial while carry(%a = %x : tensor<4xi8>) {
    tir.yield %a : tensor<4xi8>
  }
  func.return
}

// -----

func.func @carried_types(%x: tensor<4xi8>, %z: tensor<2xi8>) {
  // CHECK: expected yielded values of the carried types (tensor<4xi8>), found (tensor<2xi8>)
  %y = tir.for %i = 0 to 2 serial carry(%a = %x : tensor<4xi8>) {
    tir.yield %z : tensor<2xi8>
  }
  func.return
}

// -----

func.func @routine_number(%x: tensor<4xi8>) {
  // CHECK: expected k to be a number of type i64, found 3 : i32
  %y = tir.extern "any"(%x) with {k = 3 : i32} : (tensor<4xi8>) -> tensor<4xi8>
  func.return
}

// -----

func.func @routine_bound(%x: tensor<4xi8>) {
  // CHECK: expected a bound of tensor<1x?xi64>
  %y = tir.extern "non_zero"(%x) with {} within [array<i64: 2, 4>] : (tensor<4xi8>) -> tensor<1x?xi64>
  func.return
}

// -----

func.func @routine_bounds(%x: tensor<4xi8>) {
  // CHECK: expected a bound for each of 1 results, found 0
  %y = tir.extern "non_zero"(%x) with {} within [] : (tensor<4xi8>) -> tensor<1x?xi64>
  func.return
}

// -----

func.func @read_indices(%t: tensor<4x4xi8>, %e: tensor<4xi8>, %c: tensor<4xi64>) {
  // CHECK: expected 2 indices, found 1
  %y = tir.block [m: 4] ins(%c[m] : tensor<4xi64>, %t : tensor<4x4xi8>) outs(%e[m] : tensor<4xi8>) {
  ^bb0(%i: i64, %table: tensor<4x4xi8>, %o: i8):
    %v = tir.read %table[%i] : tensor<4x4xi8> -> i8
    tir.yield %v : i8
  }
  func.return
}

// -----

func.func @read_type(%t: tensor<4xi8>, %e: tensor<4xi16>, %c: tensor<4xi64>) {
  // CHECK: expected a i8, found i16
  %y = tir.block [m: 4] ins(%c[m] : tensor<4xi64>, %t : tensor<4xi8>) outs(%e[m] : tensor<4xi16>) {
  ^bb0(%i: i64, %table: tensor<4xi8>, %o: i16):
    %v = tir.read %table[%i] : tensor<4xi8> -> i16
    tir.yield %v : i16
  }
  func.return
}

// -----

func.func @read_where(%t: tensor<4xi8>, %e: tensor<4xi8>, %c: tensor<4xi64>) {
  // CHECK: expected no where in a block that looks elements up, found one
  %y = tir.block [m: 4] ins(%c[m] : tensor<4xi64>, %t : tensor<4xi8>) outs(%e[m] : tensor<4xi8>) where(m - 1 >= 0) {
  ^bb0(%i: i64, %table: tensor<4xi8>, %o: i8):
    %v = tir.read %table[%i] : tensor<4xi8> -> i8
    tir.yield %v : i8
  }
  func.return
}

// -----

func.func @copy_rank(%x: memref<4x4xi8>) {
  // CHECK: expected memrefs of rank 1, found memref<4x4xi8>
  tir.copy %x to %x sizes [4] : memref<4x4xi8> to memref<4x4xi8>
  func.return
}

// -----

func.func @copy_bases(%x: memref<4x4xi8>, %i: index) {
  // CHECK: expected no base or 2 bases, found 1
  tir.copy %x[%i] to %x sizes [4, 4] : memref<4x4xi8> to memref<4x4xi8>
  func.return
}

// -----

func.func @copy_outside(%x: memref<4x4xi8>) {
  // CHECK: expected sizes of at most [4, 4] in the source, found [4, 5]
  tir.copy %x to %x sizes [4, 5] : memref<4x4xi8> to memref<4x4xi8>
  func.return
}

// -----

func.func @f() {
  // CHECK: tensor<4xf32> should be of base attribute memref
  %t = "tir.alloc"() : () -> tensor<4xf32>
  func.return
}

// -----

func.func @f() {
  // CHECK: memref<4xf32> should be of base attribute tensor
  %t = "tir.empty"() : () -> memref<4xf32>
  func.return
}

// -----

func.func @intrinsic_of_nothing() {
  // CHECK: expected a body of blocks, found none
  tir.intrinsic "npu.load" {
  ^bb0:
  }
  func.return
}

// -----

func.func @intrinsic_with_a_cut_beyond_its_block(%x: memref<4xi8>) {
  // CHECK: expected a cut of 4, found 5
  tir.intrinsic "npu.double" cut [5] {
    tir.block [i: 4] outs(%x[i] : memref<4xi8>) {
    ^bb0(%a: i8):
      tir.yield %a : i8
    }
  }
  func.return
}

// -----

func.func @intrinsic_that_cuts_no_block(%x: memref<4xi8>) {
  // CHECK: expected a block to cut last, found tir.fill
  tir.intrinsic "npu.clear" cut [2] {
    tir.fill 0 : i8 into %x : memref<4xi8>
  }
  func.return
}

// -----

func.func @intrinsic_in_no_order(%x: memref<4xi8>) {
  // CHECK: expected an order of the 1 iterators that are cut, found 0, 0
  tir.intrinsic "npu.double" cut [2] order [0, 0] {
    tir.block [i: 4] outs(%x[i] : memref<4xi8>) {
    ^bb0(%a: i8):
      tir.yield %a : i8
    }
  }
  func.return
}

// -----

func.func @intrinsic_without_name(%x: memref<4xi8>) {
  // CHECK: expected the name of an instruction, found none
  tir.intrinsic "" {
    tir.fill 0 : i8 into %x : memref<4xi8>
  }
  func.return
}
