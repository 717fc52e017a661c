"""Rewrites blocks in value form for processors, whose C code is then made of them. In order:

```
outline-branches     a function for each graph of an If
relax-contractions   sums of floats in any order, where nothing is told by their last bits
split-phases         a transposed convolution as a convolution for each phase of its strides
fold-pads            contractions that read through padding
assign-layouts       channels last, from one convolution to the next
flatten-windows      sliding windows as contractions over one plane
fuse-blocks          elementwise blocks in those that read them
pack-weights         weights in the order in which register tiles read them
fold-copies          constants in place of copies of constants
group-foreign        foreign ops that follow each other as one call
```

`order-weights` serves targets that want channels last. `contraction`, `dot_steps` and `tile_shape`
say what passes and `lowering/tir_to_c` both must know of the processor's tiles.
"""
