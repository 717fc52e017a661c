"""Raises loops of scf, affine and memref to the tensor level, in this order:

```
reader, bodies      loops as statements (`statements`): what is stored where, from which elements
staged              undoes buffers of one iteration
blocks              statements as blocks in one form (`indices`)
values              functions on memory as functions on tensors
raise_pass          the pass, `raise-scf-to-tir`
```
"""

from byocir.lowering.scf_to_tir.raise_pass import RaiseScfToTirPass

__all__ = ["RaiseScfToTirPass"]
