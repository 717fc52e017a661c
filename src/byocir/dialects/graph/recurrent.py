"""Recurrent ops over sequences: rnn, gru and lstm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from byocir.dialects.checks import expect
from byocir.dialects.graph.base import INT, GraphOp, dims, expect_flag, expect_float
from byocir.dialects.types import i32, shape_of, tensor

DIRECTIONS = ("forward", "reverse", "bidirectional")


class RecurrentOp(GraphOp):
    """Base of the recurrent ops on sequences `[steps,batch,inputs]`.

    Operands and gates are as in ONNX, all present: weight `[directions,gates*H,inputs]`,
    recurrence `[directions,gates*H,H]`, bias `[directions,2*gates*H]` (of both), lengths `[batch]`
    of i32, initial_h `[directions,batch,H]`. Results are the states of all steps
    `[steps,directions,batch,H]`, 0 behind a sequence's end, and the last ones
    `[directions,batch,H]`. Activations are ONNX's defaults.
    """

    GATES: ClassVar[int]

    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    recurrence = operand_def(TensorType)
    bias = operand_def(TensorType)
    lengths = operand_def(TensorType)
    initial_h = operand_def(TensorType)
    direction = prop_def(StringAttr)
    states = result_def(TensorType)
    last_h = result_def(TensorType)
    traits = traits_def(Pure())

    def sizes(self) -> tuple[int, int, int, int]:
        """Steps, directions, batch and hidden size; raises VerifyException if the operands do not
        fit them."""
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


_FORMAT = (
    "$input `,` $weight `,` $recurrence `,` $bias `,` $lengths `,` $initial_h attr-dict `:` "
    "functional-type(operands, results)"
)


@irdl_op_definition
class RnnOp(RecurrentOp):
    """`h = tanh(x W' + h R' + b)`, e.g. `%s, %h = graph.rnn %x, %w, %r, %b, %lengths, %h0
    {direction = "forward"} : (tensor<5x2x3xf32>, tensor<1x4x3xf32>, tensor<1x4x4xf32>,
    tensor<1x8xf32>, tensor<2xi32>, tensor<1x2x4xf32>) -> (tensor<5x1x2x4xf32>,
    tensor<1x2x4xf32>)`."""

    name = "graph.rnn"
    GATES: ClassVar[int] = 1
    assembly_format = _FORMAT


@irdl_op_definition
class GruOp(RecurrentOp):
    """Gated recurrent unit with gates update, reset, hidden; with `linear_before_reset = 1` the
    reset applies behind the product, e.g. `%s, %h = graph.gru %x, %w, %r, %b, %lengths, %h0
    {direction = "forward", linear_before_reset = 0 : i64} : (tensor<5x2x3xf32>, tensor<1x12x3xf32>,
    tensor<1x12x4xf32>, tensor<1x24xf32>, tensor<2xi32>, tensor<1x2x4xf32>) ->
    (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)`."""

    name = "graph.gru"
    GATES: ClassVar[int] = 3

    linear_before_reset = prop_def(INT)
    assembly_format = _FORMAT

    def infer(self) -> Sequence[TensorType]:
        expect_flag("linear_before_reset", self.linear_before_reset)
        return super().infer()


@irdl_op_definition
class LstmOp(RecurrentOp):
    """Long short-term memory with gates input, output, forget, cell, an initial cell and peepholes
    `[directions,3*H]`; the third result is the last cell, e.g. `%s, %h, %c = graph.lstm %x, %w, %r,
    %b, %lengths, %h0, %c0, %p {direction = "forward"} : (tensor<5x2x3xf32>, tensor<1x16x3xf32>,
    tensor<1x16x4xf32>, tensor<1x32xf32>, tensor<2xi32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>,
    tensor<1x12xf32>) -> (tensor<5x1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>)`."""

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
