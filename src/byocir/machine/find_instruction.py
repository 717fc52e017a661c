"""Finds the instruction that does a block: tries patterns, rules and limits on the block alone.

An instruction sees a block as its own small program (`local_blocks`): dimensions of size one are
left out until an operand has as many as the pattern reads it with. So a product of 16 pixels of a
row with 16 channels is `"m n | k"`, whatever the array around it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any, Literal

from xdsl.ir import Attribute, Operation

from byocir.dialects.decisions import Gap
from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.affine import linear
from byocir.dialects.tir.linear import spans
from byocir.dialects.types import Shape, element_type_of
from byocir.machine.block_keys import pads_in_memory
from byocir.machine.description import Machine
from byocir.machine.instructions import WORK, Fit, Instruction, Kind, memory_of
from byocir.machine.lines import Chain, chains_of
from byocir.machine.local_blocks import Boxes, Rank, chains_kept, scope_in, sized
from byocir.machine.nearest_misses import Misfit, Reached
from byocir.machine.operand_places import Place
from byocir.machine.parts import MAIN, Memory, Operand
from byocir.machine.row_starts import calls_inside_rows
from byocir.patterns import Match
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.differences import body_differs, body_gap, words_apart
from byocir.patterns.index import Affine, coefficients
from byocir.patterns.match import Bound, BoundBlock, Progress
from byocir.patterns.same_blocks import Alike, Rewalked
from byocir.patterns.scalars import match_body

Asked = Literal["pattern", "memories", "all"]
"""The things that must fit: the pattern alone; its operands' memories, too; or sizes and rules as
well."""


def fits(
    machine: Machine,
    block: BlockOp,
    extents: Shape,
    *,
    start: Attribute | None = None,
    asked: Asked = "all",
    only: Instruction | None = None,
    chains: Sequence[Chain] = (),
) -> Iterator[Fit | Misfit]:
    """Tries each instruction, or `only` one, on a block over these extents; bases and guards do not
    count, nor do pads on tensors. With `start` the block's result begins with that number, not with
    what was there. Each of the `chains` counts as one iterator.
    """
    fit = fitting(machine, block, extents, start=start, asked=asked, chains=chains)
    return map(fit, machine.instructions if only is None else [only])


def fitting(
    machine: Machine,
    block: BlockOp,
    extents: Shape,
    *,
    start: Attribute | None,
    asked: Asked,
    chains: Sequence[Chain],
    explains: bool = True,
) -> Callable[[Instruction], Fit | Misfit]:
    """Makes the function that tries an instruction on a block, as `fits` does. Without `explains`,
    misfits do not say why they do not fit, which takes long.
    """
    seen = _Seen(machine, block, extents, start, chains)
    others = other_bodies(machine, block, seen.body)
    return lambda instruction: _fit(instruction, seen, asked, others, explains)


def near(
    machine: Machine,
    block: BlockOp,
    instructions: Sequence[Instruction],
    asked: Asked,
    start: Attribute | None,
) -> list[Instruction]:
    """Lists the instructions that compute what a block does, on its memories if these count. With
    `start` its result begins with that number, not with what was there.
    """
    others, count = other_bodies(machine, block), len(block.ins)
    *read, written = [scope_in(block, value.type) for value in (*block.ins, *block.outs)]
    scopes = (*sorted(read), written)
    return [
        each
        for each in instructions
        if (asked == "pattern" or scopes in each.reached)
        and any(
            len(form.reads) == count and form not in others and may_begin(form, start)
            for form in each.forms
        )
    ]


def may_begin(form: BlockPattern, start: Attribute | None) -> bool:
    """Tells whether a form can do a block whose result begins with a number, or None if it begins
    with what was there.
    """
    if isinstance(form.init, Operand):
        return start is None
    return form.init is None or start is not None


def other_bodies(
    machine: Machine, block: BlockOp, body: int | None = None
) -> frozenset[BlockPattern]:
    """Lists the forms of instructions that have as many inputs as a block but another body. `body`
    is the number of the block's body, if it is known.
    """
    key = "bodies", machine.keys.body(block.body.block) if body is None else body
    return machine.answer(key, lambda: _other_bodies(machine, block))


def _other_bodies(machine: Machine, block: BlockOp) -> frozenset[BlockPattern]:
    orders = list(permutations(range(len(block.ins))))
    forms = [form for each in machine.instructions for form in each.forms]
    return frozenset(
        form
        for form in forms
        if len(form.reads) == len(block.ins)
        and not any(True for order in orders for _ in match_body(block, order, form.body))
    )


def _other_body(instruction: Instruction, form: BlockPattern, block: BlockOp) -> Misfit:
    """Says where the body of a form differs from that of a block."""
    is_like = body_gap(block, form.body) != Gap.KIND
    reached = Reached.BODY if is_like else Reached.KIND
    told, apart = body_differs(block, form.body), words_apart(block, form.body)
    return Misfit(instruction, told, reached, alike=-apart)


def _fit(
    instruction: Instruction,
    seen: _Seen,
    asked: Asked,
    others: frozenset[BlockPattern],
    explains: bool,
) -> Fit | Misfit:
    misfits = list[Misfit]()
    for form in instruction.forms:
        if not may_begin(form, seen.start) and not (explains and seen.start is None):
            continue
        if form in others:
            misfits += [_other_body(instruction, form, seen.block)] if explains else []
            continue
        for found in _tries(instruction, form, seen, asked, explains=explains):
            if isinstance(found, Fit):
                return found
            misfits.append(found)
    told = [misfit for misfit in misfits if misfit.reason]
    return max(told, key=lambda each: each.nearness, default=Misfit(instruction, ""))


def _tries(
    instruction: Instruction, form: BlockPattern, seen: _Seen, asked: Asked, *, explains: bool
) -> Iterator[Fit | Misfit]:
    """Tries a form whose body is that of a block, in each order of its operands and each way in
    which its iterators fit.
    """
    kept = seen.count_kept(form)
    for ranks in _ranks(instruction, form, len(seen.block.ins)):
        tried = seen.tried(instruction, ranks)
        if tried is None:
            yield from seen.misread(instruction, form, ranks) if explains else ()
            continue
        for match in tried.matches:
            if match.state.nodes.get(id(form)) is not match.root:
                continue
            fit = _bound(instruction, form, match, seen)
            told = "" if asked == "pattern" else _misplaced(fit, seen.block)
            reached = Reached.MEMORIES if told else Reached.SIZES
            if not told and asked == "all":
                told = _illegal(fit, match, seen.extents)
            elif not told:
                told = _refused_numbers(fit, match, seen.block)
            yield Misfit(instruction, told, reached, kept) if told else fit
        if explains:
            yield tried.misfit(instruction, form, kept)


@dataclass(frozen=True, eq=False)
class _Tried:
    """Keeps how the pattern of an instruction fits a block, and how far it comes where it does not.
    Each way to fit is looked for when it is asked for.
    """

    root: BlockOp
    matches: Rewalked[Match]
    progress: Progress

    @staticmethod
    def of(instruction: Instruction, root: BlockOp, alike: Alike) -> _Tried:
        progress = Progress(alike=alike)
        states = instruction.pattern.states(root, progress)
        return _Tried(root, Rewalked(Match(state, root) for state in states), progress)

    def misfit(self, instruction: Instruction, form: BlockPattern, kept: int) -> Misfit:
        """Says how far the pattern came, for a call over so many iterators."""
        reached = _reached(self.progress)
        alike = -len(form.misread(self.root)) if reached == Reached.INDICES else 0
        return Misfit(instruction, self.progress.reason, reached, kept, alike)


def _reached(progress: Progress) -> Reached:
    """Tells how far the pattern of an instruction came whose body is that of a block."""
    if progress.gap == Gap.KIND:
        return Reached.KIND
    return Reached.OPERANDS if progress.matched and not progress.near else Reached.INDICES


class _Seen:
    """Describes a block over some extents, in the forms in which patterns are tried on it."""

    def __init__(
        self,
        machine: Machine,
        block: BlockOp,
        extents: Shape,
        start: Attribute | None,
        chains: Sequence[Chain],
    ) -> None:
        self.block, self.extents, self.start, self.chains = block, extents, start, chains
        self.body = machine.keys.body(block.body.block)
        self._machine, self._boxes = machine, dict[Shape, Boxes | None]()
        self._roots: dict[tuple[Shape, tuple[Rank, ...]], BlockOp | None] = {}

    @cached_property
    def kept(self) -> list[Chain]:
        """Lists the iterators that patterns see, as `chains_kept` does."""
        return chains_kept(self.extents, self.chains)

    def count_kept(self, form: BlockPattern) -> int:
        """Counts the iterators with several points; 0 where a form names fewer."""
        several = {i for i, extent in enumerate(self.extents) if extent > 1}
        live = [chain[0] for chain in self.kept if chain[0] in several]
        sums, names = len({*live} & {*self.block.reductions}), form.iterators
        has_rows = names.parallel_groups or len(live) - sums <= len(names.parallel)
        has_sums = names.reduction_groups or sums <= len(names.reduction)
        return len(live) if has_rows and has_sums else 0

    def misread(
        self, instruction: Instruction, form: BlockPattern, ranks: tuple[Rank, ...]
    ) -> Iterator[Misfit]:
        """Yields what a form says whose operands have fewer dimensions than those of the block."""
        boxes = self._boxes[self.extents if instruction.pattern.rules else self._least]
        root = None if boxes is None else boxes.with_ranks(boxes.at_least(ranks))
        if root is not None:
            block, kept = root.program(self.block, self.start), self.count_kept(form)
            told, alike = form.indices_differ(block), -len(form.misread(block))
            yield Misfit(instruction, told, Reached.DIMENSIONS, kept, alike)

    def tried(self, instruction: Instruction, ranks: tuple[Rank, ...]) -> _Tried | None:
        """Tries an instruction on the block, with its operands brought to these ranks. Blocks that
        are equal then are tried once. None where an operand cannot have such a rank.
        """
        extents = self.extents if instruction.pattern.rules else self._least
        if (extents, ranks) not in self._roots:
            self._roots[extents, ranks] = self._root(extents, ranks)
        root = self._roots[extents, ranks]
        if root is None:
            return None
        key, machine = ("tried", instruction, root), self._machine
        alike = machine.answer(("alike", machine.turns), Alike)
        return machine.answer(key, lambda: _Tried.of(instruction, root, alike))  # pyrefly: ignore[bad-argument-type]

    @cached_property
    def _least(self) -> Shape:
        """Gives extents for which patterns say the same: unless a block reads outside of arrays, it
        matters to them only whether an iterator has one point or more.
        """
        if pads_in_memory(self.block):
            return self.extents
        return tuple(min(extent, 2) for extent in self.extents)

    def _root(self, extents: Shape, ranks: tuple[Rank, ...]) -> BlockOp | None:
        if extents not in self._boxes:
            self._boxes[extents] = Boxes.of(self.block, extents, self.chains)
        boxes = self._boxes[extents]
        local = None if boxes is None else boxes.with_ranks(ranks)
        if local is None:
            return None
        key = "program", self.body, self.start, local
        return self._machine.answer(key, lambda: local.program(self.block, self.start))


def _ranks(instruction: Instruction, form: BlockPattern, count: int) -> list[tuple[Rank, ...]]:
    """Lists the ranks to which the operands of a block can be brought for a form, one list for each
    order of the operands: a rank has the dimensions that the form reads, and how many of these are
    lanes.
    """
    if len(form.reads) != count:
        return []
    found: list[Rank] = []
    for read, index in zip(form.reads, form.indices, strict=True):
        memory, is_plain = memory_of(read), read.pad is None and all(map(_is_plain, index))
        is_anywhere = is_plain and (memory.is_main or read.pattern.label in instruction.strided)
        found.append(Rank(len(index), _lanes(memory), is_anywhere))
    out = Rank(len(form.out), _lanes(instruction.into), False)
    return [(*order, out) for order in dict.fromkeys(permutations(found))]


def _lanes(memory: Memory) -> int:
    return 0 if memory.is_main else len(memory.row)


def kind_of(
    machine: Machine,
    name: str,
    block: BlockOp,
    key: Hashable,
    extents: Shape,
    start: Attribute | None,
) -> Kind | str:
    """Describes the call of an instruction that does so many points of a block, or says why there
    is none. `key` is the number of the block.
    """

    def found() -> Kind | str:
        only = next((each for each in machine.instructions if each.name == name), None)
        if only is None:
            return f"{machine.name} has none of this name"
        fit = next(fits(machine, block, extents, start=start, only=only))
        chains = chains_of(machine, block, extents) if isinstance(fit, Misfit) else ()
        if isinstance(fit, Misfit) and chains:
            joined = next(fits(machine, block, extents, start=start, only=only, chains=chains))
            fit = _nearer(fit, joined)
        if isinstance(fit, Misfit):
            return fit.reason
        piece = sized(block, extents)
        told = _scattered(fit, piece) or calls_inside_rows(fit, block, extents, block.extents)
        if told:
            return told
        sizes = fit.sizes(extents)
        costs = fit.instruction.cost(sizes), fit.instruction.cost_kept(sizes)
        return Kind(fit, piece, start, sizes, *costs)

    return machine.answer(("kind", name, key, extents, start), found)


def _nearer(one: Misfit, other: Fit | Misfit) -> Fit | Misfit:
    """Gives the fit, if it is one, or the nearer misfit; the first of equals."""
    if isinstance(other, Fit):
        return other
    return max((one, other), key=lambda each: each.nearness)


def _is_plain(part: object) -> bool:
    """Tells whether a part of a pattern's index is an iterator alone, without steps."""
    return isinstance(part, Affine) and part == Affine(
        tuple((name, 1) for name, _ in part.terms[:1])
    )


