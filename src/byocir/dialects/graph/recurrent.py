"""Defines recurrent ops over sequences: rnn, gru and lstm. Their definition multiplies all inputs
by the weights in one contraction, then has a loop over the steps that carries the states, with the
products of the states as contractions inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import operand_def, prop_def, result_def

from byocir.dialects.array import known_values
from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import INT, GraphOp, Way, dims, expect_flag, expect_float
from byocir.dialects.graph.operands import accumulator_of
from byocir.dialects.graph.unary import sigmoid
from byocir.dialects.tir.bodies import first, multiply_accumulate
from byocir.dialects.tir.emit import Emitter, Read, ScalarBody, Space
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import Shape, dtype_of, element_type_of, i32, shape_of, tensor

DIRECTIONS = ("forward", "reverse", "bidirectional")


class RecurrentOp(GraphOp):
    """Defines what the recurrent ops on sequences `[steps,batch,inputs]` share.

    Operands and gates are as in ONNX, all present: weight `[directions,gates*H,inputs]`,
    recurrence `[directions,gates*H,H]`, bias `[directions,2*gates*H]` (of both), lengths `[batch]`
    of i32, initial_h `[directions,batch,H]`. Results are the states of all steps
    `[steps,directions,batch,H]`, 0 behind a sequence's end, and the last ones
    `[directions,batch,H]`. Activations are ONNX's defaults.
    """

    GATES: ClassVar[int]
    WAY: ClassVar[Way] = Way.LOOP

    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    recurrence = operand_def(TensorType)
    bias = operand_def(TensorType)
    lengths = operand_def(TensorType)
    initial_h = operand_def(TensorType)
    direction = prop_def(StringAttr)
    states = result_def(TensorType)
    last_h = result_def(TensorType)

    def sizes(self) -> tuple[int, int, int, int]:
        """Gives the number of steps and directions, the batch and the hidden size; raises
        VerifyException if the operands do not fit them.
        """
        element, x, r = expect_float(self.input), shape_of(self.input.type), self.recurrence.type
        expect(len(x) == 3, f"expected an input of rank 3, found {dims(x)}")
        found = self.direction.data
        expect(found in DIRECTIONS, f"expected {', '.join(DIRECTIONS)}, found {found}")
        expect(len(shape_of(r)) == 3, f"expected a recurrence of rank 3, found {r}")
        hidden, directions = shape_of(r)[2], 2 if found == "bidirectional" else 1
        rows = self.GATES * hidden
        for name, value, shape in (
            ("weight", self.weight, (directions, rows, x[2])),
            ("recurrence", self.recurrence, (directions, rows, hidden)),
            ("bias", self.bias, (directions, 2 * rows)),
            ("initial_h", self.initial_h, (directions, x[1], hidden)),
        ):
            wanted = tensor(element, shape)
            expect(value.type == wanted, f"expected {name} {wanted}, found {value.type}")
        lengths = tensor(i32, [x[1]])
        expect(
            self.lengths.type == lengths, f"expected lengths {lengths}, found {self.lengths.type}"
        )
        return x[0], directions, x[1], hidden

    def infer(self) -> Sequence[TensorType]:
        steps, directions, batch, hidden = self.sizes()
        element = expect_float(self.input)
        return [
            tensor(element, (steps, directions, batch, hidden)),
            tensor(element, (directions, batch, hidden)),
        ]

    def macs(self) -> int:
        steps, directions, batch, hidden = self.sizes()
        columns = shape_of(self.input.type)[2] + hidden
        return steps * directions * batch * self.GATES * hidden * columns


@irdl_op_definition
class RnnOp(RecurrentOp):
    """Runs the recurrence `h = tanh(x W' + h R' + b)`, e.g. `%s, %h = graph.rnn %x, %w, %r, %b,
    %lengths, %h0 {direction = "forward"} : (tensor<5x2x3xf32>, tensor<1x4x3xf32>,
    tensor<1x4x4xf32>, tensor<1x8xf32>, tensor<2xi32>, tensor<1x2x4xf32>) -> (tensor<5x1x2x4xf32>,
    tensor<1x2x4xf32>)`.
    """

    name = "graph.rnn"
    GATES: ClassVar[int] = 1

    def define(self, emit: Emitter) -> Sequence[SSAValue]:
        return _recurrent(emit, self, _rnn(self), [self.initial_h])


@irdl_op_definition
class GruOp(RecurrentOp):
    """Runs a gated recurrent unit with gates update, reset, hidden; with `linear_before_reset = 1`
    the reset applies behind the product, e.g. `%s, %h = graph.gru %x, %w, %r, %b, %lengths, %h0
    {direction = "forward", linear_before_reset = 0 : i64} : (tensor<5x2x3xf32>, tensor<1x12x3xf32>,
    tensor<1x12x4xf32>, tensor<1x24xf32>, tensor<2xi32>, tensor<1x2x4xf32>) -> (tensor<5x1x2x4xf32>,
    tensor<1x2x4xf32>)`.
    """

    name = "graph.gru"
    GATES: ClassVar[int] = 3

    linear_before_reset = prop_def(INT)

    def infer(self) -> Sequence[TensorType]:
        expect_flag("linear_before_reset", self.linear_before_reset)
        return super().infer()

    def define(self, emit: Emitter) -> Sequence[SSAValue]:
        return _recurrent(emit, self, _gru(self), [self.initial_h])


@irdl_op_definition
class LstmOp(RecurrentOp):
    """Runs a long short-term memory with gates input, output, forget, cell, an initial cell and
    peepholes `[directions,3*H]`; the third result is the last cell, e.g. `%s, %h, %c = graph.lstm
    %x, %w, %r, %b, %lengths, %h0, %c0, %p {direction = "forward"} : (tensor<5x2x3xf32>,
    tensor<1x16x3xf32>, tensor<1x16x4xf32>, tensor<1x32xf32>, tensor<2xi32>, tensor<1x2x4xf32>,
    tensor<1x2x4xf32>, tensor<1x12xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>,
    tensor<1x2x4xf32>)`.
    """

    name = "graph.lstm"
    GATES: ClassVar[int] = 4

    # All fields again: those of a subclass would come before its base's.
    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    recurrence = operand_def(TensorType)
    bias = operand_def(TensorType)
    lengths = operand_def(TensorType)
    initial_h = operand_def(TensorType)
    initial_c = operand_def(TensorType)
    peepholes = operand_def(TensorType)
    states = result_def(TensorType)
    last_h = result_def(TensorType)
    last_c = result_def(TensorType)
    assembly_format = (
        "$input `,` $weight `,` $recurrence `,` $bias `,` $lengths `,` $initial_h `,` "
        "$initial_c `,` $peepholes attr-dict `:` functional-type(operands, results)"
    )

    def infer(self) -> Sequence[TensorType]:
        states, last = super().infer()
        _, directions, _, hidden = self.sizes()
        peepholes = tensor(expect_float(self.input), (directions, 3 * hidden))
        for name, value, wanted in (
            ("initial_c", self.initial_c, last),
            ("peepholes", self.peepholes, peepholes),
        ):
            expect(value.type == wanted, f"expected {name} {wanted}, found {value.type}")
        return [states, last, last]

    def define(self, emit: Emitter) -> Sequence[SSAValue]:
        return _recurrent(emit, self, _lstm(self), [self.initial_h, self.initial_c])


@dataclass(frozen=True)
class _Direction:
    """Describes one direction of an op: its weights, and the order in which it walks over the
    steps."""

    weight: SSAValue
    """[gates*H, inputs]"""
    recurrences: Mapping[int, SSAValue]
    """[rows, H] of the gates that one product gives, by the first of them."""
    bias: SSAValue
    """[2*gates*H]: of the inputs, then of the states"""
    steps: int
    backwards: bool
    wide: Attribute
    """The element type of the computation."""

    def at(self, space: Space) -> AffineExpr:
        """Gives the position in the sequence at iteration `t`, which a backward direction counts
        from the end.
        """
        return space["t"] * -1 + (self.steps - 1) if self.backwards else space["t"]


@dataclass(frozen=True)
class _Step:
    """Emits the blocks of one step. `products` [steps,batch,gates*H] are those of the inputs with
    the weights.
    """

    emit: Emitter
    direction: _Direction
    index: SSAValue | None
    """The number of the step in its loop; None where there is one step only."""
    products: SSAValue
    states: Sequence[SSAValue]
    """[batch,H] each, the first of which is the output."""

    @property
    def shape(self) -> Shape:
        return shape_of(self.states[0].type)

    @property
    def bases(self) -> Mapping[str, SSAValue]:
        return {} if self.index is None else {"t": self.index}

    def recur(self, state: SSAValue, gate: int = 0) -> SSAValue:
        """Emits the products [batch,rows] of a state with the recurrence weights of this gate, and
        of those that share its product.
        """
        weights, wide = self.direction.recurrences[gate], self.direction.wide
        rows, hidden = shape_of(weights.type)
        space = Space({"m": self.shape[0], "n": rows}, {"k": hidden})
        reads = [
            Read(state, [space["m"], space["k"]]),
            Read(weights, [space["n"], space["k"]]),
        ]
        zero = self.emit.fill(0, wide, (self.shape[0], rows))
        return self.emit.block(
            space, reads, zero, lambda x, w, acc: multiply_accumulate(x, w, acc, to=wide)
        )

    def cell(self, reads: Callable[[Space], Sequence[Read]], body: ScalarBody) -> SSAValue:
        """Emits a block that computes each element [batch,H] from what is read at `t`, `m`, `n`."""
        space = Space({"t": 1, "m": self.shape[0], "n": self.shape[1]})
        init = self.emit.empty(element_type_of(self.states[0].type), self.shape)

        def without_init(*scalars: Emitted) -> Emitted:
            return body(*scalars[:-1])

        at = [space["m"], space["n"]]
        return self.emit.block(space, reads(space), init, without_init, at, bases=self.bases)

    def product(self, space: Space, gate: int) -> Read:
        """Reads the part of a gate that comes from the inputs."""
        row = space["n"] + gate * self.shape[1]
        return Read(self.products, [self.direction.at(space), space["m"], row])

    def of(self, space: Space, value: SSAValue, gate: int = 0) -> Read:
        """Reads an element of a state or, of what `recur` gave, an element of this gate."""
        return Read(value, [space["m"], space["n"] + gate * self.shape[1]])

    def parameter(self, space: Space, value: SSAValue, row: int) -> Read:
        """Reads an element of a bias or a peephole, behind the first `row` hidden sizes."""
        return Read(value, [space["n"] + row * self.shape[1]])


Cell = Callable[[_Step, int], Sequence[SSAValue]]
"""The next states of a step in a direction."""


@dataclass(frozen=True)
class _Form:
    """Describes the parts of a recurrent op: its cell, the number of gates for which the bias of
    the states is added to the products of the inputs, and the gates that each product of a state
    computes.
    """

    cell: Cell
    joined: int
    products: Sequence[range]


def _sum_with(*parts: Emitted, wide: Attribute) -> Emitted:
    total = parts[0].to(wide)
    for part in parts[1:]:
        total = total + part.to(wide)
    return total


def _rnn(op: RnnOp) -> _Form:
    def cell(step: _Step, direction: int) -> Sequence[SSAValue]:
        (state,), wide = step.states, step.direction.wide
        recurred = step.recur(state)

        def body(x: Emitted, h: Emitted) -> Emitted:
            return _sum_with(x, h, wide=wide).tanh().to(element_type_of(state.type))

        return [step.cell(lambda s: [step.product(s, 0), step.of(s, recurred)], body)]

    return _Form(cell, 1, [range(1)])


def _lstm(op: LstmOp) -> _Form:
    """Describes an LSTM, with gates input, output, forget, cell and peepholes input, output,
    forget.
    """

    def cell(step: _Step, direction: int) -> Sequence[SSAValue]:
        (h, c), wide, element = step.states, step.direction.wide, element_type_of(op.input.type)
        recurred = step.recur(h)
        peepholes = _part(step.emit, op.peepholes, direction)

        def gate(space: Space, index: int) -> list[Read]:
            return [step.product(space, index), step.of(space, recurred, index)]

        def new_cell(*x: Emitted) -> Emitted:
            entry, forget, inner, old, peep_in, peep_forget = (
                *(_sum_with(x[i], x[i + 1], wide=wide) for i in (0, 2, 4)),
                *(part.to(wide) for part in x[6:]),
            )
            kept = sigmoid(forget + peep_forget * old) * old
            made = sigmoid(entry + peep_in * old) * inner.tanh()
            return (kept + made).to(element)

        next_c = step.cell(
            lambda s: [
                *(read for index in (0, 2, 3) for read in gate(s, index)),
                step.of(s, c),
                step.parameter(s, peepholes, 0),
                step.parameter(s, peepholes, 2),
            ],
            new_cell,
        )

        def new_state(x: Emitted, r: Emitted, new: Emitted, peep: Emitted) -> Emitted:
            opened = sigmoid(_sum_with(x, r, wide=wide) + peep.to(wide) * new.to(wide))
            return (opened * new.to(wide).tanh()).to(element)

        next_h = step.cell(
            lambda s: [*gate(s, 1), step.of(s, next_c), step.parameter(s, peepholes, 1)], new_state
        )
        return [next_h, next_c]

    return _Form(cell, 4, [range(4)])


def _gru(op: GruOp) -> _Form:
    """Describes a GRU, with gates update, reset, hidden."""
    linear = op.linear_before_reset.value.data == 1

    def cell(step: _Step, direction: int) -> Sequence[SSAValue]:
        (h,), wide, element = step.states, step.direction.wide, element_type_of(op.input.type)
        gates = step.recur(h)

        def opened(index: int) -> Callable[[Space], list[Read]]:
            return lambda s: [step.product(s, index), step.of(s, gates, index)]

        def gate(x: Emitted, r: Emitted) -> Emitted:
            return sigmoid(_sum_with(x, r, wide=wide))

        if linear:
            inner, row = gates, 2
        else:
            reset = step.cell(
                lambda s: [*opened(1)(s), step.of(s, h)],
                lambda x, r, old: (gate(x, r) * old.to(wide)).to(element),
            )
            inner, row = step.recur(reset, 2), 0

        def reads(s: Space) -> list[Read]:
            last = [step.product(s, 2), step.of(s, inner, row)]
            biased = [*opened(1)(s), step.parameter(s, step.direction.bias, 5)] if linear else []
            return [*opened(0)(s), step.of(s, h), *last, *biased]

        def body(*x: Emitted) -> Emitted:
            update, old = gate(x[0], x[1]), x[2].to(wide)
            product = x[4].to(wide)
            if linear:
                product = gate(x[5], x[6]) * (product + x[7].to(wide))
            new = (x[3].to(wide) + product).tanh()
            return ((update.constant(1) - update) * new + update * old).to(element)

        return [step.cell(reads, body)]

    return _Form(cell, 2, [range(3)]) if linear else _Form(cell, 3, [range(2), range(2, 3)])


def _recurrent(
    emit: Emitter, op: RecurrentOp, form: _Form, starts: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """Emits each direction, and writes its states into its part of the results."""
    results = [
        emit.empty(element_type_of(result.type), shape_of(result.type)) for result in op.results
    ]
    if 0 in shape_of(op.states.type):
        return [results[0], *starts]
    for index in range(shape_of(op.weight.type)[0]):
        direction = _direction(emit, op, index, form)
        products = _products(emit, op.input, direction, form.joined)
        states = [_part(emit, start, index) for start in starts]
        results[0], *lasts = _walk(emit, op, direction, index, form, products, states, results[0])
        for i, last in enumerate(lasts):
            results[1 + i] = _into(emit, last, results[1 + i], index)
    return results


def _walk(
    emit: Emitter,
    op: RecurrentOp,
    direction: _Direction,
    index: int,
    form: _Form,
    products: SSAValue,
    starts: Sequence[SSAValue],
    states: SSAValue,
) -> Sequence[SSAValue]:
    """Emits the loop over all steps of a direction; gives the states of all steps, and the last
    ones.
    """
    lengths = None if _is_full(op) else op.lengths
    counter = None
    if lengths is not None:
        counter = emit.constant(np.arange(direction.steps, dtype=np.int32))

    def body(
        inner: Emitter, at: SSAValue | None, carried: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        before, all_states = carried[:-1], carried[-1]
        step = _Step(inner, direction, at, products, before)
        after = form.cell(step, index)
        shown = after[0]
        if lengths is not None and counter is not None:
            shown = _inside(step, counter, lengths, after[0], None)
            after = [
                _inside(step, counter, lengths, new, old)
                for new, old in zip(after, before, strict=True)
            ]
        return [*after, _shown(step, shown, all_states, index)]

    *lasts, states = emit.loop(direction.steps, [*starts, states], body)
    return [states, *lasts]


def _is_full(op: RecurrentOp) -> bool:
    """Tells if all sequences are known to be as long as the input."""
    lengths = known_values(op.lengths)
    return lengths is not None and bool(np.all(lengths >= shape_of(op.input.type)[0]))


def _inside(
    step: _Step, counter: SSAValue, lengths: SSAValue, new: SSAValue, old: SSAValue | None
) -> SSAValue:
    """Gives `new` where the step lies inside a sequence, else `old` or, without one, 0."""
    others = [] if old is None else [old]

    def reads(space: Space) -> list[Read]:
        values = [step.of(space, value) for value in (new, *others)]
        at = step.direction.at(space)
        return [Read(counter, [at]), Read(lengths, [space["m"]]), *values]

    def body(at: Emitted, length: Emitted, new: Emitted, *old: Emitted) -> Emitted:
        return at.compare("lt", length).select(new, old[0] if old else 0)

    return step.cell(reads, body)


def _shown(step: _Step, state: SSAValue, states: SSAValue, direction: int) -> SSAValue:
    """Writes the state of a step to its place among those of all steps."""
    space = Space({"t": 1, "m": step.shape[0], "n": step.shape[1]})
    out = [step.direction.at(space), AffineExpr.constant(direction), space["m"], space["n"]]
    reads = [step.of(space, state)]
    return step.emit.block(space, reads, states, first, out, bases=step.bases)


def _into(emit: Emitter, state: SSAValue, states: SSAValue, direction: int) -> SSAValue:
    """Writes the last state of a direction to its place among those of all directions."""
    space = Space.over(shape_of(state.type))
    out = [AffineExpr.constant(direction), *space.parallel]
    return emit.block(space, [Read(state, space.parallel)], states, first, out)


def _direction(emit: Emitter, op: RecurrentOp, index: int, form: _Form) -> _Direction:
    weight, bias = (_part(emit, value, index) for value in (op.weight, op.bias))
    hidden = shape_of(op.recurrence.type)[2]
    recurrences = {
        gates.start: _part(
            emit, op.recurrence, index, range(gates.start * hidden, gates.stop * hidden)
        )
        for gates in form.products
    }
    backwards = index == 1 or op.direction.data == "reverse"
    steps = shape_of(op.input.type)[0]
    wide = accumulator_of(element_type_of(op.input.type))
    return _Direction(weight, recurrences, bias, steps, backwards, wide)


def _part(emit: Emitter, value: SSAValue, index: int, rows: range | None = None) -> SSAValue:
    """Gives one direction's part of an operand, all of it or some rows; of a constant as a
    constant.
    """
    known, shape = known_values(value), shape_of(value.type)[1:]
    rows = range(shape[0]) if rows is None else rows
    if known is not None:
        return emit.constant(np.ascontiguousarray(known[index][rows.start : rows.stop]))
    shape = (len(rows), *shape[1:])
    row, *others = Space.over(shape).parallel
    read = Read(value, [AffineExpr.constant(index), row + rows.start, *others])
    return emit.elementwise(shape, element_type_of(value.type), [read], lambda x: x)


def _products(emit: Emitter, x: SSAValue, direction: _Direction, joined: int) -> SSAValue:
    """Emits the products of all inputs with the weights, plus the biases [steps,batch,rows]."""
    (steps, batch, inputs), wide = shape_of(x.type), direction.wide
    rows = shape_of(direction.weight.type)[0]
    space = Space({"t": steps, "m": batch, "n": rows}, {"k": inputs})
    reads = [
        Read(x, [space["t"], space["m"], space["k"]]),
        Read(direction.weight, [space["n"], space["k"]]),
    ]
    shape = (steps, batch, rows)
    total = emit.block(
        space,
        reads,
        emit.fill(0, wide, shape),
        lambda x, w, acc: multiply_accumulate(x, w, acc, to=wide),
    )
    bias = Read(_joined_bias(emit, direction, joined), [AffineExpr.dimension(2)])
    return emit.elementwise(shape, wide, [total, bias], lambda x, bias: x + bias)


def _joined_bias(emit: Emitter, direction: _Direction, joined: int) -> SSAValue:
    """Gives the bias that is added to the products of the inputs in every step [rows]: that of the
    inputs and, for the first `joined` gates, that of the states, too.
    """
    rows, hidden = shape_of(direction.weight.type)[0], shape_of(direction.recurrences[0].type)[1]
    known, wide = known_values(direction.bias), direction.wide
    if known is not None:
        bias = known.astype(dtype_of(wide))
        return emit.constant(
            bias[:rows] + np.where(np.arange(rows) < joined * hidden, bias[rows:], 0)
        )
    at = AffineExpr.dimension(0)
    own = emit.elementwise((rows,), wide, [Read(direction.bias, [at])], lambda x: x.to(wide))
    others = [Read(direction.bias, [at + rows])]
    return emit.block(
        Space.over((joined * hidden,)), others, own, lambda x, acc: acc + x.to(wide), [at]
    )
