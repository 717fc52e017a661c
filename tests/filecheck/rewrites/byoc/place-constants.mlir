// RUN: byocir-opt --no-debuginfo --load-target %S/policies.py:Bound -p set-targets{targets=bound},match-composites,assign-targets,merge-regions,place-constants,clean-up %s | filecheck %s --check-prefix=BIND
// RUN: byocir-opt --no-debuginfo --load-target %S/policies.py:Given -p set-targets{targets=given},match-composites,assign-targets,merge-regions,place-constants,clean-up %s | filecheck %s --check-prefix=ARGUMENT
// RUN: byocir-opt --no-debuginfo --load-target %S/policies.py:Matched -p set-targets{targets=matched},match-composites,assign-targets,merge-regions,place-constants,clean-up %s | filecheck %s --check-prefix=MATCH
// RUN: byocir-opt --no-debuginfo --load-target %S/policies.py:Packed -p set-targets{targets=packed},match-composites,assign-targets,merge-regions,place-constants,clean-up %s | filecheck %s --check-prefix=TRANSFORM

// Inside the composites that use them:
// BIND-LABEL: @main
// BIND-NEXT:    %{{[^ ]*}} = byoc.region {{.*}} (%{{[^ ]*}} = %x : tensor<1x2xf32>) ->
// BIND-NEXT:      %{{[^ ]*}} = byoc.composite "bound.product" at "graph" (%{{[^ ]*}} = %{{[^ ]*}} : tensor<1x2xf32>) ->
// BIND-NEXT:        %{{[^ ]*}} = graph.constant #graph.array<[1.0, 2.0, 3.0, 4.0]
// BIND:           %{{[^ ]*}} = byoc.composite "bound.sum" at "graph" (%{{[^ ]*}} = %{{[^ ]*}} : tensor<1x2xf32>) ->
// BIND-NEXT:        %{{[^ ]*}} = graph.constant #graph.array<[5.0, 6.0]

// Before the region, which has them as inputs:
// ARGUMENT-LABEL: @main
// ARGUMENT:         %[[B:[^ ]*]] = graph.constant #graph.array<[5.0, 6.0]
// ARGUMENT-NEXT:    %[[W:[^ ]*]] = graph.constant #graph.array<[1.0, 2.0, 3.0, 4.0]
// ARGUMENT-NEXT:    %{{[^ ]*}} = byoc.region {{.*}} (%{{[^ ]*}} = %x : tensor<1x2xf32>, %{{[^ ]*}} = %[[B]] : tensor<1x2xf32>, %{{[^ ]*}} = %[[W]] : tensor<2x2xf32>)
// ARGUMENT-NOT:     graph.constant
// ARGUMENT:         func.return

// As the patterns have them: `constant` inside, `wildcard` an input.
// MATCH-LABEL: @main
// MATCH-NEXT:    %[[B:[^ ]*]] = graph.constant #graph.array<[5.0, 6.0]
// MATCH-NEXT:    %{{[^ ]*}} = byoc.region {{.*}} (%{{[^ ]*}} = %x : tensor<1x2xf32>, %{{[^ ]*}} = %[[B]] : tensor<1x2xf32>) ->
// MATCH-NEXT:      %{{[^ ]*}} = byoc.composite "matched.product"
// MATCH-NEXT:        %{{[^ ]*}} = graph.constant #graph.array<[1.0, 2.0, 3.0, 4.0]

// Inside, with what the target stores for them where it says so:
// TRANSFORM-LABEL: @main
// TRANSFORM:         graph.constant #graph.array<[1.0, 2.0, 3.0, 4.0] : tensor<2x2xf32>> {byoc.stored = #graph.array<[1.0, 3.0, 2.0, 4.0] : tensor<2x2xf32>>}
// TRANSFORM:         graph.constant #graph.array<[5.0, 6.0] : tensor<1x2xf32>>{{$}}
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = graph.constant #graph.array<[1.0, 2.0, 3.0, 4.0] : tensor<2x2xf32>>
  %b = graph.constant #graph.array<[5.0, 6.0] : tensor<1x2xf32>>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("p")
  %1 = graph.add %0, %b : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32> loc("s")
  func.return %1 : tensor<1x2xf32>
}
