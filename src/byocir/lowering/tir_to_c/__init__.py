"""Lowers functions on tensors to C99, in this order:

```
program, scheduled      a straight line of steps on buffers (`steps`, `values`, `ops_as_blocks`)
lifetimes, arena        where each buffer lies
step_writer             a statement for each step, and the functions of blocks:
    contractions        as register tiles (`tiles`, `tile_nest`, `dots`, `channel_tiles`)
    loops               all others (`accesses`, `conditions`, `unwritten`, `repeats`)
    scalars             their bodies (`comparisons`, `literals`, `functions`; `float_ranges`,
                        `clamp_after_cast` and `reciprocal` make them cheaper)
openmp                  loops that threads share
tree, source            statements as text, and the whole source and header
regions                 the same for targets that give no more than C
```
"""

from byocir.lowering.tir_to_c.source import HostCode, emit_host

__all__ = ["HostCode", "emit_host"]
