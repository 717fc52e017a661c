// RUN: byocir-opt --load-target %S/policies.py:Rectifier -p set-targets{targets=rectifier},match-composites{level=tensor},assign-targets,merge-regions %s | filecheck %s

// Buffers order ops, too: the host reads %t between two writes of it, so what writes it again comes
// later, though no value leads there.
// CHECK-LABEL: @main
// CHECK-NEXT:    byoc.region {{.*}} (%{{.*}} = %x : memref<1x4xi8>, %{{.*}} = %t : memref<1x4xi8>) {
// CHECK:         tir.copy %t
// CHECK-NEXT:    byoc.region {{.*}} (%{{.*}} = %y : memref<1x4xi8>, %{{.*}} = %t : memref<1x4xi8>) {
// CHECK:         func.return
func.func @main(%x: memref<1x4xi8>, %y: memref<1x4xi8>, %t: memref<1x4xi8>, %o: memref<1x4xi8>) {
  tir.block [n: 1, i: 4] ins(%x[n, i] : memref<1x4xi8>) outs(%t[n, i] : memref<1x4xi8>) {
  ^bb0(%a: i8, %b: i8):
    %zero = arith.constant 0 : i8
    %m = arith.maxsi %a, %zero : i8
    tir.yield %m : i8
  }
  tir.copy %t to %o sizes [1, 4] : memref<1x4xi8> to memref<1x4xi8>
  tir.block [n: 1, i: 4] ins(%y[n, i] : memref<1x4xi8>) outs(%t[n, i] : memref<1x4xi8>) {
  ^bb0(%a: i8, %b: i8):
    %zero = arith.constant 0 : i8
    %m = arith.maxsi %a, %zero : i8
    tir.yield %m : i8
  }
  func.return
}
