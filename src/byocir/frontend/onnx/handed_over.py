"""Undoes the hand-over: restores a function to what it was before, for export.

Calls of region functions, regions, composites and markers become the ops they stand for. Where each
op was is kept beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation

from byocir.dialects import byoc
from byocir.dialects.locations import names, of_names
from byocir.dialects.uses import replace_op
from byocir.errors import ByocirError, did_you_mean

BEFORE_LOWERING = "export the module as it is before it is lowered to the tensor level"


@dataclass(frozen=True)
class OpPlacement:
    """Says where an op was handed over: its target, the function of its region, and its composite,
    with the level of the match. Fields are empty for what does not apply.
    """

    target: str
    region: str
    composite: str
    level: str


Places = dict[Operation, OpPlacement]
"""The ops of an inlined function that some target takes."""


def function_named(module: ModuleOp, name: str) -> FuncOp:
    """Gives a function of a module that has a body. Raises ByocirError B302 if there is none."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    bodies = [symbol for symbol, function in functions.items() if not function.is_declaration]
    if name in bodies:
        return functions[name]
    found, help_ = "none", did_you_mean(name, bodies)
    if name in functions:
        found, help_ = "its declaration", "its code was generated: take the module before that"
    raise ByocirError("B302", f"expected a function @{name} with a body, found {found}", help=help_)


def inlined(function: FuncOp) -> tuple[FuncOp, Places]:
    """Copies a function with nothing handed over any more, and notes where its ops were.

    Arrays are not copied. Raises ByocirError B302 for a call of a function without a body, B109 for
    one on buffers.
    """
    module, whole = function.parent_op(), function.clone()
    symbols: dict[Operation, str] = {whole: function.sym_name.data}
    for call in [op for op in whole.walk() if isinstance(op, byoc.CallOp)]:
        assert isinstance(module, ModuleOp)
        callee = function_named(module, call.callee.root_reference.data)
        symbols[_region_of(call, callee)] = callee.sym_name.data
    places: Places = {}
    for op in list(whole.walk()):
        if isinstance(op, byoc.CompositeOp):
            places.update(_places(op, symbols))
            byoc.inline(op)
    for op in list(whole.walk()):
        if isinstance(op, byoc.RegionOp):
            byoc.inline(op)
        elif isinstance(op, byoc.BeginOp | byoc.EndOp):
            replace_op(op, [], [op.input])
    return whole, places


def _region_of(call: byoc.CallOp, callee: FuncOp) -> byoc.RegionOp:
    """Replaces a call by the body of the function. Regions that compute the same share a function,
    which has the locations of all; the copy gets only those of its own.
    """
    target, types = callee.attributes.get(byoc.TARGET), [result.type for result in call.outputs]
    if not isinstance(target, byoc.TargetAttr) or list(callee.function_type.outputs) != types:
        raise ByocirError(
            "B109",
            f"expected a region function of tensors, found @{callee.sym_name.data} of "
            f"{callee.function_type}",
            help=BEFORE_LOWERING,
        )
    record, body = call.handed_off, callee.body.clone()
    own = {node.data for each in record.composites for node in each.nodes} if record else set[str]()
    for op in body.walk():
        kept = [name for name in names(op.location) if name in own]
        op.location = of_names(kept) if kept else op.location
    terminator = body.block.last_op
    assert isinstance(terminator, ReturnOp)
    replace_op(terminator, byoc.YieldOp.create(operands=list(terminator.arguments)))
    region = byoc.RegionOp.of(target, list(call.inputs), types, body, call.location)
    replace_op(call, region)
    return region


def _places(op: byoc.CompositeOp, symbols: dict[Operation, str]) -> Places:
    around = op.parent_op()
    target: Attribute | None = None
    if isinstance(around, byoc.RegionOp):
        target = around.target
    elif isinstance(around, FuncOp):
        target = around.attributes.get(byoc.TARGET)
    taker = target.target_name.data if isinstance(target, byoc.TargetAttr) else ""
    region = symbols.get(around, "") if taker and around is not None else ""
    place = OpPlacement(taker, region, op.pattern.data, op.level.data)
    return dict.fromkeys(op.body.walk(), place)
