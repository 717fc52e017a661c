// RUN: byocir-opt --verify-diagnostics --split-input-file %s | filecheck %s

func.func @missing(%x: tensor<4xi8>) -> tensor<4xi8> {
  // CHECK: expected a function @npu_0 to call, found none
  %0 = byoc.call @npu_0(%x) : (tensor<4xi8>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}

// -----

func.func @other_type(%x: tensor<4xi8>) -> tensor<4xi8> {
  // CHECK: expected @npu_0 to take (tensor<4xi8>) and give (tensor<4xi8>), found (tensor<5xi8>) -> tensor<4xi8>
  %0 = byoc.call @npu_0(%x) : (tensor<4xi8>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}

func.func private @npu_0(tensor<5xi8>) -> tensor<4xi8>