def _bound(instruction: Instruction, form: BlockPattern, match: Match, seen: _Seen) -> Fit:
    work: BoundBlock = match[WORK]
    kept, block = seen.kept, seen.block
    iterators = {
        name: tuple(i for p in positions if p < len(kept) for i in kept[p])
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
        scope = scope_in(block, value.type)
        if scope != memory.scope:
            found = scope or MAIN.called
            return f"expected an operand in {memory.called}, found one in {found}"
        if memory.element is not None and element_type_of(value.type) != memory.element:
            found = element_type_of(value.type)
            return f"expected elements of {memory.element} in {memory.called}, found {found}"
    return ""


def _illegal(fit: Fit, match: Match, extents: Shape) -> str:
    """Names a limit or rule of the instruction that a block breaks; empty if it breaks none."""
    for name, size in fit.sizes(extents).items():
        limit = fit.instruction.limits.get(name)
        if limit is not None and not limit.allows(size):
            return f"expected {name} {limit}, found {size}"
    is_half = fit.instruction.first is not None or fit.instruction.into.hidden
    return _broken(fit, _OfOneBlock(match.state, match.root) if is_half else match)


def _broken(fit: Fit, match: Match) -> str:
    for rule in fit.instruction.pattern.rules:
        try:
            result = rule.evaluate(match)
        except _LooksFurther:
            continue
        if not result.holds:
            return f"{result.sentence}, found {result.seen}"
    return ""


def _refused_numbers(fit: Fit, match: Match, block: BlockOp) -> str:
    """Names a rule of the instruction that the numbers in a block's body break, or those that
    multiply its iterators, whatever the sizes and places of its calls; empty if there is none.
    Rules that look at more than these numbers are not asked.
    """
    if not fit.instruction.pattern.rules:
        return ""
    work: BoundBlock = match[WORK]
    numbers = {name for each in match_body(block, work.operands, fit.form.body) for name in each}
    numbers.update(*map(coefficients, (*fit.form.indices, fit.form.out)))
    return _broken(fit, _NumbersAlone(match.state, match.root, frozenset(numbers)))


class _LooksFurther(BaseException):
    """Ends a rule that looks at more than it is shown; no Exception, which would be its mistake."""


class _OfOneBlock(Match):
    """Shows a rule one block of an instruction of two, and ends it where it looks up a name of the
    other one: that a name is of neither is told when the machine is loaded.
    """

    def __getitem__(self, name: str) -> Any:
        if name not in self.state.names:
            raise _LooksFurther(name)
        return super().__getitem__(name)


@dataclass(frozen=True, repr=False)
class _NumbersAlone(Match):
    """Shows a rule some numbers, and ends it where it looks at anything else."""

    numbers: frozenset[str]

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(self._known(name))

    def __contains__(self, name: object) -> bool:
        return super().__contains__(self._known(name))

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(self._known(name), default)

    @property
    def result(self) -> Bound:
        raise _LooksFurther("result")

    @property
    def ops(self) -> tuple[Operation, ...]:
        raise _LooksFurther("ops")

    def _known(self, name: object) -> str:
        if name not in self.numbers:
            raise _LooksFurther(name)
        return str(name)


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
        if memory.interleaved:
            if not _is_one_run(fit, block, position):
                return f"expected rows of {name} one after the other, found some apart"
            continue
        for iterator, at in fit.iterators.items():
            moved = tuple(f.coefficient(at[-1]) if f is not None and at else 0 for f in forms)
            step = Place(memory, value, (), {iterator: moved}).stride(iterator)
            wide = sizes[iterator] > 1 and (not memory.is_main or moved[-1:] != (0,))
            if wide and step not in (0, 1):
                return f"expected {name} of {iterator} one after the other, found {step} apart"
    return ""


def _is_one_run(fit: Fit, block: BlockOp, position: int) -> bool:
    """Tells whether an operand in a memory whose rows are interleaved is one run of rows, in the
    order in which the instruction takes them.
    """
    value = [*block.ins, *block.outs][position]
    forms = [linear(expr) for expr in block.maps.data[position].data.results]
    known = [form for form in forms if form is not None]
    reached = [form.interval(spans(block.extents).__getitem__) for form in known]
    steps = {
        n: tuple(f.coefficient(at[-1]) for f in known) for n, at in fit.iterators.items() if at
    }
    box = tuple((low, high + 1) for low, high in reached)
    at = Place(fit.memories[position], value, box, steps)
    strides = [found for name in steps if (found := at.stride(name))]
    return len(at.own_rows) == 1 and strides == sorted(strides, reverse=True)
