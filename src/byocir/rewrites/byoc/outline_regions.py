"""`outline-regions`: turns regions into functions that carry their target.

Requires: `byoc.region`s. Guarantees: each is a private function `@<target>_<n>` with `byoc.target`,
and a `byoc.call` in its place, which records the composites taken and the types that cross.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from byocir.dialects.byoc import (
    TARGET,
    CallOp,
    CompositeOp,
    HandedOffAttr,
    RegionOp,
    TakenAttr,
    YieldOp,
)
from byocir.dialects.locations import names


@dataclass(frozen=True)
class OutlineRegionsPass(ModulePass):
    """Makes a function of every region."""

    name = "outline-regions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        defined = [f.properties.get("sym_name") for f in op.body.block.ops]
        symbols = {name.data for name in defined if isinstance(name, StringAttr)}
        symbols |= {f.callee.root_reference.data for f in op.walk() if isinstance(f, CallOp)}
        numbers: dict[str, int] = {}
        for function in list(op.body.block.ops):
            if isinstance(function, FuncOp) and TARGET not in function.attributes:
                after: Operation = function
                for region in [r for r in function.walk() if isinstance(r, RegionOp)]:
                    symbol = _fresh(region.target.target_name.data, symbols, numbers)
                    made = _outline(region, symbol)
                    op.body.block.insert_op_after(made, after)
                    after = made


def _fresh(target: str, symbols: set[str], numbers: dict[str, int]) -> str:
    """A symbol that is not taken; `numbers` holds where to go on for each target."""
    number = numbers.get(target, 0)
    while f"{target}_{number}" in symbols:
        number += 1
    numbers[target] = number + 1
    return f"{target}_{number}"


def _outline(region: RegionOp, symbol: str) -> FuncOp:
    call = CallOp.of(
        symbol,
        list(region.inputs),
        [r.type for r in region.outputs],
        handed_off(region),
        region.location,
    )
    inputs, outputs = [v.type for v in region.inputs], [r.type for r in region.outputs]
    terminator = region.body.block.last_op
    assert isinstance(terminator, YieldOp)
    Rewriter.replace_op(terminator, ReturnOp(*terminator.values))
    body = region.detach_region(region.body)
    target, location = region.target, region.location
    Rewriter.replace_op(region, call)
    function = FuncOp(symbol, (inputs, outputs), body, visibility="private")
    function.attributes[TARGET] = target
    function.location = location
    return function


def handed_off(region: RegionOp) -> HandedOffAttr:
    """What a call of this region stands for."""
    taken = [
        TakenAttr(op.pattern, op.level, ArrayAttr([StringAttr(n) for n in names(op.location)]))
        for op in region.body.block.ops
        if isinstance(op, CompositeOp)
    ]
    return HandedOffAttr(
        region.target.target_name,
        ArrayAttr(taken),
        ArrayAttr([v.type for v in region.inputs]),
        ArrayAttr([r.type for r in region.outputs]),
    )
