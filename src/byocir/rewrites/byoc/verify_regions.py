"""`verify-regions`: checks that what was handed off is legal, whoever made it.

Requires: nothing. Guarantees: nothing changes. An error names the region if the program is not
acyclic (a value used before it is computed), if an input or output of a region is listed twice or
never used, if a region function is called by none or its call names another target than it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGET, CallOp, CompositeOp, RegionOp, TargetAttr
from byocir.dialects.dominance import InvalidOp, verify_dominance
from byocir.dialects.verify import verify_calls
from byocir.dialects.walk import enclosing, ops_of
from byocir.errors import ByocirError
from byocir.patterns.legality import describe


@dataclass(frozen=True)
class VerifyRegionsPass(ModulePass):
    """Raises ByocirError B226 for the first region or region function that is not legal."""

    name = "verify-regions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        try:
            verify_regions(op)
        except InvalidOp as error:
            raise ByocirError("B226", str(error), where=describe(error.op)) from error


def verify_regions(module: ModuleOp) -> None:
    """Raises InvalidOp for the first region or region function that is not legal."""
    verify_dominance(module)
    ops = ops_of(module)
    verify_calls(module, ops)
    calls = [op for op in ops if isinstance(op, CallOp)]
    for op in ops:
        if isinstance(op, RegionOp | CompositeOp):
            verify_interface(op)
    for function in module.body.block.ops:
        if isinstance(function, FuncOp) and TARGET in function.attributes:
            _verify_function(function, calls)


def verify_interface(op: RegionOp | CompositeOp) -> None:
    """Raises InvalidOp unless inputs and outputs are each listed once, and used."""
    kind = op.name.removeprefix("byoc.")
    terminator = op.body.block.last_op
    assert terminator is not None
    for what, values in (("input", list(op.inputs)), ("output", list(terminator.operands))):
        twice = _repeated(values)
        if twice is not None:
            raise InvalidOp(f"expected every {what} of a {kind} once, found #{twice} again", op)
    unused = [i for i, arg in enumerate(op.body.block.args) if arg.first_use is None]
    if unused:
        raise InvalidOp(f"expected every input of a {kind} to be used, found #{unused[0]} not", op)
    dead = [i for i, result in enumerate(op.outputs) if result.first_use is None]
    if dead and len(dead) < len(op.outputs):
        raise InvalidOp(f"expected every output of a {kind} to be used, found #{dead[0]} not", op)


def _repeated(values: Sequence[SSAValue]) -> int | None:
    """Finds the position of the first value that stands earlier, too."""
    if len(set(values)) == len(values):
        return None
    seen = Counter[SSAValue]()
    for i, value in enumerate(values):
        seen[value] += 1
        if seen[value] > 1:
            return i
    return None


def _verify_function(function: FuncOp, calls: Iterable[CallOp]) -> None:
    symbol, target = function.sym_name.data, function.attributes[TARGET]
    mine = [call for call in calls if call.callee.root_reference.data == symbol]
    if not mine:
        raise InvalidOp(f"expected a call of @{symbol}, found none", function)
    for call in mine:
        _verify_call(call, symbol, target)


def _verify_call(call: CallOp, symbol: str, target: object) -> None:
    record = call.handed_off
    expected = target.target_name if isinstance(target, TargetAttr) else None
    if record is not None and record.target != expected:
        raise InvalidOp(
            f"expected the call of @{symbol} to stand for work of {expected}, "
            f"found {record.target}",
            call,
        )
    caller = enclosing(call, FuncOp)
    if caller is not None and TARGET in caller.attributes:
        raise InvalidOp(f"expected @{symbol} to be called by the host, found a region", call)
