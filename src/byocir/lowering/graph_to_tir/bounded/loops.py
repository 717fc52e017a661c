"""Lowers Loop and Scan to `tir.for`: states become carried values, and outputs that are stacked
become carried arrays with room for all turns.

A Loop that may end early is a `tir.for … while`. It leaves arrays of open shape, of which the
largest is known where the number of turns has a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects import graph as g
from byocir.dialects import tir
from byocir.dialects.array import constant_values
from byocir.dialects.byoc import CallOp
from byocir.dialects.graph import ForeignOp, GraphOp
from byocir.dialects.graph import YieldOp as GraphYieldOp
from byocir.dialects.tir.bodies import first
from byocir.dialects.tir.emit import Emitter, Read, Space
from byocir.dialects.traits import is_constant
from byocir.dialects.trip_counts import trip_count
from byocir.dialects.types import (
    Shape,
    element_type_of,
    has_element,
    shape_of,
    static_shape,
)
from byocir.dialects.uses import erase, replace_uses
from byocir.lowering.graph_to_tir.bounded.bounds import (
    Bounded,
    Dim,
    Size,
    bounded_result,
    bounds_of,
    fits,
    integers_of,
)

ENDLESS = 2**62
"""The extent of a loop that ends only where its condition says so."""


def loop_of(emit: Emitter, op: ForeignOp) -> tuple[tir.ForOp, Sequence[Bounded]] | None:
    """Lowers a Loop or Scan to a loop, into which the ops of its graph are moved; gives it and its
    results. None where it stays as it is.
    """
    kind = op.op_type.data if op.is_control_flow else ""
    if kind not in ("Loop", "Scan") or not _is_worth_it(op):
        return None
    plan = _loop(op) if kind == "Loop" else _scan(op)
    if plan is None or not plan.is_static() or not plan.fits_results():
        return None
    return _built(emit, plan)


def _is_worth_it(op: ForeignOp) -> bool:
    """Tells if at least half of a loop's ops are lowered: if most run in the evaluator alone, the
    loop is better left to it in one piece."""
    inner = [each for each in op.walk() if each is not op and not _is_passive(each)]
    lowered = [each for each in inner if isinstance(each, GraphOp | CallOp | tir.BlockOp)]
    return 2 * len(lowered) >= len(inner)


def _is_passive(op: Operation) -> bool:
    return isinstance(op, GraphYieldOp | tir.EmptyOp | tir.FillOp) or is_constant(op)


@dataclass(frozen=True)
class _Along:
    """Describes an array of which each turn takes or gives one slice: along which axis, and whether
    from its end on.
    """

    axis: int
    backwards: bool


@dataclass(frozen=True)
class _Plan:
    """Describes a Loop or Scan on values of static shape."""

    op: ForeignOp
    extent: int
    """The greatest number of turns."""
    states: Sequence[SSAValue]
    scanned: Sequence[tuple[SSAValue, _Along]]
    left: Sequence[_Along]
    """The values that each turn leaves."""
    limit: SSAValue | None = None
    condition: SSAValue | None = None
    ends_early: bool = False

    @property
    def block(self) -> Block:
        return self.op.graphs[0].block

    @property
    def skipped(self) -> int:
        """Counts the graph's inputs that are no values of the model: the iteration's number and
        the condition. Half as many of its outputs are none, too.
        """
        return 2 if self.op.op_type.data == "Loop" else 0

    @property
    def yielded(self) -> Sequence[SSAValue]:
        last = self.block.last_op
        assert last is not None
        return last.operands

    @property
    def slices(self) -> Sequence[SSAValue]:
        """Gives the values of one iteration that are stacked into scan outputs."""
        return self.yielded[self.skipped // 2 + len(self.states) :]

    def is_static(self) -> bool:
        """Tells if C can hold all that iterations take and give, and if that always has the same
        types.
        """
        taken = [argument.type for argument in self.block.args][self.skipped :]
        made = [value.type for value in self.yielded][self.skipped // 2 :]
        count = len(self.states)
        if [value.type for value in self.states] != taken[:count] or made[:count] != taken[:count]:
            return False
        if not all(map(_is_held, (*taken, *made, *(value.type for value, _ in self.scanned)))):
            return False
        controls = [argument.type for argument in self.block.args][: self.skipped]
        given = (self.limit, self.condition, *self.yielded[: self.skipped // 2])
        controls += [value.type for value in given if value is not None]
        return all(static_shape(type_) in ((), (1,)) for type_ in controls)

    def dims(self, turns: Dim) -> list[Sequence[Dim]]:
        """Gives the sizes of the final states and of the stacked outputs, for this number of
        turns.
        """
        found: list[Sequence[Dim]] = [shape_of(state.type) for state in self.states]
        for value, along in zip(self.slices, self.left, strict=True):
            shape = shape_of(value.type)
            found.append((*shape[: along.axis], turns, *shape[along.axis :]))
        return found

    def results(self) -> list[int]:
        """Lists the positions of the outputs that are results of the op."""
        return [i for i, present in enumerate(self.op.present_outputs()) if present]

    def fits_results(self) -> bool:
        """Tells if the sizes are those that were inferred for the results, and C can hold them."""
        dims = self.dims(Size(self.extent) if self.ends_early else self.extent)
        pairs = zip(self.op.results, self.results(), strict=True)
        return all(fits(result.type, dims[place]) for result, place in pairs)


def _is_held(type_: Attribute) -> bool:
    return static_shape(type_) is not None and has_element(element_type_of(type_))


def _loop(op: ForeignOp) -> _Plan | None:
    """Plans a Loop whose number of turns is known, or that stacks no outputs; None for others."""
    limit, condition, *states = op.optional_inputs()
    last = op.graphs[0].block.last_op
    if last is None or None in states:
        return None
    turns, most = trip_count(op), constant_values(limit)
    extent = turns if turns is not None else None if most is None else int(most.item())
    left = len(last.operands) - 1 - len(states)
    if extent is None and left:
        return None
    if extent is not None and extent < 1:
        return None
    given = [value for value in states if value is not None]
    return _Plan(
        op,
        ENDLESS if extent is None else extent,
        given,
        (),
        [_Along(0, False)] * left,
        limit if most is None else None,
        condition,
        turns is None,
    )


def _scan(op: ForeignOp) -> _Plan | None:
    count, last = op.attrs.data.get("num_scan_inputs"), op.graphs[0].block.last_op
    turns = trip_count(op)
    if not isinstance(count, IntegerAttr) or last is None or not turns:
        return None
    start = len(op.inputs) - count.value.data
    scanned, left = op.inputs[start:], len(last.operands) - start
    ranks = [len(shape) for value in scanned if (shape := static_shape(value.type))]
    shapes = [static_shape(value.type) for value in last.operands[start:]]
    made = [len(shape) + 1 for shape in shapes if shape is not None]
    if len(ranks) != len(scanned) or len(made) != left:
        return None
    inputs, outputs = _along(op, "input", ranks), _along(op, "output", made)
    sizes = {shape_of(v.type)[a.axis] for v, a in zip(scanned, inputs, strict=True)}
    if sizes != {turns}:
        return None
    return _Plan(op, turns, op.inputs[:start], list(zip(scanned, inputs, strict=True)), outputs)


def _along(op: ForeignOp, side: str, ranks: Sequence[int]) -> list[_Along]:
    none = [0] * len(ranks)
    axes = integers_of(op, f"scan_{side}_axes") or none
    backwards = integers_of(op, f"scan_{side}_directions") or none
    return [_Along(a % r, bool(b)) for a, b, r in zip(axes, backwards, ranks, strict=True)]


# -- the loop


def _move(graph: Block, body: Block) -> None:
    """Moves the ops of a graph to the end of a body, but for the one that ends it, which goes."""
    *ops, last = graph.ops
    for op in ops:
        op.detach()
        body.add_op(op)
    erase(last)


def _built(emit: Emitter, plan: _Plan) -> tuple[tir.ForOp, Sequence[Bounded]]:
    """Emits the loop. It carries whether there is a next turn, if only the run tells that, the
    number of the turn, if the graph asks for it, the states and the stacked outputs.
    """
    op, block = plan.op, plan.block
    initial = _control(emit, plan)
    first = len(initial)
    initial += plan.states
    turns: Dim = Size(plan.extent) if plan.ends_early else plan.extent
    dims = plan.dims(turns)
    for value, shape in zip(plan.slices, dims[len(plan.states) :], strict=True):
        initial.append(emit.empty(element_type_of(value.type), bounds_of(shape)))
    loop = emit.add(
        tir.ForOp.of(
            plan.extent, location=op.location, initial=initial, conditional=plan.ends_early
        )
    )
    inner = Emitter(op.location)
    taken = [_slice(inner, v, along, plan, loop.index) for v, along in plan.scanned]
    given = [*loop.carried[first : first + len(plan.states)], *taken]
    if plan.skipped:
        given = [*_controls(inner, plan, loop), *given]
    for argument, value in zip(block.args, given, strict=True):
        replace_uses(argument, value)
    yielded, slices = list(plan.yielded), list(plan.slices)
    body = loop.body.block
    body.add_ops(inner.ops)
    _move(block, body)
    end = Emitter(op.location)
    next_ = _next_control(end, plan, loop, yielded)
    next_ += yielded[plan.skipped // 2 : plan.skipped // 2 + len(plan.states)]
    arrays = loop.carried[first + len(plan.states) :]
    for i, (value, array) in enumerate(zip(slices, arrays, strict=True)):
        next_.append(_left(end, value, array, plan.left[i], plan, loop.index))
    end.add(tir.YieldOp.create(operands=next_, location=op.location))
    body.add_ops(end.ops)
    if isinstance(turns, Size):
        turns.is_number(_as_shape(emit, loop.results[1], (1,)))
    results = loop.results[first:]
    return loop, [
        bounded_result(op, i, results[at], dims[at]) for i, at in enumerate(plan.results())
    ]


# -- whether and which turn comes next


def _control(emit: Emitter, plan: _Plan) -> list[SSAValue]:
    """Emits the carried values for condition and number before the first turn."""
    if not plan.skipped:
        return []
    count = emit.constant(np.zeros((), np.int64))
    if not plan.ends_early:
        return [count]
    go = emit.constant(np.ones((), np.bool_))
    if plan.condition is not None:
        go = _as_shape(emit, plan.condition, ())
    return [_unless_done(emit, plan, go, count), count]


def _unless_done(emit: Emitter, plan: _Plan, go: SSAValue, count: SSAValue) -> SSAValue:
    """Emits the test that a condition holds and fewer iterations ran than a limit known at run
    time."""
    if plan.limit is None:
        return go
    more = _make(emit, g.LessOp, count, _as_shape(emit, plan.limit, ()))
    return _make(emit, g.AndOp, go, more)


def _controls(emit: Emitter, plan: _Plan, loop: tir.ForOp) -> list[SSAValue]:
    """Emits the first two inputs of the graph: the iteration's number, and a true condition."""
    number, condition = plan.block.args[:2]
    true = emit.constant(np.ones(shape_of(condition.type), np.bool_))
    return [_as_shape(emit, _count(plan, loop), shape_of(number.type)), true]


