"""Writes blocks as C functions: loops around a body.

A block becomes a function of the arrays it reads and those it writes. Iterators of extent 1 go, and
neighbours that all accesses walk through as one are merged. Reductions run in the order of the
block for each element, with their accumulators side by side along one parallel iterator, innermost,
so that compilers can use vector instructions: floats are added in the evaluator's order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.array import known_values
from byocir.dialects.intervals import Interval
from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.affine import divided_iterators, iterators_in
from byocir.dialects.tir.linear import spans
from byocir.dialects.types import element_type_of, nbytes, shape_of
from byocir.evaluate.scalar import arguments_of
from byocir.lowering.tir_to_c.accesses import IndexText, Inside, offset_of, outside_of
from byocir.lowering.tir_to_c.block_parts import BlockOperand, Kernel, KernelLoop, nest
from byocir.lowering.tir_to_c.conditions import APART, KEPT_APART, either, loop_over, when
from byocir.lowering.tir_to_c.epilogue import Epilogue
from byocir.lowering.tir_to_c.float_ranges import known_floats
from byocir.lowering.tir_to_c.literals import (
    HALVES,
    c_type,
    literal,
    loaded,
    stored,
    stored_type,
)
from byocir.lowering.tir_to_c.routine_sources import HALF
from byocir.lowering.tir_to_c.scalars import Scalars
from byocir.lowering.tir_to_c.tree import Block, Declare, For, If, Node, Nodes

LANES = 64
"""The accumulators that stand side by side where elements follow each other in memory."""
STRIDED_LANES = 8
"""The same where they do not: enough to hide how long an addition takes."""
GROUPED = frozenset(2**n for n in range(4, 13))
"""Steps of reads that compilers take for parts of groups."""
NEAR = 4
"""Elements this far apart still count as following each other."""
ANYWHERE = Interval(-(2**31), 2**31)
"""Beyond what an iterator reaches from any base."""


class BlockWriter:
    """Writes one block. `initial` gives the C constants that accumulators start from, by position
    among `outs`; the others start from what the array holds. Iterators on `based` start at a
    parameter, the others at 0; `spans` has the least and the greatest value of such a parameter
    where it is known. With an epilogue, whose accumulators must start from a constant, the
    epilogue's results are written instead. `lane` is the iterator along which accumulators stand
    side by side, if that is decided.
    """

    def __init__(
        self,
        op: BlockOp,
        initial: Mapping[int, str],
        based: Sequence[int] = (),
        epilogue: Epilogue | None = None,
        *,
        spans: Mapping[int, Interval] | None = None,
        lane: int | None = None,
    ) -> None:
        self.op, self.initial, self.based, self.epilogue = op, initial, based, epilogue
        self._spans, self._wanted = spans or {}, lane
        self.scalars = Scalars()
        block, count = op.body.block, len(op.ins)
        self._used = arguments_of(block, op.yielded)
        self.ins = [
            self._access(self._name(value, i), value, i, pad)
            for i, (value, pad) in enumerate(zip(op.ins, op.pad_values, strict=True))
        ]
        self.outs = [self._access(f"y{i}", v, count + i, None) for i, v in enumerate(op.outs)]
        self.late_ins, self.late_outs, self.late_used = self._late(epilogue)
        self.scalars.floats = known_floats(op, None if epilogue is None else epilogue.op)
        self._whole = op.whole
        self._counted = self._counters()
        kept = self._used - self._counted - self._updated
        self._read = [i for i in range(len(op.ins)) if i in kept]
        self.guards: list[AffineExpr] = list(op.where.data.results) if op.where is not None else []
        self.parallel = [KernelLoop(i, op.extents[i]) for i in op.parallels if op.extents[i] > 1]
        self.reduction = [KernelLoop(i, op.extents[i]) for i in op.reductions if op.extents[i] > 1]
        self.parallel, self.reduction = self._merged(self.parallel), self._merged(self.reduction)
        self._left = {loop.position: loop for loop in (*self.parallel, *self.reduction)}
        self.indices = self.indices_at(())

    def indices_at(self, starts: Collection[KernelLoop]) -> IndexText:
        """Gives a writer of index expressions in which these loops are at the start of a tile."""
        names = ["0"] * len(self.op.extents)
        for i, loop in self._left.items():
            names[i] = loop.start if loop in starts else loop.name
        for i in self.based:
            names[i] = f"(b{i} + {names[i]})" if i in self._left else f"b{i}"
        return IndexText(names, self._ranges())

    @property
    def _updated(self) -> set[int]:
        """Lists the inputs that are updated in place, as buffers can be: in C they have the
        result's name.
        """
        return (
            set()
            if self.op.results
            else {i for i, v in enumerate(self.op.ins) if v in self.op.outs}
        )

    def _name(self, value: SSAValue, position: int) -> str:
        outs = list(self.op.outs)
        return f"y{outs.index(value)}" if position in self._updated else f"x{position}"

    def _ranges(self) -> list[Interval]:
        """Bounds each iterator; a base that is not known may be anything."""
        ranges = spans(self.op.extents)
        for i in self.based:
            low, high = self._spans.get(i, ANYWHERE)
            ranges[i] = Interval(low, high + ranges[i].high)
        return ranges

    def _counters(self) -> set[int]:
        """Finds the inputs that are constants 0, 1, 2, …: the body takes the index itself in their
        place. Notes the ranges of other integer constants.
        """
        counters: set[int] = set()
        ranges = self.scalars.ranges
        for i, value in enumerate(self.op.ins):
            known = None if i in self._whole else known_values(value)
            if known is None or known.dtype != np.int64 or not known.size or self.ins[i].checks:
                continue
            ranges[self.op.body.block.args[i]] = Interval(int(known.min()), int(known.max()))
            if known.ndim == 1 and np.array_equal(known, np.arange(known.size)):
                counters.add(i)
        return counters

    def _late(
        self, epilogue: Epilogue | None
    ) -> tuple[list[BlockOperand], list[BlockOperand], list[int]]:
        """Lists the reads and the writes of an epilogue, and the inputs that it takes beside the
        result.
        """
        if epilogue is None:
            return [], [], []
        op, count = epilogue.op, len(epilogue.op.ins)
        used = sorted(arguments_of(op.body.block, op.yielded) - {epilogue.position})
        values = [*op.ins, *op.outs]
        accesses = [
            self._mapped(f"{'e' if i < count else 'z'}{i}", values[i], map_, None)
            for i, map_ in enumerate(epilogue.maps)
        ]
        return accesses[:count], accesses[count:], [i for i in used if i < count]

    def _access(
        self, name: str, value: SSAValue, position: int, pad: Attribute | None
    ) -> BlockOperand:
        return self._mapped(name, value, self.op.maps.data[position].data, pad)

    def _mapped(
        self, name: str, value: SSAValue, map_: AffineMap, pad: Attribute | None
    ) -> BlockOperand:
        shape = shape_of(value.type) if map_.results else ()
        checks = [] if pad is None else outside_of(map_, shape, self._ranges())
        element = element_type_of(value.type)
        outside = literal(pad) if pad is not None else None
        return BlockOperand(
            name, element, offset_of(map_, shape), checks, outside, nbytes(value.type)
        )

    def _accesses(self) -> list[BlockOperand]:
        read = [x for i, x in enumerate(self.ins) if i in self._used]
        if self.epilogue is None:
            return [*read, *self.outs]
        return [*read, *(self.late_ins[i] for i in self.late_used), *self.late_outs]

    @property
    def written(self) -> list[BlockOperand]:
        """Lists the arrays that the function writes."""
        return self.outs if self.epilogue is None else self.late_outs

    def _merged(self, loops: list[KernelLoop]) -> list[KernelLoop]:
        """Merges neighbouring loops where the outer one steps as far as the inner one runs."""
        accesses = self._accesses()
        fixed = {i for access in accesses for i in access.fixed}
        fixed |= iterators_in(self.guards) | set(self.based)
        fixed |= set() if self._wanted is None else {self._wanted}
        merged: list[KernelLoop] = []
        for loop in loops:
            outer = merged[-1] if merged else None
            if (
                outer is not None
                and not {outer.position, loop.position} & fixed
                and all(
                    a.offset.coefficient(outer.position)
                    == a.offset.coefficient(loop.position) * loop.extent
                    for a in accesses
                )
            ):
                merged[-1] = KernelLoop(loop.position, outer.extent * loop.extent)
                for access in accesses:
                    access.offset = access.offset.without(outer.position)
            else:
                merged.append(loop)
        return merged

    # -- the function

    def kernel(self) -> Kernel:
        """Writes the function; raises NoC for a body without a form in C."""
        parameters = [
            f"const {stored_type(access.element)} *restrict {access.name}"
            for access in (
                *(self.ins[i] for i in self._read),
                *(self.late_ins[i] for i in self.late_used),
            )
        ]
        parameters += [f"{stored_type(x.element)} *restrict {x.name}" for x in self.written]
        parameters += [f"const ptrdiff_t b{i}" for i in self.based]
        body = self._reduce() if self._accumulates() else self._stored()
        helpers = {**self.scalars.helpers, **self.indices.helpers}
        if self.guards or self._checked or self.end is not None:
            helpers |= APART
        if any(access.element in HALVES for access in self._accesses()):
            helpers |= HALF
        if self.scalars.can_fail:
            body = [*body, "return 0;"]
        return Kernel(parameters, body, helpers, self.scalars.can_fail)

    @property
    def used(self) -> list[int]:
        """Lists the positions of the inputs that the function takes."""
        return self._read

    def _accumulates(self) -> bool:
        return bool(self.reduction) or any(len(self.ins) + i in self._used for i in self.initial)

    def _stored(self) -> Nodes:
        """Writes the body at all points. Where reads step by a power of two along the last loop,
        another loop, along which reads follow each other, goes innermost, in groups small enough
        that results stay near.
        """
        along = self._followed()
        if along is None:
            return self._walked(self.parallel, None, self._store)
        rest = [loop for loop in self.parallel if loop is not along]
        if along.extent <= LANES:
            return self._walked([*rest, along], None, self._store)
        full, remainder = divmod(along.extent, LANES)
        group = _Lanes(along, LANES, along.start)
        body: list[Node] = [
            For(along.start, full * LANES, self._walked(rest, None, self._store, group), step=LANES)
        ]
        if remainder:
            group = _Lanes(along, remainder, str(full * LANES))
            body += self._walked(rest, None, self._store, group)
        return body

    def _followed(self) -> KernelLoop | None:
        """Finds a loop along which reads follow each other where they step by a power of two along
        the last loop; None if the order may stay.

        Compilers take such reads for parts of groups and use no vectors, and their cache lines
        displace each other.
        """
        if not self.parallel or self.guards or self._checked:
            return None
        *others, last = self.parallel
        if last.extent < STRIDED_LANES:
            return None
        reads = [x.offset for i, x in enumerate(self.ins) if i in self._used - self._counted]
        steps = {abs(read.coefficient(last.position)) for read in reads} - {0, 1}
        if not steps or not all(step in GROUPED for step in steps):
            return None
        fixed = {i for access in self._accesses() for i in access.fixed}
        return next(
            (
                loop
                for loop in reversed(others)
                if loop.extent >= STRIDED_LANES
                and loop.position not in fixed
                and all(read.coefficient(loop.position) in (0, 1) for read in reads)
            ),
            None,
        )

    def _walked(
        self,
        loops: Sequence[KernelLoop],
        outs: Sequence[str] | None,
        store: Callable[[int, str], str],
        lanes: _Lanes | None = None,
    ) -> Nodes:
        """Writes the body at all points of loops, the lanes innermost. Each guard stands just
        inside the innermost loop that it depends on.
        """
        make: _MakeLoop = _just
        position, rest = None, list(loops)
        if lanes is not None:
            position, make = lanes.loop.position, lanes.around
        elif rest:
            inner = rest.pop()
            position, make = inner.position, partial(_over, inner)
        # Lanes lie in an array of their own, so that turns around them leave no groups when joined.
        is_nested = lanes is None and (bool(rest) or outs is not None)
        body = self._innermost(outs, store, position, make, is_nested=is_nested)
        left = [guard for guard in self.guards if position not in guard.used_dims()]
        for loop in reversed(rest):
            here = [guard for guard in left if loop.position in guard.used_dims()]
            left = [guard for guard in left if guard not in here]
            body = nest([loop], self._guarded(here, body, when))
        return self._guarded(left, body, when)

    def _innermost(
        self,
        outs: Sequence[str] | None,
        store: Callable[[int, str], str],
        position: int | None,
        make: _MakeLoop,
        *,
        is_nested: bool,
    ) -> Nodes:
        """Writes the body in the loop at `position`, which `make` puts around it. Conditions that
        do not depend on that loop are asked before it.
        """
        guards = [guard for guard in self.guards if position in guard.used_dims()]
        before: dict[int, list[Inside]] = {}
        inside: dict[int, Sequence[Inside]] = {}
        for i in self._checked:
            checks = self.ins[i].checks
            inside[i] = [check for check in checks if position in check.expr.used_dims()]
            if len(inside[i]) < len(checks):
                before[i] = [check for check in checks if check not in inside[i]]

        def loop(asked: Mapping[int, Sequence[Inside] | None]) -> Nodes:
            body = self._guarded(guards, self._point(self._bound(outs, asked), store), If)
            varies = bool(guards) or any(asked.get(i, True) for i in self._checked)
            return make([KEPT_APART, *body] if varies and self._has_groups else body, varies)

        if not before:
            varies = bool(guards) or any(inside.values())
            return [*([KEPT_APART] if varies and is_nested else []), *loop(inside)]
        conditions = [
            self.indices.condition(check) for checks in before.values() for check in checks
        ]
        only = next(iter(before)) if len(before) == 1 else None
        otherwise = loop({} if only is None else {**inside, only: None})
        return [either(" && ".join(conditions), loop(inside), otherwise)]

    @property
    def _has_groups(self) -> bool:
        """Tells if a compiler may vectorise the work at one point: several sums, or several reads
        of one array.
        """
        read = [value for i, value in enumerate(self.op.ins) if i in self._used]
        return len(self.outs) > 1 or len({*read}) < len(read)

    @property
    def _checked(self) -> list[int]:
        """Lists the inputs that are read outside of their arrays."""
        return [i for i in sorted(self._used) if i < len(self.ins) and self.ins[i].checks]

    def _place(self, access: BlockOperand) -> str:
        return f"{access.name}[{self.indices.offset(access.offset)}]"

    def _load(self, access: BlockOperand, checks: Sequence[Inside] | None = ()) -> str:
        """Writes an element, or the pad where a check fails; without checks the element alone, for
        None the pad alone.
        """
        if checks is None:
            return str(access.pad)
        element = loaded(access.element, self._place(access))
        if not checks:
            return element
        conditions = " && ".join(self.indices.condition(check) for check in checks)
        return f"({conditions} ? {element} : {access.pad})"

    def _input(self, index: int, checks: Sequence[Inside] | None) -> str:
        """Writes what the body takes for an input: an element, an index or the array."""
        if index in self._counted:
            return self.indices.expr(self.op.in_maps[index].results[0])
        access = self.ins[index]
        return access.name if index in self._whole else self._load(access, checks)

    def _store(self, index: int, value: str) -> str:
        """Writes the element of a result."""
        out = self.outs[index]
        return f"{self._place(out)} = {stored(out.element, value)};"

    def _bound(
        self, outs: Sequence[str] | None, asked: Mapping[int, Sequence[Inside] | None]
    ) -> dict[SSAValue, str]:
        """Writes the arguments of the body: by default elements of the arrays. `asked` gives the
        checks that are left for an input, None for an input that is read outside; by default all
        are left.
        """
        loads = [
            self._input(i, asked.get(i, access.checks)) if i in self._used else ""
            for i, access in enumerate(self.ins)
        ]
        outs = [self._load(access) for access in self.outs] if outs is None else outs
        return dict(zip(self.op.body.block.args, [*loads, *outs], strict=True))

    def _point(self, arguments: dict[SSAValue, str], store: Callable[[int, str], str]) -> Nodes:
        """Writes the body at one point; `store` writes the value of a result."""
        loads: list[Node] = []
        bound: dict[SSAValue, str] = {}
        for i, (argument, text) in enumerate(arguments.items()):
            if i not in self._used:
                continue
            if i in self._whole:
                bound[argument] = text
                continue
            bound[argument] = f"a{i}"
            loads.append(Declare(c_type(argument.type), f"a{i}", text))
        computed, values = self.scalars.statements(self.op.body.block, bound, self.op.yielded)
        return [*loads, *computed, *(store(i, value) for i, value in enumerate(values))]

    def _guarded(
        self, guards: Sequence[AffineExpr], body: Nodes, guarded: Callable[[str, Nodes], If]
    ) -> Nodes:
        if not guards:
            return body
        return [guarded(" && ".join(f"{self.indices.expr(guard)} >= 0" for guard in guards), body)]

    # -- reductions

    def _reduce(self) -> Nodes:
        lane = self._lane()
        if lane is None:
            return nest(self.parallel, self._accumulated(None))
        rest = [loop for loop in self.parallel if loop is not lane]
        size = LANES if self._is_near(lane) else STRIDED_LANES
        if lane.extent <= size:
            return nest(rest, self._accumulated(_Lanes(lane, lane.extent)))
        full, remainder = divmod(lane.extent, size)
        inner = self._accumulated(_Lanes(lane, size, lane.start))
        body: list[Node] = [For(lane.start, full * size, inner, step=size)]
        if remainder:
            body += self._accumulated(_Lanes(lane, remainder, str(full * size)))
        return nest(rest, body)

    def _lane(self) -> KernelLoop | None:
        """Chooses the parallel iterator along which accumulators stand side by side."""
        wanted = next((x for x in self.parallel if x.position == self._wanted), None)
        if wanted is not None:
            return wanted
        near = [loop for loop in self.parallel if self._follows(loop)]
        if near:
            return max(near, key=lambda loop: min(loop.extent, LANES))
        return self.parallel[-1] if self.parallel and self.parallel[-1].extent > 1 else None

    def _follows(self, loop: KernelLoop) -> bool:
        return self._is_near(loop) and all(
            loop.position not in access.fixed for access in self._accesses()
        )

    def _is_near(self, loop: KernelLoop) -> bool:
        """Tells whether steps along a loop are so short that elements count as following each
        other.
        """
        return all(
            abs(access.offset.coefficient(loop.position)) <= NEAR
            and loop.position not in divided_iterators(access.offset)
            for access in self._accesses()
        )

    def _accumulated(self, lanes: _Lanes | None) -> Nodes:
        """Writes accumulators from their start to their end, one for each of the lanes if there are
        any.
        """
        head: list[str] = []
        first: list[str] = []
        last: list[str] = []
        accumulators: list[str] = []
        index, size = ("", "") if lanes is None else ("[j]", f"[{lanes.count}]")
        for i, access in enumerate(self.outs):
            head.append(f"{c_type(access.element)} acc{i}{size};")
            first.append(f"acc{i}{index} = {self.initial.get(i) or self._load(access)};")
            last.append(self._store(i, f"acc{i}{index}"))
            accumulators.append(f"acc{i}{index}")
        make = _just if lanes is None else lanes.around
        ends = make(last, False) if self.epilogue is None else self._finish(lanes, make)
        walked = self._walked(
            self.reduction,
            accumulators,
            lambda i, value: f"{accumulators[i]} = {value};",
            lanes,
        )
        return [Block([*head, *make(first, False), *walked, *ends])]

    def _finish(self, lanes: _Lanes | None, make: _MakeLoop) -> Nodes:
        """Writes the epilogue, left out where it does not reach the end of the last dimension."""
        late = self.finished("acc0" if lanes is None else "acc0[j]")
        block = Block(late)
        if self.end is None:
            return make([block], False)
        last = self.op.out_maps[0].results[-1]
        condition = f"{self.indices.expr(last)} < {self.end}"
        if lanes is None or lanes.loop.position not in last.used_dims():
            return [when(condition, make([block], False))]
        return [KEPT_APART, *make([If(condition, late)], True)]

    @property
    def end(self) -> int | None:
        """Gives the extent of the epilogue along the last dimension, if that is not all of it."""
        if self.epilogue is None or self.epilogue.extent == shape_of(self.op.outs[0].type)[-1]:
            return None
        return self.epilogue.extent

    def finished(self, element: str) -> Nodes:
        """Writes the epilogue at one point, for this element of the reduction."""
        assert self.epilogue is not None
        op, position = self.epilogue.op, self.epilogue.position
        args = op.body.block.args
        texts = {i: self._load(self.late_ins[i]) for i in self.late_used} | {position: element}
        texts |= {len(op.ins) + i: self._load(x) for i, x in enumerate(self.late_outs)}
        used = arguments_of(op.body.block, op.yielded)
        bound: dict[SSAValue, str] = {args[i]: f"g{i}" for i in texts if i in used}
        loads = [Declare(c_type(args[i].type), f"g{i}", texts[i]) for i in texts if i in used]
        computed, values = self.scalars.statements(op.body.block, bound, op.yielded, "u")
        out = self.late_outs[0]
        return [*loads, *computed, f"{self._place(out)} = {stored(out.element, values[0])};"]


@dataclass(frozen=True)
class _Lanes:
    """Describes accumulators that stand side by side: `count` of them, along a loop from `start`
    on."""

    loop: KernelLoop
    count: int
    start: str = ""

    def around(self, body: Nodes, varies: bool) -> Nodes:
        """Puts a loop over the lanes around statements; what it does `varies` with conditions that
        depend on it.
        """
        place = Declare("ptrdiff_t", self.loop.name, f"{self.start} + j" if self.start else "j")
        return [loop_over("j", self.count, [place, *body], varies)]


_MakeLoop = Callable[[Nodes, bool], Nodes]
"""Puts a loop around statements, in which elements are read under conditions or not."""


def _just(body: Nodes, varies: bool) -> Nodes:
    """Gives the statements as they are, in place of a loop around them."""
    return [*([KEPT_APART] if varies else []), *body]


def _over(loop: KernelLoop, body: Nodes, varies: bool) -> Nodes:
    return [loop_over(loop.name, loop.extent, body, varies)]
