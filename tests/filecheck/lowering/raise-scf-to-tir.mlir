// RUN: byocir-opt --load-target %S/toy_gemm.py:Toy -p raise-scf-to-tir,set-targets{targets=toy},match-composites{level=tensor} %s | filecheck %s

// One pattern takes products of matrices however they are written.

// CHECK-LABEL: @i_k_j
// CHECK-SAME:    (%A: tensor<4x8xi8>, %B: tensor<8x6xi8>) -> tensor<4x6xi32>
// CHECK:         byoc.composite "toy.gemm"
// CHECK:           tir.block [i: 4, j: 6 | k: 8] ins(%{{.*}}[k, j] : tensor<8x6xi8>, %{{.*}}[i, k] : tensor<4x8xi8>) outs(%{{.*}}[i, j] : tensor<4x6xi32>) {
// CHECK-NOT:     scf
func.func @i_k_j(%A: memref<4x8xi8>, %B: memref<8x6xi8>, %C: memref<4x6xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0 : i32
  scf.for %i = %c0 to %c4 step %c1 {
    scf.for %j = %c0 to %c6 step %c1 {
      memref.store %zero, %C[%i, %j] : memref<4x6xi32>
    }
    scf.for %k = %c0 to %c8 step %c1 {
      %a = memref.load %A[%i, %k] : memref<4x8xi8>
      %x = arith.extsi %a : i8 to i32
      scf.for %j = %c0 to %c6 step %c1 {
        %b = memref.load %B[%k, %j] : memref<8x6xi8>
        %y = arith.extsi %b : i8 to i32
        %p = arith.muli %y, %x : i32
        %c = memref.load %C[%i, %j] : memref<4x6xi32>
        %s = arith.addi %p, %c : i32
        memref.store %s, %C[%i, %j] : memref<4x6xi32>
      }
    }
  }
  func.return
}

// Tiles whose remainder a minimum bounds.
// CHECK-LABEL: @tiled
// CHECK:         byoc.composite "toy.gemm"
// CHECK:           tir.block [i: 5, j: 6 | k: 8]
// CHECK-NOT:     affine
func.func @tiled(%A: memref<5x8xi8>, %B: memref<8x6xi8>, %C: memref<5x6xi32>) {
  %zero = arith.constant 0 : i32
  affine.for %i = 0 to 5 step 2 {
    affine.for %j = 0 to 6 step 3 {
      affine.for %ii = affine_map<(d0) -> (d0)>(%i) to min affine_map<(d0) -> (d0 + 2, 5)>(%i) {
        affine.for %jj = 0 to 3 {
          %r = affine.for %k = 0 to 8 iter_args(%acc = %zero) -> (i32) {
            %a = affine.load %A[%ii, %k] : memref<5x8xi8>
            %b = affine.load %B[%k, %j + %jj] : memref<8x6xi8>
            %x = arith.extsi %a : i8 to i32
            %y = arith.extsi %b : i8 to i32
            %p = arith.muli %x, %y : i32
            %s = arith.addi %acc, %p : i32
            affine.yield %s : i32
          }
          affine.store %r, %C[%ii, %j + %jj] : memref<5x6xi32>
        }
      }
    }
  }
  func.return
}

// Loops of tir; what cannot be raised stays, and keeps the function on memory.
// CHECK-LABEL: @scan
// CHECK-SAME:    memref<4x8xi8>
// CHECK:         byoc.composite "toy.gemm"
// CHECK:         scf.for %i = %c1 to %c4
// CHECK:         {tir.not_raised = "expected iterations that only write C, found a read"}
func.func @scan(%A: memref<4x8xi8>, %B: memref<8x6xi8>, %C: memref<4x6xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  tir.fill 0 : i32 into %C : memref<4x6xi32>
  tir.for %k = 0 to 8 serial {
    tir.for %j = 0 to 6 serial {
      tir.for %i = 0 to 4 serial {
        %a = memref.load %A[%i, %k] : memref<4x8xi8>
        %b = memref.load %B[%k, %j] : memref<8x6xi8>
        %x = arith.extsi %a : i8 to i32
        %y = arith.extsi %b : i8 to i32
        %p = arith.muli %x, %y : i32
        %c = memref.load %C[%i, %j] : memref<4x6xi32>
        %s = arith.addi %c, %p : i32
        memref.store %s, %C[%i, %j] : memref<4x6xi32>
      }
    }
  }
  scf.for %i = %c1 to %c4 step %c1 {
    %last = arith.subi %i, %c1 : index
    %a = memref.load %C[%last, %c0] : memref<4x6xi32>
    %b = memref.load %C[%i, %c0] : memref<4x6xi32>
    %s = arith.addi %a, %b : i32
    memref.store %s, %C[%i, %c0] : memref<4x6xi32>
  }
  func.return
}

// -----

// What reads or writes outside of an array stays.

// CHECK-LABEL: func.func @outside
// CHECK:         scf.for
// CHECK:         {tir.not_raised = "expected index i + 1 inside [0, 8), found [1, 8]"}
// CHECK:         scf.for
// CHECK:         {tir.not_raised = "expected index i + 1 inside [0, 8), found [1, 8]"}
func.func @outside(%a: memref<8xf32>, %b: memref<8xf32>, %c: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %next = arith.addi %i, %c1 : index
    %x = memref.load %a[%next] : memref<8xf32>
    memref.store %x, %b[%i] : memref<8xf32>
  }
  scf.for %i = %c0 to %c8 step %c1 {
    %next = arith.addi %i, %c1 : index
    %x = memref.load %a[%i] : memref<8xf32>
    memref.store %x, %c[%next] : memref<8xf32>
  }
  func.return
}
