"""Block patterns: computations of the tensor level, up to loop order, operand order and names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, overload

from xdsl.ir import SSAValue, Use
from xdsl.ir.affine import AffineMap

from byocir.dialects import tir
from byocir.dialects.tir.affine import linear
from byocir.patterns.dataflow import Producer, producer
from byocir.patterns.index import Index, Iterators, Space, Unknowns, match_index, parse_index
from byocir.patterns.match import Bound, Progress, State, python_value
from byocir.patterns.nodes import Pattern, match_operand
from byocir.patterns.scalars import ScalarPattern, match_body

Form = tuple[Mapping[int, int], int]


@dataclass(frozen=True)
class Access:
    """A pattern's value read at an index; `pad` is the number read outside, None where all reads
    are inside."""

    pattern: Pattern
    index: str
    pad: int | float | None = None

    def padded(self, pad: float) -> Access:
        """The same access, which may also read outside and then sees this number."""
        return Access(self.pattern, self.index, pad)


S = ScalarPattern
Init = Pattern | int | float | None


@overload
def block(
    iterators: str,
    x: Access,
    body: Callable[[S, S], S],
    /,
    *,
    init: Init = None,
    out: str | None = None,
) -> Pattern: ...
@overload
def block(
    iterators: str,
    x: Access,
    y: Access,
    body: Callable[[S, S, S], S],
    /,
    *,
    init: Init = None,
    out: str | None = None,
) -> Pattern: ...
@overload
def block(
    iterators: str,
    x: Access,
    y: Access,
    z: Access,
    body: Callable[[S, S, S, S], S],
    /,
    *,
    init: Init = None,
    out: str | None = None,
) -> Pattern: ...
def block(iterators: str, *parts: Any, init: Init = None, out: str | None = None) -> Pattern:
    """A block: iterators, the accesses of its inputs, and last its body `(acc, *inputs) -> value`.

    ```python
    block("m n | k", a["m k"], b["n k"], lambda acc, x, y: acc + x.to(i32) * y.to(i32))
    ```

    See `byocir.patterns.index` for the texts. `out` is the index of the result (default: the
    parallel iterators in order). `init` is what the result starts from: a number (a fill with it
    belongs to the match), a pattern, or None: a fill with 0 for reductions, anything otherwise.
    """
    *reads, body = parts
    return BlockPattern(Iterators.parse(iterators), reads, body, init, out)


class BlockPattern(Pattern):
    """A `tir.block` that computes this, however its loops and operands are ordered."""

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
        self.init = 0 if init is None and iterators.reduction else init
        ordered = [*iterators.parallel, *(f"*{group}" for group in iterators.groups)]
        self.out: Index = parse_index(out or " ".join(ordered), iterators)
        self.exposed = False

    def match(
        self, value: SSAValue, source: Producer, state: State, progress: Progress
    ) -> Iterator[State]:
        op = source.op
        if not isinstance(op, tir.BlockOp) or op.parent is not state.block:
            found = source.reason if op is None else op.name
            progress.miss(state, f"expected a block, found {found}")
            return
        reason = self._unlike(op)
        if reason:
            progress.miss(state, reason)
            return
        bound = state.with_node(self, op)
        bound = bound and bound.with_name(self.label, Bound(value, op))
        if bound is None:
            progress.miss(state, "expected the same block as before")
            return
        yield from self._match_block(op, bound, progress)

    def _unlike(self, op: tir.BlockOp) -> str:
        """Why a block cannot match whatever its iterators stand for; empty when it may."""
        live = [i for i in op.reductions if op.extents[i] > 1]
        if op.where is not None or op.bases:
            return "expected a whole block, found a part (where or bases)"
        if len(op.outs) != 1 or len(op.ins) != len(self.reads):
            return f"expected a block of {len(self.reads)} inputs, found {len(op.ins)}"
        fewest = len(self.iterators.parallel) + len(self.iterators.groups)
        if len(op.parallels) < fewest or len(live) > len(self.iterators.reduction):
            return (
                f"expected {fewest} parallel and {len(self.iterators.reduction)} reduction "
                f"iterators, found {len(op.parallels)} and {len(live)}"
            )
        return ""

    def _match_block(self, op: tir.BlockOp, before: State, progress: Progress) -> Iterator[State]:
        state = before.with_op(op)
        forms = [_forms(map_) for map_ in [*op.in_maps, *op.out_maps]]
        if any(form is None for form in forms):
            progress.miss(before, "expected affine indices without division")
            return
        reason = "expected another body"
        for order in permutations(range(len(op.ins))):
            for numbers in match_body(op, order, self.body):
                reason = "expected other indices"
                for unknowns in self._match_maps(op, order, forms):
                    named = _with_names(state, {**numbers, **unknowns})
                    if named is not None:
                        reason = ""
                        yield from self._match_operands(op, order, 0, named, progress)
                        break
        if reason:
            progress.miss(state if self._is_shaped_like(op, forms) else before, reason)

    def _is_shaped_like(self, op: tir.BlockOp, forms: Sequence[Any]) -> bool:
        """Whether a block reads and writes as this pattern does, whatever it computes. Every
        elementwise block is shaped like an elementwise pattern, which tells nothing."""
        if not self.iterators.parallel:
            return False
        orders = permutations(range(len(op.ins)))
        return any(next(self._match_maps(op, order, forms), None) is not None for order in orders)

    def _match_maps(
        self, op: tir.BlockOp, order: Sequence[int], forms: Sequence[Any]
    ) -> Iterator[Unknowns]:
        for space in _spaces(op, self.iterators):
            unknowns: Unknowns | None = match_index(self.out, forms[-1], space, {})
            for index, operand in zip(self.indices, order, strict=True):
                if unknowns is not None:
                    unknowns = match_index(index, forms[operand], space, unknowns)
            if unknowns is not None and self._pads_fit(op, order):
                yield unknowns

    def _pads_fit(self, op: tir.BlockOp, order: Sequence[int]) -> bool:
        pads = op.pad_values
        for read, operand in zip(self.reads, order, strict=True):
            pad = pads[operand]
            if pad is not None and python_value(pad) != read.pad:
                return False
        return True

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
        index = len(op.ins)
        source = producer(Use(op, index)).op
        if isinstance(self.init, Pattern):
            yield from match_operand(self.init, op, index, state, progress)
        elif self.init is None:
            ours = isinstance(source, tir.EmptyOp | tir.FillOp)
            yield state.with_op(source) if ours else state
        elif isinstance(source, tir.FillOp) and python_value(source.value) == self.init:
            yield state.with_op(source)
        else:
            progress.miss(state, f"expected the result to start from {self.init}")

    def root_names(self) -> frozenset[str]:
        return frozenset({"tir.block"})

    def size(self) -> int:
        return 1 + sum(read.pattern.size() for read in self.reads)

    def children(self) -> tuple[Pattern, ...]:
        init = (self.init,) if isinstance(self.init, Pattern) else ()
        return (*(read.pattern for read in self.reads), *init)


def _with_names(state: State, numbers: Mapping[str, int | float]) -> State | None:
    current: State | None = state
    for name, number in numbers.items():
        current = current and current.with_name(name, number)
    return current


def _forms(map_: AffineMap) -> list[Form] | None:
    forms: list[Form] = []
    for expr in map_.results:
        form = linear(expr)
        if form is None:
            return None
        forms.append((dict(form.terms), form.constant))
    return forms


def _spaces(op: tir.BlockOp, iterators: Iterators) -> Iterator[Space]:
    """Every way in which the block's iterators can stand for the pattern's. The group takes the
    parallel iterators that no name stands for, in the order of the result's index."""
    extents = op.extents
    reductions = _padded(op.reductions, extents, len(iterators.reduction))
    result_order = _result_order(op)
    for parallel in permutations(result_order, len(iterators.parallel)):
        rest = tuple(i for i in result_order if i not in parallel)
        if not iterators.groups and any(extents[i] > 1 for i in rest):
            continue
        groups = {name: rest for name in iterators.groups}
        for reduction in permutations(reductions, len(iterators.reduction)):
            if any(extents[i] > 1 for i in op.reductions if i not in reduction):
                continue
            names = dict(zip(iterators.parallel, parallel, strict=True))
            names.update(zip(iterators.reduction, reduction, strict=True))
            yield Space(extents, names, groups)


def _padded(reductions: Sequence[int], extents: Sequence[int], count: int) -> list[int]:
    """The reductions, long ones first, so that names prefer them to unit ones."""
    ordered = sorted(reductions, key=lambda i: extents[i] == 1)
    return ordered if len(ordered) >= count else []


def _result_order(op: tir.BlockOp) -> list[int]:
    """The parallel iterators in the order in which they index the result."""
    used: list[int] = []
    for expr in op.out_maps[0].results:
        used.extend(i for i in sorted(expr.used_dims()) if i not in used)
    return [*used, *(i for i in op.parallels if i not in used)]
