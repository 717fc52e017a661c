
func.func @main(%x: memref<18xi32>, %y: memref<16xi32>) {
  %t = tir.alloc : memref<18xi32>
  tir.block [i: 18] ins(%x[i] : memref<18xi32>) outs(%t[i] : memref<18xi32>) {
  ^bb0(%a: i32, %old: i32):
    %0 = arith.addi %a, %a : i32
    tir.yield %0 : i32
  } loc("double")
  tir.block [i: 16 | r: 3] ins(%t[i + r] : memref<18xi32>) outs(%y[i] : memref<16xi32>) {
  ^bb0(%a: i32, %old: i32):
    %0 = arith.addi %a, %old : i32
    tir.yield %0 : i32
  } loc("windows")
  func.return
}
