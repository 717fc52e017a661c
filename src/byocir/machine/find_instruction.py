"""Finds the instruction that does a block: tries patterns, rules and limits on the block alone.

An instruction sees a block as its own small program: operands are the boxes that the block reaches,
iterators of one point are gone, and dimensions of size one are left out until an operand has as
many as the pattern reads it with. So a product of 16 pixels of a row with 16 channels is
`"m n | k"`, whatever the array around it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Literal

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.tir import BlockOp, FillOp, IteratorAttr, buffer, scope_of
from byocir.dialects.tir.affine import linear
from byocir.dialects.tir.linear import spans
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.machine.description import Machine
from byocir.machine.instructions import WORK, Fit, Instruction, Kind
from byocir.machine.operand_places import Place
from byocir.machine.parts import MAIN, Memory, Operand
from byocir.patterns import Match
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.differences import body_differs
from byocir.patterns.match import BoundBlock, Progress
from byocir.patterns.scalars import match_body


@dataclass(frozen=True)
class Misfit:
    """Says why an instruction does not do a block; an empty reason means that it takes other
    operands.
    """

    instruction: Instruction
    reason: str


Asked = Literal["pattern", "memories", "all"]
"""The things that must fit: the pattern alone; its operands' memories, too; or sizes and rules as
well."""


def fits(
    machine: Machine,
    block: BlockOp,
    *,
    start: Attribute | None = None,
    asked: Asked = "all",
    only: Instruction | None = None,
) -> Iterator[Fit | Misfit]:
    """Tries each instruction, or only one, on a block without its bases, guards and pads. With
    `start` the block begins with that number in place of what its result was before.
    """
    key = "bodies", body_key(block.body.block)
    differences = machine.answer(key, lambda: _body_differences(machine, block))
    for instruction in machine.instructions if only is None else [only]:
        yield _fit(instruction, block, start, asked, differences)


def _body_differences(machine: Machine, block: BlockOp) -> Mapping[BlockPattern, str]:
    """Says how bodies differ, for each form of an instruction that has as many inputs as a block
    and computes something else.
    """
    orders = list(permutations(range(len(block.ins))))
    forms = [form for each in machine.instructions for form in each.forms]
    return {
        form: body_differs(block, form.body)
        for form in forms
        if len(form.reads) == len(block.ins)
        and not any(True for order in orders for _ in match_body(block, order, form.body))
    }


def _fit(
    instruction: Instruction,
    block: BlockOp,
    start: Attribute | None,
    asked: Asked,
    body_differences: Mapping[BlockPattern, str],
) -> Fit | Misfit:
    reason = ""
    for form in instruction.forms:
        if isinstance(form.init, Operand) and start is not None:
            continue
        if form in body_differences:
            reason = reason or body_differences[form]
            continue
        for ranks in _ranks(instruction, form, len(block.ins)):
            root = local_form(block, ranks, start)
            if root is None:
                continue
            progress = Progress()
            for state in instruction.pattern.states(root, progress):
                if state.nodes.get(id(form)) is not root:
                    continue
                fit = _bound(instruction, form, Match(state, root), block)
                told = "" if asked == "pattern" else _misplaced(fit, block)
                if not told and asked == "all":
                    told = _illegal(fit, Match(state, root), block)
                if not told:
                    return fit
                reason = reason or told
            reason = reason or progress.reason
    return Misfit(instruction, reason)


Rank = tuple[int, int]
"""The dimensions that an operand has, and how many of them, the last ones, are lanes."""


def _ranks(instruction: Instruction, form: BlockPattern, count: int) -> list[tuple[Rank, ...]]:
    """Lists the ways in which operands can be ordered, each with the number of dimensions and lanes
    that a form reads of it.
    """
    if len(form.reads) != count:
        return []
    found: list[Rank] = []
    for read, index in zip(form.reads, form.indices, strict=True):
        memory = read.pattern.memory if isinstance(read.pattern, Operand) else MAIN
        found.append((len(index), _lanes(memory)))
    out = len(form.out), _lanes(instruction.into)
    return [(*order, out) for order in dict.fromkeys(permutations(found))]


def _lanes(memory: Memory) -> int:
    return 0 if memory.is_main else len(memory.row)


def local_form(
    block: BlockOp, ranks: Sequence[Rank], start: Attribute | None = None
) -> BlockOp | None:
    """Makes of a block a program of its own, with operands of these ranks. None where an operand
    has more dimensions of several elements, or an index that divides, and where the block has no
    iterators.
    """
    extents = block.extents
    if not extents:  # a single number, over which no instruction has a step
        return None
    kept = [i for i, extent in enumerate(extents) if extent > 1] or [0]
    places = {i: AffineExpr.dimension(n) for n, i in enumerate(kept)}
    types, maps = list[Attribute](), list[AffineMap]()
    for value, map_, rank in zip(
        [*block.ins, *block.outs], [*block.in_maps, *block.out_maps], ranks, strict=True
    ):
        sides = [_side(expr, extents, places) for expr in map_.results]
        if any(side is None for side in sides):
            return None
        shape = _with_rank([side for side in sides if side is not None], rank)
        if shape is None:
            return None
        types.append(
            buffer(element_type_of(value.type), [n for n, _ in shape], scope_of(value.type))
        )
        maps.append(AffineMap(len(kept), 0, tuple(expr for _, expr in shape)))
    iterators = [block.iterators.data[i] for i in kept]
    return on_its_own(block, iterators, types, maps, start)


def on_its_own(
    block: BlockOp,
    iterators: Sequence[IteratorAttr],
    types: Sequence[Attribute],
    maps: Sequence[AffineMap],
    start: Attribute | None = None,
) -> BlockOp:
    """Makes a program of its own with one block, which has the body of another and works on arrays
    of these types. With `start` its result begins with that number.
    """
    outside, count = Block(arg_types=types), len(block.ins)
    if start is not None:
        outside.add_op(FillOp.of(start, outside.args[count], block.location))
    ins, outs = outside.args[:count], outside.args[count:]
    made = BlockOp(iterators, ins, outs, maps, block.body.clone(), location=block.location)
    outside.add_op(made)
    return made


def sized(block: BlockOp, sizes: Sequence[int]) -> BlockOp:
    """Makes the block over these extents, as a program of its own on arrays of the same types."""
    types = [value.type for value in [*block.ins, *block.outs]]
    if block.in_value_form:
        types = [buffer(element_type_of(type_), shape_of(type_)) for type_ in types]
    iterators = [it.resized(size) for it, size in zip(block.iterators, sizes, strict=True)]
    return on_its_own(block, iterators, types, [*block.in_maps, *block.out_maps])


def kind_of(
    machine: Machine,
    name: str,
    block: BlockOp,
    key: Hashable,
    extents: Shape,
    start: Attribute | None,
) -> Kind | str:
    """Gives what a call of an instruction is that does so many points of a block, or says why there
    is none; `key` is that of the block.
    """

    def found() -> Kind | str:
        piece = sized(block, extents)
        said = fits(machine, piece, start=start)
        fit = next((each for each in said if each.instruction.name == name), None)
        if not isinstance(fit, Fit):
            return fit.reason if fit else f"{machine.name} has none of this name"
        scattered = _scattered(fit, piece)
        if scattered:
            return scattered
        sizes = fit.sizes(extents)
        costs = fit.instruction.cost(sizes), fit.instruction.cost_kept(sizes)
        return Kind(fit, piece, start, sizes, *costs)

    return machine.answer(("kind", name, key, extents, start), found)


_Side = tuple[int, AffineExpr]
"""The size of a dimension of a box, and its index."""


def _side(
    expr: AffineExpr, extents: Sequence[int], places: Mapping[int, AffineExpr]
) -> _Side | None:
    form = linear(expr)
    if form is None:
        return None
    low, high = form.interval(spans(extents).__getitem__)
    index: AffineExpr = AffineExpr.constant(form.constant - low)
    for i, coefficient in form.terms:
        index = index + places[i] * coefficient if extents[i] > 1 else index
    return high - low + 1, index


def _with_rank(sides: Sequence[_Side], rank: Rank) -> list[_Side] | None:
    """Drops leading dimensions of size one until so many are left, and adds such dimensions where
    there are fewer; lanes are kept. None where too many have several elements.
    """
    left = len(sides) - rank[0]
    kept: list[_Side] = []
    for at, (size, index) in enumerate(sides):
        if left > 0 and size == 1 and at < len(sides) - rank[1]:
            left -= 1
        else:
            kept.append((size, index))
    one = (1, AffineExpr.constant(0))
    return [*[one] * (rank[0] - len(kept)), *kept] if left <= 0 else None


def _bound(instruction: Instruction, form: BlockPattern, match: Match, block: BlockOp) -> Fit:
    work: BoundBlock = match[WORK]
    kept = [i for i, extent in enumerate(block.extents) if extent > 1] or [0]
    iterators = {
        name: tuple(kept[p] for p in positions if p < len(kept))
        for name, positions in work.iterators.items()
    }
    memories = [MAIN] * len(block.ins)
    operands: dict[str, int] = {}
    for read, position in zip(form.reads, work.operands, strict=True):
        if isinstance(read.pattern, Operand):
            memories[position] = read.pattern.memory
        operands[read.pattern.label or f"in{position}"] = position
    out = form.init.label if isinstance(form.init, Operand) else None
    operands[out or "out"] = len(block.ins)
    names: Mapping[str, Any] = match.state.names
    numbers = {name: n for name, n in names.items() if isinstance(n, int)}
    memories.append(instruction.into)
    turns = _turns(block, operands.get(instruction.keeps))
    return Fit(instruction, form, iterators, operands, tuple(memories), numbers, turns)


def _turns(block: BlockOp, position: int | None) -> frozenset[int]:
    """Gives the iterators on which the index of an operand depends."""
    if position is None:
        return frozenset()
    forms = [linear(expr) for expr in block.maps.data[position].data.results]
    return frozenset(i for form in forms if form is not None for i, _ in form.terms)


def _misplaced(fit: Fit, block: BlockOp) -> str:
    """Names an operand that is in another memory than the instruction needs; empty if none is."""
    for value, memory in zip([*block.ins, *block.outs], fit.memories, strict=True):
        if scope_of(value.type) != memory.scope:
            return f"expected an operand in {memory.called}, found one in {_scope(value.type)}"
        if memory.element is not None and element_type_of(value.type) != memory.element:
            found = element_type_of(value.type)
            return f"expected elements of {memory.element} in {memory.called}, found {found}"
    return ""


def _illegal(fit: Fit, match: Match, block: BlockOp) -> str:
    """Names a limit or rule of the instruction that a block breaks; empty if it breaks none."""
    for name, size in fit.sizes(block.extents).items():
        limit = fit.instruction.limits.get(name)
        if limit is not None and not limit.allows(size):
            return f"expected {name} {limit}, found {size}"
    rules = [rule.evaluate(match) for rule in fit.instruction.pattern.rules]
    broken = [rule for rule in rules if not rule.holds]
    return f"{broken[0].sentence}, found {broken[0].seen}" if broken else ""


def _scope(type_: Attribute) -> str:
    return scope_of(type_) or "main memory"


def _scattered(fit: Fit, block: BlockOp) -> str:
    """Names an operand whose rows, or elements in main memory, do not follow each other although
    the instruction needs that; empty if there is none.
    """
    values, sizes = [*block.ins, *block.outs], fit.sizes(block.extents)
    for name, position in fit.operands.items():
        memory, value = fit.memories[position], values[position]
        forms = [linear(expr) for expr in block.maps.data[position].data.results]
        is_result = position == len(block.ins)
        if not memory.is_main and ("out" if is_result else name) in fit.instruction.strided:
            continue
        for iterator, at in fit.iterators.items():
            moved = tuple(f.coefficient(at[-1]) if f is not None and at else 0 for f in forms)
            step = Place(memory, value, (), {iterator: moved}).stride(iterator)
            wide = sizes[iterator] > 1 and (not memory.is_main or moved[-1:] != (0,))
            if wide and step not in (0, 1):
                return f"expected {name} of {iterator} one after the other, found {step} apart"
    return ""


def body_key(block: Block) -> tuple[Any, ...]:
    """Makes a key that differs for bodies which compute different things."""
    numbers: dict[Any, int] = {arg: i for i, arg in enumerate(block.args)}
    key: list[Any] = [tuple(arg.type for arg in block.args)]
    for op in block.ops:
        key.append((op.name, tuple(numbers[v] for v in op.operands), _properties(op)))
        for result in op.results:
            numbers[result] = len(numbers)
            key.append(result.type)
    return tuple(key)


def _properties(op: Operation) -> tuple[Any, ...]:
    return (op.value,) if isinstance(op, arith.ConstantOp) else tuple(op.properties.items())


def pattern_key(block: BlockOp) -> tuple[Any, ...]:
    """Makes a key of all that decides whether patterns match a block whose operands lie in these
    memories.
    """
    maps = tuple(tuple(linear(expr) for expr in attr.data.results) for attr in block.maps)
    terms = tuple(tuple(f.terms if f is not None else None for f in map_) for map_ in maps)
    types = tuple(
        (element_type_of(v.type), "" if block.in_value_form else scope_of(v.type))
        for v in [*block.ins, *block.outs]
    )
    kinds = tuple(it.kind.data for it in block.iterators)
    return kinds, terms, types, body_key(block.body.block)


def block_key(block: BlockOp) -> tuple[Any, ...]:
    """Makes a key of all that decides which instruction does a block: all but where its boxes
    start.
    """
    values = [*block.ins, *block.outs]
    shapes = () if block.in_value_form else tuple(shape_of(v.type) for v in values)
    return block.extents, shapes, pattern_key(block)