def _count(plan: _Plan, loop: tir.ForOp) -> SSAValue:
    return loop.carried[int(plan.ends_early)]


def _next_control(
    emit: Emitter, plan: _Plan, loop: tir.ForOp, yielded: Sequence[SSAValue]
) -> list[SSAValue]:
    if not plan.skipped:
        return []
    one = emit.constant(np.ones((), np.int64))
    count = _make(emit, g.AddOp, _count(plan, loop), one)
    if not plan.ends_early:
        return [count]
    go = _as_shape(emit, yielded[0], ())
    return [_unless_done(emit, plan, go, count), count]


def _make(emit: Emitter, kind: type[GraphOp], *operands: SSAValue) -> SSAValue:
    return emit.add(kind.make(*operands, location=emit.location)).results[0]


def _as_shape(emit: Emitter, value: SSAValue, shape: Shape) -> SSAValue:
    if shape_of(value.type) == shape:
        return value
    return emit.add(g.ReshapeOp.make(value, shape=shape, location=emit.location)).result


# -- slices


def _place(along: _Along, plan: _Plan, turn: AffineExpr) -> AffineExpr:
    return turn * -1 + (plan.extent - 1) if along.backwards else turn


def _slice(emit: Emitter, value: SSAValue, along: _Along, plan: _Plan, index: SSAValue) -> SSAValue:
    """Emits the slice of an array that one iteration takes: [n, a, b] → [a, b] along axis 0."""
    whole = shape_of(value.type)
    shape = (*whole[: along.axis], *whole[along.axis + 1 :])
    space = _space(shape)
    at = [space[f"i{i}"] for i in range(len(shape))]
    read = [*at[: along.axis], _place(along, plan, space["t"]), *at[along.axis :]]
    init = emit.empty(element_type_of(value.type), shape)
    return emit.block(space, [Read(value, read)], init, first, at, bases={"t": index})


def _left(
    emit: Emitter, value: SSAValue, array: SSAValue, along: _Along, plan: _Plan, index: SSAValue
) -> SSAValue:
    """Writes the value of one turn into the array that stacks it."""
    shape = shape_of(value.type)
    space = _space(shape)
    at = [space[f"i{i}"] for i in range(len(shape))]
    place = [*at[: along.axis], _place(along, plan, space["t"]), *at[along.axis :]]
    return emit.block(space, [Read(value, at)], array, first, place, bases={"t": index})


def _space(shape: Shape) -> Space:
    return Space({"t": 1, **{f"i{i}": size for i, size in enumerate(shape)}})
