"""Holds the passes that go down a level, and one that comes up.

```
graph_to_tir    operators as blocks on tensors; `bounded`: also those whose sizes only a run tells
tir_to_c        blocks as C99: for the host, and for targets that compile C
tir_to_vta      blocks as VTA's instructions
tir_to_scf      blocks as plain loops, for other tools of MLIR
scf_to_tir      hand-written loops as blocks, which patterns match
```
"""
