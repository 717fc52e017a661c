"""`tir.yield`: what ends the bodies of blocks and loops."""

from __future__ import annotations

from xdsl.irdl import IRDLOperation, traits_def, var_operand_def
from xdsl.traits import IsTerminator, Pure

from byocir.dialects.definition import irdl_op_definition


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a block's body with the new values of the `outs` elements, or a loop's with what the
    next iteration takes, e.g. `tir.yield %sum : i32`."""

    name = "tir.yield"

    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$values attr-dict `:` type($values)"
