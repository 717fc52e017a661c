"""split-bodies: splits blocks into chains of blocks that instructions do one by one.

Does: where no instruction computes what a block does, as vector units that do one operation at a
time cannot do a whole requantise, makes blocks of the parts of its body that instructions do, those
that take the fewest cycles together. Parts whose instruction overwrites what it reads begin with
the result of the part before, in the same buffer. Numbers that fit no instruction as they are
become arrays, or products of constants where an instruction adds products. Where instructions
compute in one type of integers, the body is restated in that, with one number behind a sum in place
of numbers in its terms, and sums of bytes, scaled, with a factor for each of these. Negations of
floats may be products with -1, and arithmetic on halves may be in f32, rounded. Windows of which
the greatest, the least or the sum is taken become windows of wider numbers, where an instruction
does those, along one dimension after the other if that takes fewer cycles; the greatest and the
least come in front of what is computed of each element, where that keeps order. What a block
reduces is computed by one of its own, where an instruction reduces elements as they are. What a
body computes of fewer dimensions than its block has, as the root of a norm's variance, is computed
by a block of these dimensions where that takes fewer cycles, and what several blocks compute is
computed once. Copies are put between blocks whose instructions use different memories. Weights of
nine bits become sums of bytes.

Requires: composites on tensors in functions of described machines, after `fuse-epilogues`.

Guarantees: the same results, bit for bit. A block that cannot be split stays as it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.array import Array
from byocir.dialects.new_ops import clone_op, clone_region
from byocir.dialects.tir import BlockOp, ConstantOp, EmptyOp
from byocir.dialects.tir.scalar import number_op
from byocir.dialects.types import element_type_of, shape_of, tensor, width_of
from byocir.dialects.uses import erase, put_before, replace_op
from byocir.machine import MAIN, Machine
from byocir.machine.nearest_misses import Misfit
from byocir.patterns.scalars import types_of
from byocir.rewrites.block_ends import NOTHING, Known, scalar_ends
from byocir.rewrites.host.fuse_blocks import (
    computes_each,
    is_map,
    number_input,
    reading_once,
    with_numbers,
)
from byocir.rewrites.machine import searched_composites
from byocir.rewrites.machine.bridge_memories import bridge_memories
from byocir.rewrites.machine.cover_bodies import Cover, Reasons
from byocir.rewrites.machine.gather_numbers import gather_numbers
from byocir.rewrites.machine.idle_clamps import drop_idle_clamps, has_idle_clamps
from byocir.rewrites.machine.outer_parts import outer_part, take_out
from byocir.rewrites.machine.pieces import (
    Made,
    Piece,
    Source,
    block_of,
    count_reads,
    result_type,
)
from byocir.rewrites.machine.restate_bodies import Integer, is_signed, restated
from byocir.rewrites.machine.saturating_sums import saturating_sum, with_both_ends
from byocir.rewrites.machine.split_reductions import split_reductions
from byocir.rewrites.machine.whole_blocks import cycles_of_whole, is_done
from byocir.rewrites.machine.wide_halves import compute_in_f32, computes_in_halves
from byocir.rewrites.machine.widen_windows import widen_windows
from byocir.rewrites.ranges_of_arguments import ranges_of_arguments
from byocir.rewrites.wide_weights import wide_weights, with_bytes_as_weights


@dataclass(frozen=True)
class SplitBodiesPass(ModulePass):
    """Splits blocks into what instructions of a machine do."""

    name = "split-bodies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        given = ranges_of_arguments(op)
        for composite, machine in searched_composites(op):
            split_bodies(machine, composite.body.block, given)


def split_bodies(machine: Machine, body: Block, given: Known = NOTHING) -> None:
    """Splits those blocks of a body on tensors that no instruction does, and several together
    do. `given` bounds arrays that are made elsewhere.
    """
    _split_weights(machine, body)
    widen_windows(machine, body, given)
    split_reductions(machine, body)
    _put_numbers(machine, body)
    for op in list(body.ops):
        if isinstance(op, BlockOp) and _may_be_split(machine, op):
            _split(machine, op, given)
    _merge_equal(machine, body)
    bridge_memories(machine, body)
    for op in list(body.ops):
        if isinstance(op, EmptyOp) and not op.result.uses:
            erase(op)


def _split(machine: Machine, op: BlockOp, given: Known) -> tuple[float, SSAValue]:
    """Splits a block that no instruction does, if several do it together. Gives the cycles of what
    does it now, infinitely many where nothing does, and its result.
    """
    if not _may_be_split(machine, op):
        return cycles_of_whole(machine, op), op.results[0]
    ways = _Ways(machine, op, given)
    best = ways.best()
    cycles, result = inf if best is None else best[1].cycles, op.results[0]
    others = (_split_instead(machine, op, made, given, cycles) for made in _others(op))
    found = next((other for other in others if other is not None), None)
    if found is not None:
        cycles, result = found
    elif best is not None:
        result = _Emitter(*best, op).result
    if result is not op.results[0]:
        replace_op(op, [], [result])
    ways.forget()
    return cycles, result


def _others(op: BlockOp) -> Iterator[Sequence[Operation]]:
    """Yields ops that compute what a block does, by its last one: in f32 what it computes of
    halves, or by a block of its own what it computes of fewer dimensions.
    """
    if computes_in_halves(op):
        wide = clone_op(op)
        compute_in_f32(wide)
        yield [wide]
    found = outer_part(op)
    if found is not None:
        yield take_out(op, *found)


def _split_instead(
    machine: Machine, op: BlockOp, made: Sequence[Operation], given: Known, most: float
) -> tuple[float, SSAValue] | None:
    """Splits blocks that compute what another one does, in front of it, if they take fewer cycles
    than `most`; gives their cycles and the result, else None.
    """
    assert op.parent is not None
    before, cycles, result = op.prev_op, 0.0, op.results[0]
    op.parent.insert_ops_before(made, op)
    for block in made:
        if isinstance(block, BlockOp) and cycles < most:
            more, result = _split(machine, block, given)
            cycles += more
    if cycles < most:
        return cycles, result
    while (last := op.prev_op) is not None and last is not before:
        erase(last)
    return None


def _split_weights(machine: Machine, body: Block) -> None:
    """Restates contractions with weights of i16 that no instruction does as ones with bytes."""
    lanes = max((memory.row[-1] for memory in machine.memories if memory.row), default=1)
    for op in list(body.ops):
        if isinstance(op, BlockOp) and wide_weights(op) is not None and not is_done(machine, op):
            with_bytes_as_weights(op, lanes)


def _put_numbers(machine: Machine, body: Block) -> None:
    """Puts constants of one element into the bodies of blocks, where instructions do the whole of
    those: as an operand, the number would be loaded first.
    """
    for op in list(body.ops):
        if not isinstance(op, BlockOp) or not op.in_value_form or not is_map(op):
            continue
        if number_input(op) is not None:
            trial = clone_op(op)
            Block([trial])
            numbered = with_numbers(trial)
            if is_done(machine, numbered):
                with_numbers(op)
            erase(numbered)


def _merge_equal(machine: Machine, body: Block) -> None:
    """Computes once what several blocks compute, where none overwrites it: a norm and its variance
    both need how far its elements are from their mean.
    """
    known = dict[Hashable, BlockOp]()
    for op in list(body.ops):
        if not isinstance(op, BlockOp) or not is_map(op) or _is_overwritten(op):
            continue
        key = (tuple(op.ins), op.maps, op.pads, op.extents, machine.keys.body(op.body.block))
        first = known.setdefault(key, op)
        if first is not op:
            replace_op(op, [], [first.results[0]])


def _is_overwritten(op: BlockOp) -> bool:
    users = (use.operation for use in op.results[0].uses)
    return any(isinstance(user, BlockOp) and op.results[0] in user.outs for user in users)


def why_whole(machine: Machine, op: BlockOp) -> tuple[list[Misfit], list[str]]:
    """Says what instructions refuse that do a block restated, and why it is not split, first of the
    form of which the most is done, and of these the last, restated in a type of the machine; empty
    if it is none that might be.
    """
    if not _may_be_split(machine, op):
        return [], []
    ways, reasons = _Ways(machine, op), Reasons()
    ways.best(reasons)
    ways.forget()
    lost = sorted(reasons.lost[::-1], key=lambda each: -each[0])
    return reasons.whole, [told for _, told in lost]


def _may_be_split(machine: Machine, op: BlockOp) -> bool:
    if not op.in_value_form or not computes_each(op) or is_done(machine, op):
        return False
    return isinstance(op.outs[0].owner, BlockOp | EmptyOp)


class _Ways:
    """Makes the forms in which a block may be split: as it is, with numbers in its body, and
    restated in each type of integers that a memory holds, in each way to clamp, with all clamps of
    terms and without those that need not act.
    """

    def __init__(self, machine: Machine, op: BlockOp, given: Known = NOTHING) -> None:
        self._machine = machine
        stays = all(isinstance(use.operation, BlockOp) for use in op.results[0].uses)
        self._memories = [
            memory
            for memory in (MAIN, *machine.memories)
            if stays or machine.path(memory, MAIN) is not None
        ]
        self._forms, self._restated = Block(), list[BlockOp]()
        first = self._put(_without_start(op))
        self._first = _without_ones(reading_once(with_numbers(first)))
        gathered = clone_op(self._first)
        self._forms.add_op(gathered)
        ends = gather_numbers(gathered, given)
        self._bodies = [(gathered, ends)]
        if has_idle_clamps(gathered, ends):
            eased = clone_op(gathered)
            self._forms.add_op(eased)
            drop_idle_clamps(eased, given)
            self._bodies.append((eased, scalar_ends(eased, given)))

    def best(self, reasons: Reasons | None = None) -> tuple[Cover, Piece] | None:
        """Finds the cheapest chain of pieces. `reasons`, where they are asked for, get why forms
        have none, each with how much of it is done.
        """
        found = [*self._covered(self._each(reasons), reasons)]
        if not found:
            # what is known of its numbers may have dropped a clamp that an instruction has
            ended = (with_both_ends(form) for form in self._restated)
            found = [*self._covered((self._put([each]) for each in ended if each), reasons)]
        return min(found, key=lambda pair: pair[1].cycles, default=None)

    def _covered(
        self, forms: Iterable[BlockOp], reasons: Reasons | None
    ) -> Iterator[tuple[Cover, Piece]]:
        """Yields for each form the cheapest chain of pieces, if there is one."""
        for form in forms:
            cover = Cover(self._machine, form, reasons=reasons)
            piece = cover.best(self._memories)
            if piece is not None:
                yield cover, piece

    def _each(self, reasons: Reasons | None) -> Iterator[BlockOp]:
        yield self._first
        if any(isinstance(inner, arith.NegfOp) for inner in self._first.body.block.ops):
            yield self._put([_with_negations_multiplied(self._first)])
        for type_ in self._machine.answer(("integers",), lambda: _integers_of(self._machine)):
            for body, ends in self._bodies:
                found = restated(body, type_, ends)
                if not isinstance(found, str):
                    forms = [self._put(made) for made in found]
                    self._restated += forms
                    yield from forms
                    sums = (saturating_sum(form) for form in forms)
                    yield from (self._put([form]) for form in sums if form is not None)
                elif reasons is not None:
                    reasons.lost.append((-1, found))

    def _put(self, made: Sequence[Operation]) -> BlockOp:
        self._forms.add_ops(made)
        block = made[-1]
        assert isinstance(block, BlockOp)
        return block

    def forget(self) -> None:
        """Erases the forms, which still use what the block reads."""
        for op in reversed(list(self._forms.ops)):
            erase(op)


def _integers_of(machine: Machine) -> list[Integer]:
    """Lists the types of integers that memories hold, the widest first, and then those in which
    instructions alone compute.
    """
    held = dict.fromkeys(memory.element for memory in machine.memories)
    forms = [form for instruction in machine.instructions for form in instruction.forms]
    used = dict.fromkeys(to for form in forms for to in types_of(form.body, len(form.reads)))
    inside = [type_ for type_ in used if is_signed(type_) and type_ not in held]
    return sorted((each for each in held if is_signed(each)), key=width_of, reverse=True) + inside


def _without_start(op: BlockOp) -> list[Operation]:
    """Copies a block as one that reads what another block has left in its place as it reads its
    inputs.
    """
    start = op.outs[0]
    if isinstance(start.owner, EmptyOp):
        return [clone_op(op)]
    body = clone_region(op.body)
    old = body.block.args[-1]
    body.block.insert_arg(old.type, len(body.block.args))
    empty = EmptyOp.of(tensor(element_type_of(start.type), shape_of(start.type)), op.location)
    maps, pads = [*op.in_maps, *op.out_maps, *op.out_maps], [*op.pad_values, None]
    read = op.like(ins=[*op.ins, start], outs=empty.results, maps=maps, pads=pads, body=body)
    return [empty, read]


def _without_ones(op: BlockOp) -> BlockOp:
    """Makes a block read constants without their dimensions of one element: the dimensions that are
    left may be lanes.
    """
    ins, maps = list(op.ins), [*op.in_maps, *op.out_maps]
    for i, value in enumerate(op.ins):
        constant, shape = value.owner, shape_of(value.type)
        kept = [d for d, size in enumerate(shape) if size > 1]
        if not isinstance(constant, ConstantOp) or len(kept) == len(shape):
            continue
        if constant.value.data.present and i not in op.whole and op.pad_values[i] is None:
            array = constant.value.data.values().reshape([shape[d] for d in kept])
            made = ConstantOp.of(Array.of(array), location=constant.location)
            assert op.parent is not None
            op.parent.insert_op_before(made, op)
            ins[i] = made.result
            maps[i] = AffineMap(maps[i].num_dims, 0, tuple(maps[i].results[d] for d in kept))
    made = op.like(ins=ins, maps=maps)
    replace_op(op, made)
    return made


def _with_negations_multiplied(op: BlockOp) -> BlockOp:
    """Copies a block with products of floats and -1 for their negations."""
    made = clone_op(op)
    for inner in list(made.body.block.ops):
        if isinstance(inner, arith.NegfOp):
            minus_one = number_op(-1.0, inner.operand.type)
            replace_op(inner, [minus_one, arith.MulfOp(inner.operand, minus_one.result)])
    return made


class _Emitter:
    """Emits the blocks of pieces, in front of another block."""

    def __init__(self, cover: Cover, piece: Piece, before: BlockOp) -> None:
        self._op, self._before, self._last = cover.op, before, piece
        self._known: dict[Source, SSAValue] = {}
        self._left = count_reads(piece)
        self.result = self._of(piece)

    def _of(self, source: Source) -> SSAValue:
        if source not in self._known:
            self._known[source] = self._emitted(source)
        return self._known[source]

    def _emitted(self, source: Source) -> SSAValue:
        if isinstance(source, Piece):
            return self._piece(source)
        if isinstance(source, Made):
            return self._put(ConstantOp.of(Array.of(source.values)))
        value = self._op.ins[source.position]
        constant = value.owner
        if isinstance(constant, ConstantOp) and constant.parent is self._op.parent:
            return self._put(constant.clone())
        return value

    def _piece(self, piece: Piece) -> SSAValue:
        if piece.copied is not None and self._left[piece.copied] == 1:
            return self._of(piece.copied)  # which nothing else reads any more
        if piece.old is not None:
            out = self._of(piece.old)
        elif piece is self._last and isinstance(self._before.outs[0].owner, EmptyOp):
            out = self._before.outs[0]
        else:
            out = self._put(EmptyOp.of(result_type(self._op, piece)))
        ins = [self._of(each) for each in piece.inputs]
        self._left.subtract([*piece.inputs, *([] if piece.old is None else [piece.old])])
        return self._put(block_of(self._op, piece, ins, out))

    def _put(self, op: Operation) -> SSAValue:
        return put_before(self._before, op).results[0]
