"""fold-pads: contractions read through the padding of what they read.

Does: where a contraction reads a copy of an array with a number around it, it reads the array, and
that number outside of it. A copy that nothing else reads goes.

Requires: blocks in value form. Looks at functions without `byoc.target`.

Guarantees: the same results, bit for bit; a contraction has the locations of the copies, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from byocir.dialects.tir import BlockOp
from byocir.rewrites.byoc.host_blocks import host_functions
from byocir.rewrites.host.contraction import is_contraction
from byocir.rewrites.read_through_pads import read_through_pads


@dataclass(frozen=True)
class FoldPadsPass(ModulePass):
    """Lets contractions read through padding."""

    name = "fold-pads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in host_functions(op):
            for block in [b for b in function.walk() if isinstance(b, BlockOp)]:
                if block.in_value_form and is_contraction(block):
                    read_through_pads(block)
