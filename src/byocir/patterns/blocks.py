"""Matches computations of the tensor level: blocks, whatever the order of their loops and operands
and the names of their iterators.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from inspect import ismethod
from itertools import permutations
from numbers import Real
from typing import Any, cast, overload

from xdsl.ir import Operation, SSAValue, Use

from byocir.dialects import tir
from byocir.dialects.decisions import Gap
from byocir.dialects.types import shape_of
from byocir.errors import ByocirError
from byocir.patterns.dataflow import Producer, producer
from byocir.patterns.differences import (
    body_differs,
    body_gap,
    computed,
    dimensions_beside,
    indices_differ,
)
from byocir.patterns.index import (
    Affine,
    FloorIndex,
    Index,
    Iterators,
    NamedIterators,
    Unknowns,
    coefficients,
    in_reading_order,
    match_index,
    parse_index,
    rank_fits,
    spaces,
    window_of,
)
from byocir.patterns.match import BoundBlock, Progress, State, python_value
from byocir.patterns.nodes import Access, Pattern, match_operand
from byocir.patterns.same_blocks import Alike, Facts, OutlineMisfit, Reason, Rewalked
from byocir.patterns.scalars import (
    Numbers,
    ScalarPattern,
    body_key,
    check_body,
    match_body,
    unknowns_of,
)
from byocir.vendor.places import caller

MOST_ITERATORS = 10
"""Iterators of a block for which names and groups are tried: the ways to choose them grow with a
power of their number."""


S = ScalarPattern
Input = Access | Pattern
Init = Pattern | int | float | None


@overload
def block(
    iterators: str,
    x: Input,
    body: Callable[[S, S], S],
    /,
    *,
    init: Init = None,
    out: str | None = None,
) -> Pattern: ...
@overload
def block(
    iterators: str,
    x: Input,
    y: Input,
    body: Callable[[S, S, S], S],
    /,
    *,
    init: Init = None,
    out: str | None = None,
) -> Pattern: ...
@overload
def block(
    iterators: str,
    x: Input,
    y: Input,
    z: Input,
    body: Callable[[S, S, S, S], S],
    /,
    *,
    init: Init = None,
    out: str | None = None,
) -> Pattern: ...
def block(iterators: str, *parts: Any, init: Init = None, out: str | None = None) -> Pattern:
    """Makes a pattern of a block from its iterators, the accesses of its inputs and, last, its body
    `(acc, *inputs) -> value`.

    ```python
    block("m n | k", a["m k"], b["n k"], lambda acc, x, y: acc + x.to(i32) * y.to(i32))
    ```

    An input without an index is an array in which the body looks elements up:
    `block("*i", x["*i"], table, lambda acc, x, t: t.read(x + 128))`.

    See `byocir.patterns.index` for the texts. `out` is the index of the result (default: the
    parallel iterators in order). Raises ByocirError B206 for text or a body that cannot be read.
    `init` is what the result starts from: a number (a fill with it
    belongs to the match), a pattern, or None: a fill with 0 for reductions, anything otherwise.
    A block with a name (`block(…) @ "gemm"`) tells what its iterators are: `match.BoundBlock`.
    """
    *inputs, body = parts
    reads = [Access(i, "", whole=True) if isinstance(i, Pattern) else i for i in inputs]
    if not callable(body) or not all(isinstance(read, Access) for read in reads):
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise ByocirError(
            "B206",
            f"expected accesses and then a body, found {kinds}",
            where=_where(iterators),
            help='an access is a value at an index, x["m k"]; a body is lambda acc, x: …',
        )
    if ismethod(body.__call__):  # memos tell objects apart by identity then, whatever they equal
        body = body.__call__
    try:
        _check_numbers({"pad": [read.pad for read in reads], "init": [init]})
        made = BlockPattern(Iterators.parse(iterators), reads, body, init, out)
    except ValueError as error:
        raise ByocirError("B206", str(error), where=_where(iterators)) from error
    check_body(cast("Callable[..., Any]", body), [read.whole for read in reads])
    return made


def _where(iterators: str) -> str:
    """Gives the line that makes the pattern of a block, and the text of its iterators."""
    return f'{caller()}, block("{iterators}", …)'


def _check_numbers(given: Mapping[str, Sequence[Any]]) -> None:
    """Raises ValueError for a pad or a start that is no number: None, the name of a pad and a
    pattern to start from are fine, too.
    """
    for name, values in given.items():
        for value in values:
            started = name == "init" and isinstance(value, Pattern)
            named = name == "pad" and isinstance(value, str) and value.isidentifier()
            if value is not None and not isinstance(value, Real) and not (started or named):
                kinds = "a number" if name == "pad" else 'a number, or a value such as sums("c")'
                raise ValueError(f"expected {name} to be {kinds}, found {value!r}")


class BlockPattern(Pattern):
    """Matches a `tir.block` that computes this, however its loops and operands are ordered."""

    def __init__(
        self,
        iterators: Iterators,
        reads: Sequence[Access],
        body: Callable[..., Any],
        init: Init,
        out: str | None,
    ) -> None:
        self.iterators = iterators
        self.reads = tuple(reads)
        self.indices = tuple(parse_index(read.index, iterators) for read in reads)
        self.body = body
        sums = iterators.reduction or iterators.reduction_groups
        self.init = 0 if init is None and sums else init
        self.result = out or iterators.result
        parallel = replace(iterators, reduction=(), reduction_groups=())
        self.out: Index = parse_index(self.result, parallel)
        self.coefficients = coefficients(self.out).union(*map(coefficients, self.indices))

    def match(
        self, value: SSAValue, source: Producer, state: State, progress: Progress
    ) -> Iterator[State]:
        op = source.op
        if not isinstance(op, tir.BlockOp) or op.parent is not state.block:
            progress.miss(state, f"expected a block, found {source}")
            return
        known = state.nodes.get(id(self))
        if known is op:  # visited again: its operands have matched already
            yield state
            return
        misfit = self.misfit(op, progress.alike)
        if known is not None and not (misfit and misfit.refused):
            progress.miss(state, "expected the same block as before")
            return
        if misfit is None:
            nodes = {**state.nodes, id(self): op}
            yield from self._match_block(value, op, state._replace(nodes=nodes), progress)
            misfit = progress.alike.misfits.get(self._told_apart(op, progress.alike))
        if misfit is not None:
            progress.miss_block(op, state.with_op(op) if misfit.shaped else state, misfit)

    def misfit(self, op: tir.BlockOp, alike: Alike) -> OutlineMisfit | None:
        """Says why a block cannot match, whatever its operands are, as far as that is known yet."""
        key = self._told_apart(op, alike)
        refusal = "" if key in alike.misfits else self.refusal(alike.facts(op))
        if refusal:
            gap = self._refused_gap(alike.facts(op))
            alike.misfits[key] = OutlineMisfit(refusal, 0, shaped=False, gap=gap)
        return alike.misfits.get(key)

    def _told_apart(self, op: tir.BlockOp, alike: Alike) -> tuple[object, int]:
        return self.kind, alike.number(op) if self.tells_offsets else alike.outline(op)

    @cached_property
    def kind(self) -> object:
        """Gives an object that stands for all patterns which compare a block itself, without its
        operands, as this one does, and word the reason alike.
        """
        reads = tuple((read.index, read.pad, read.whole) for read in self.reads)
        indices = self.indices, self.out, self.coefficients, self.result
        return _kind(self.iterators, reads, indices, body_key(self.body, len(reads)))

    @cached_property
    def tells_offsets(self) -> bool:
        """Tells if a match may depend on the value of a constant that an index adds, and not just
        on whether there is one: where an index of the pattern has a number there itself, or two
        have the same unknown.
        """
        forms = [part for index in (self.out, *self.indices) for part in index]
        affine = [part for part in forms if isinstance(part, Affine)]
        unknowns = [part.unknown[1] for part in affine if part.unknown is not None]
        others = {*self.coefficients, *(read.pad for read in self.reads)}
        twice = len(set(unknowns)) < len(unknowns) or not others.isdisjoint(unknowns)
        return twice or any(part.constant for part in affine)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Gives the names of the unknowns in indices, pads and the body."""
        forms = [part for index in (self.out, *self.indices) for part in index]
        affine = [part for part in forms if isinstance(part, Affine)]
        offsets = (part.unknown[1] for part in affine if part.unknown is not None)
        pads = (read.pad for read in self.reads if isinstance(read.pad, str))
        return self.coefficients.union(offsets, pads, unknowns_of(self.body, len(self.reads)))

    def refusal(self, facts: Facts) -> Reason:
        """Says why a block cannot match, whatever its iterators stand for; empty when it may."""
        named = self.iterators.parallel or self.iterators.parallel_groups
        if named and facts.iterators > MOST_ITERATORS:
            return f"expected at most {MOST_ITERATORS} iterators, found {facts.iterators}"
        if facts.is_part:
            return "expected a whole block, found a part (where or bases)"
        whole, found = sum(read.whole for read in self.reads), len(facts.whole)
        if found and not whole:
            return "expected a block that reads at affine indices, found one with tir.read"
        if found != whole:
            return f"expected a block that looks up in {whole} arrays, found {found}"
        if facts.outputs != 1 or facts.inputs != len(self.reads):
            return self._inputs_differ
        most = len(self.iterators.reduction)
        if facts.live > most and not self.iterators.reduction_groups:
            return f"expected at most {most} reduction iterators, found {facts.live}"
        if facts.forms is None:
            return "expected affine indices, or such divided by a number"
        return ""

    def _inputs_differ(self, op: tir.BlockOp) -> str:
        found = f"{len(op.ins)} in {computed(op)}"
        return f"expected a block of {len(self.reads)} inputs, found {found}"

    def _refused_gap(self, facts: Facts) -> Gap:
        whole = sum(read.whole for read in self.reads)
        reads_as_many = (facts.inputs, len(facts.whole)) == (len(self.reads), whole)
        return Gap.PART if reads_as_many else Gap.KIND

    def _match_block(
        self, value: SSAValue, op: tir.BlockOp, before: State, progress: Progress
    ) -> Iterator[State]:
        state, alike = before.with_op(op), progress.alike
        forms = alike.facts(op).forms or ()
        ordered, placed, fits, pads = False, False, False, ""
        for order, places in self._orders_of(op, forms, alike):
            ordered = True
            for space, numbers in places:
                placed = True
                named = _with_names(state, numbers)
                bound = BoundBlock.of(value, op, space.names, space.groups, order)
                named = named and named.with_name(self.label, bound)
                if named is None:
                    continue
                pads = self._pads(op, order) or self._beyond(op, order, forms, space)
                if not pads:
                    # Whether it fits now depends on the operands.
                    fits, progress.by_outline = True, False
                    yield from self._match_operands(op, order, 0, named, progress)
                break
        if fits:
            return
        shaped, near = self._is_shaped_like(op, forms), 2 if ordered else 1
        differs = self.indices_differ if ordered else self._body_differs
        gap = self._indices_gap(op) if ordered else body_gap(op, self.body)
        misfit = OutlineMisfit(pads or differs, near, shaped, Gap.PART if pads else gap)
        if not placed:
            alike.misfits[self._told_apart(op, alike)] = misfit
            return
        progress.by_outline = False
        progress.miss_block(op, state if shaped else before, misfit)

    def _orders_of(
        self, op: tir.BlockOp, forms: Sequence[Any], alike: Alike
    ) -> Rewalked[tuple[tuple[int, ...], Rewalked[tuple[NamedIterators, Numbers]]]]:
        """Gives the orders of the operands in which the body fits, and for each the ways in which
        the iterators do. They are found once for all blocks with the same content.
        """
        key = (self.kind, alike.number(op))
        if key not in alike.orders:
            found = (
                (order, Rewalked(self._places(op, order, numbers, forms)))
                for order, numbers in self._orders(op)
            )
            alike.orders[key] = Rewalked(found)
        return alike.orders[key]

    def _places(
        self, op: tir.BlockOp, order: tuple[int, ...], numbers: Numbers, forms: Sequence[Any]
    ) -> Iterator[tuple[NamedIterators, Numbers]]:
        """Gives the ways in which the pattern's iterators fit a block whose operands are in this
        order, each with all numbers that the pattern names.
        """
        pads = self._named_pads(op, order)
        for space, unknowns in self._match_maps(op, order, forms):
            yield space, {**numbers, **unknowns, **pads}

    def _body_differs(self, op: tir.BlockOp) -> str:
        return body_differs(op, self.body)

    def misread(self, op: tir.BlockOp) -> Sequence[int]:
        """Lists the reads whose indices do not fit a block with such a body."""
        return self._nearest_order(op)[1]

    def indices_differ(self, op: tir.BlockOp) -> str:
        """Words the reason that a block with such a body reads or writes elsewhere."""
        order, misread = self._nearest_order(op)
        named = [self.reads[n].pattern.label or "" for n in misread]
        told = named if len(named) < len(self.reads) and all(named) else ()
        return indices_differ(op, [read.index for read in self.reads], self.result, order, told)

    def _nearest_order(self, op: tir.BlockOp) -> tuple[Sequence[int], Sequence[int]]:
        """Finds the order of a block's operands in which its body fits and the most indices do, and
        lists the reads whose indices do not. Iterators stand for those that suit the most.
        """
        every, forms = [*range(len(self.reads))], Facts.of(op).forms or ()
        found = [(order, self._misread_in(op, order, forms)) for order, _ in self._orders(op)]
        return min(found, key=lambda each: len(each[1]), default=(every, every))

    def _misread_in(
        self, op: tir.BlockOp, order: Sequence[int], forms: Sequence[Any]
    ) -> Sequence[int]:
        indices, reads = self.indices, [forms[operand] for operand in order]
        pairs, grouped = [*zip(indices, reads, strict=True)], bool(self.iterators.groups)
        ranks = [n for n, pair in enumerate(pairs) if not rank_fits(*pair, grouped=grouped)]
        if ranks:
            return ranks
        best, reduced = [*range(len(reads))], self.iterators.reduction_groups
        for assigned, found in spaces(op, self.iterators, self.out, forms[-1]):
            space = in_reading_order(assigned, reduced, indices, reads)
            own = [n for n, pair in enumerate(pairs) if match_index(*pair, space, found) is None]
            best = min(best, own, key=len)
        return best

    def _indices_gap(self, op: tir.BlockOp) -> Gap:
        beside = dimensions_beside(op, [read.index for read in self.reads], self.result)
        return Gap.DIMENSIONS if beside > 0 else Gap.PART

    def _orders(self, op: tir.BlockOp) -> Iterator[tuple[tuple[int, ...], Numbers]]:
        """Gives the orders of the operands in which the body fits, each with the numbers that it
        binds.
        """
        whole = op.whole
        for order in permutations(range(len(self.reads))):
            placed = zip(order, self.reads, strict=True)
            if any((operand in whole) != read.whole for operand, read in placed):
                continue
            for numbers in match_body(op, order, self.body):
                yield order, numbers

    def _is_shaped_like(self, op: tir.BlockOp, forms: Sequence[Any]) -> bool:
        """Tells if a block reads and writes as this pattern does, whatever it computes. Every
        elementwise block is shaped like an elementwise pattern, so that this tells nothing for
        those.
        """
        if not self.iterators.parallel and not self.iterators.reduction_groups:
            return False
        orders = permutations(range(len(self.reads)))
        return any(next(self._match_maps(op, order, forms), None) is not None for order in orders)

    def _match_maps(
        self, op: tir.BlockOp, order: Sequence[int], forms: Sequence[Any]
    ) -> Iterator[tuple[NamedIterators, Unknowns]]:
        defaults = dict.fromkeys(sorted(self.coefficients), 1)
        reads = [forms[operand] for operand in order]
        indices, grouped = [*self.indices, self.out], bool(self.iterators.groups)
        pairs = zip(indices, [*reads, forms[-1]], strict=True)
        if not all(rank_fits(index, form, grouped=grouped) for index, form in pairs):
            return
        reduced = self.iterators.reduction_groups
        for assigned, found in spaces(op, self.iterators, self.out, forms[-1]):
            space = in_reading_order(assigned, reduced, self.indices, reads)
            unknowns: Unknowns | None = found
            for index, form in zip(self.indices, reads, strict=True):
                if unknowns is not None:
                    unknowns = match_index(index, form, space, unknowns)
            if unknowns is not None:
                yield space, {**defaults, **unknowns}

    def _pads(self, op: tir.BlockOp, order: Sequence[int]) -> str:
        """Says how the numbers that are read outside the arrays differ from the pattern's; empty if
        they agree. A block may lack a pad that the pattern has: then all that it reads is inside.
        """
        pads = op.pad_values
        for read, operand in zip(self.reads, order, strict=True):
            pad = pads[operand]
            if pad is None or isinstance(read.pad, str):
                continue
            if python_value(pad) != read.pad:
                expected = "no pad" if read.pad is None else f"pad {read.pad}"
                return f"expected {expected} at [{read.index}], found {python_value(pad)}"
        return ""

    def _beyond(
        self,
        op: tir.BlockOp,
        order: Sequence[int],
        forms: Sequence[Sequence[FloorIndex]],
        space: NamedIterators,
    ) -> str:
        """Names an index that reads other elements than the pattern allows; empty if none does. An
        iterator that stands alone in an index must stay inside the array, and one of a group must
        run over the whole dimension. Only windows, `(h*s + r - p)`, may read beyond.
        """
        name_of = {i: name for name, i in space.names.items()}
        for read, index, operand in zip(self.reads, self.indices, order, strict=True):
            windows = {name for part in index for name in window_of(part)}
            shape = shape_of(op.ins[operand].type)
            for size, (form, _) in zip(shape, forms[operand], strict=False):
                alone = form.terms[0][0] if len(form.terms) == 1 else None
                if alone is None or name_of.get(alone) in windows:
                    continue
                extent, whole = op.extents[alone], alone not in name_of
                if extent > size or (whole and extent < size):
                    part = "read all of" if whole else "read inside"
                    return (
                        f"expected {op.names[alone]} to {part} {size} elements at "
                        f"[{read.index}], found {extent}"
                    )
        return ""

    def _named_pads(self, op: tir.BlockOp, order: Sequence[int]) -> Numbers:
        """Gives the numbers that the block reads outside its operands, by the names that the
        pattern has for them.
        """
        pads = [(read.pad, op.pad_values[i]) for read, i in zip(self.reads, order, strict=True)]
        return {
            name: python_value(pad)
            for name, pad in pads
            if isinstance(name, str) and pad is not None
        }

    def _match_operands(
        self, op: tir.BlockOp, order: Sequence[int], done: int, state: State, progress: Progress
    ) -> Iterator[State]:
        if done == len(order):
            yield from self._match_init(op, state, progress)
            return
        pattern = self.reads[done].pattern
        for found in match_operand(pattern, op, order[done], state, progress):
            yield from self._match_operands(op, order, done + 1, found, progress)

    def _match_init(self, op: tir.BlockOp, state: State, progress: Progress) -> Iterator[State]:
        if isinstance(self.init, Pattern):
            yield from match_operand(self.init, op, len(op.ins), state, progress)
            return
        source = producer(Use(op, len(op.ins)))
        found = python_value(source.op.value) if isinstance(source.op, tir.FillOp) else source
        if self.init is None or found == self.init:
            yield _with_start(state, source.op)
        else:
            progress.miss(state, f"expected the result to start from {self.init}, found {found}")

    def root_names(self) -> frozenset[str]:
        return frozenset({"tir.block"})

    @cached_property
    def parts(self) -> frozenset[Pattern]:
        return super().parts | {self}

    def children(self) -> tuple[Pattern, ...]:
        init = (self.init,) if isinstance(self.init, Pattern) else ()
        return (*(read.pattern for read in self.reads), *init)


@lru_cache(maxsize=4096)
def _kind(*content: Hashable) -> object:
    """Gives the same object for the same content."""
    return object()


def _with_start(state: State, start: Operation | None) -> State:
    """Adds the fill that a result starts from to the match: in buffer form as one of its ops, on
    tensors as a constant, which is copied, for several blocks may start from the same.
    """
    if not isinstance(start, tir.EmptyOp | tir.FillOp):
        return state
    return state.with_constant(start) if start.results else state.with_op(start)


def _with_names(state: State, numbers: Mapping[str, int | float]) -> State | None:
    current: State | None = state
    for name, number in numbers.items():
        current = current and current.with_name(name, number)
    return current
