"""`outline-regions`: turns regions into functions that carry their target.

Requires: `byoc.region`s. Guarantees: each is a private function `@<target>_<n>` with `byoc.target`
and, if it has one, its `byoc.group`, and a `byoc.call` in its place, which records the composites
taken, their group, the types that cross and what kept it apart from earlier calls. Regions of one
group that compute the same with the same constants share one function; its ops have the locations
of all of them. A function in memory takes what it writes last, and `inputs` counts what is before.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    LocationAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, Region, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import (
    GROUP,
    TARGET,
    CallOp,
    CompositeOp,
    CutAttr,
    HandedOffAttr,
    RegionOp,
    TakenAttr,
    YieldOp,
    node_names,
)
from byocir.dialects.gc_pause import gc_paused
from byocir.dialects.locations import fuse, names
from byocir.dialects.uses import reorder_arguments, replace_op
from byocir.dialects.walk import ops_in, ops_of, ops_of_class
from byocir.evaluate.ports import INPUTS, is_in_memory, ports_of, written_in
from byocir.rewrites.byoc.host_blocks import host_functions
from byocir.rewrites.byoc.join import Replaced

NO_CUTS = ArrayAttr[CutAttr]([])


@dataclass(frozen=True)
class OutlineRegionsPass(ModulePass):
    """Turns every region into a function."""

    name = "outline-regions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        defined = [f.properties.get("sym_name") for f in op.body.block.ops]
        symbols = {name.data for name in defined if isinstance(name, StringAttr)}
        symbols |= {call.callee.root_reference.data for call in ops_of_class(op, CallOp)}
        numbers: dict[str, int] = {}
        with gc_paused():
            same: dict[Hashable, list[RegionOp]] = {}
            caller: dict[RegionOp, Operation] = {}
            for function, region in _regions(op):
                _put_outputs_last(region)
                caller[region] = function
                same.setdefault(content(region), []).append(region)
            replaced = Replaced()
            last: dict[Operation, Operation] = {}  # each caller's functions stand behind it
            for alike in same.values():
                symbol = _fresh(alike[0].target.target_name.data, symbols, numbers)
                function = caller[alike[0]]
                made = _outline(alike, symbol, replaced)
                op.body.block.insert_op_after(made, last.get(function, function))
                last[function] = made
            replaced.finish()


def _regions(module: ModuleOp) -> Iterator[tuple[FuncOp, RegionOp]]:
    """Gives the regions of functions that are no target's, and the functions."""
    for function in host_functions(module):
        for region in ops_of_class(function, RegionOp):
            yield function, region


def _put_outputs_last(region: RegionOp) -> None:
    """Orders what a region takes as functions in memory have it: `(a, c, b)`, of which c is
    written → `(a, b, c)`.
    """
    body, old = region.body.block, list(region.body.block.args)
    if not any(isinstance(arg.type, MemRefType) for arg in old):
        return
    written = written_in(region)
    order = sorted(range(len(old)), key=lambda i: old[i] in written)
    if order == sorted(order):
        return
    region.operands = [region.operands[i] for i in order]
    reorder_arguments(body, order)


def _fuse_locations(regions: Sequence[RegionOp]) -> None:
    """Gives each op of the first region the locations of the ops that it stands for in the
    others.
    """
    if len(regions) < 2:
        return
    fused: dict[tuple[int, ...], LocationAttr] = {}
    for ops in zip(*(ops_of(region)[1:] for region in regions), strict=True):
        same = tuple([id(op.location) for op in ops])  # a composite and its only op share theirs
        if same not in fused:
            fused[same] = fuse(*ops)
        ops[0].location = fused[same]


def content(region: RegionOp) -> Hashable:
    """Makes a key of all that a region computes, of its target and its group, but not of the names
    and origins of its values. The sequence of ops, with the shape of the blocks inside each, fixes
    the tree.
    """
    numbers: dict[SSAValue, int] = {}
    key: list[Hashable] = [region.properties["target"], region.properties.get("group")]
    _add_blocks(region.body, numbers, key)
    for op in ops_of(region)[1:]:
        key += (
            op.name,
            frozenset(op.properties.items()),
            frozenset(op.attributes.items()),
            tuple([numbers[value] for value in op.operands]),
            tuple([result.type for result in op.results]),
        )
        for inner in op.regions:
            _add_blocks(inner, numbers, key)
        for result in op.results:
            numbers[result] = len(numbers)
    return tuple(key)


def _add_blocks(region: Region, numbers: dict[SSAValue, int], key: list[Hashable]) -> None:
    """Numbers the arguments of each block; adds their types and the number of the block's ops to
    a key.
    """
    for block in region.blocks:
        for arg in block.args:
            numbers[arg] = len(numbers)
        key += (tuple([arg.type for arg in block.args]), len(ops_in(block)))


def _fresh(target: str, symbols: set[str], numbers: dict[str, int]) -> str:
    """Makes a symbol that is not taken; `numbers` says where to go on for each target."""
    number = numbers.get(target, 0)
    while f"{target}_{number}" in symbols:
        number += 1
    numbers[target] = number + 1
    return f"{target}_{number}"


def _outline(regions: Sequence[RegionOp], symbol: str, replaced: Replaced) -> FuncOp:
    """Makes one function of regions that compute the same, and replaces each of them by a call."""
    first = regions[0]
    calls = _calls(regions, symbol)
    _fuse_locations(regions)
    inputs, outputs = [v.type for v in first.inputs], [r.type for r in first.outputs]
    terminator = first.body.block.last_op
    assert isinstance(terminator, YieldOp)
    replace_op(terminator, ReturnOp(*terminator.values))
    body = first.detach_region(first.body)
    function = FuncOp(symbol, (inputs, outputs), body, visibility="private")
    function.attributes[TARGET] = first.target
    if first.group is not None:
        function.attributes[GROUP] = first.group
    if is_in_memory(function):
        function.attributes[INPUTS] = IntegerAttr(len(ports_of(function)[0]), 64)
    function.location = fuse(*regions)
    for region, call in zip(regions, calls, strict=True):
        block = region.parent
        assert block is not None
        block.insert_op_before(call, region)
        for result, made in zip(region.outputs, call.outputs, strict=True):
            replaced.replace(result, made)
    replaced.gone += regions
    return function


def _calls(regions: Sequence[RegionOp], symbol: str) -> list[CallOp]:
    """Makes the calls that replace regions which compute the same, each with the record of the work
    that it stands for."""
    first = regions[0]
    inputs = ArrayAttr([value.type for value in first.inputs])
    outputs = ArrayAttr([result.type for result in first.outputs])
    calls: list[CallOp] = []
    for region in regions:
        taken = ArrayAttr(
            [_taken(op) for op in ops_in(region.body.block) if type(op) is CompositeOp]
        )
        record = HandedOffAttr(
            first.target.target_name, taken, inputs, outputs, region.cuts or NO_CUTS
        )
        call = CallOp.of(symbol, list(region.operands), outputs.data, record, region.location)
        call.group = first.group
        calls.append(call)
    return calls


def _taken(composite: CompositeOp) -> TakenAttr:
    return TakenAttr(composite.pattern, composite.level, node_names(names(composite.location)))
