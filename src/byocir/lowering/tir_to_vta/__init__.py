"""Brings blocks to VTA by passes, one per step, each of which leaves a program that can be
evaluated.

In value form, before and after the hand-off:

```
vta-separate         copies on the host between composites that want an array in two layouts
vta-arrange          the dimension that VTA's lanes count comes second
vta-gather-windows   windows of few channels as matrices, gathered by the host
vta-legalise         every composite in the operations that VTA has
vta-pack             arrays in blocks of VTA's lanes
```

In memory:

```
vta-bufferize        memrefs in place of tensors
vta-border           numbers around arrays that are read there
vta-tile             loops, so that what a tile needs fits VTA's memories
vta-stage            operands in VTA's memories
vta-tensorise        a straight line of VTA instructions
vta-insert-tokens    what each instruction waits for
vta-encode           the bytes that VTA runs
```

They act on the functions of targets whose `machine` is "vta", whatever they are called, and leave
everything else alone. Files whose names begin with that of a pass are its parts.
"""
