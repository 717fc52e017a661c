"""round-operands, read-rounded: multiply floats of 32 bits as halves, as most matrix units do.

`round-operands{to=f16}` does: rounds what convolutions and matrix products of f32 multiply to f16,
or to bf16; their sums stay f32:

    matmul(x, w) → matmul(cast(cast(x, f16), f32), w')

where w' are the constants w, rounded. `read-rounded` brings that into the form which nets of halves
have at the tensor level: a contraction reads the halves themselves and widens them, and constants
whose numbers are halves become arrays of these.

Requires: nothing, for `round-operands`; blocks in value form, in functions without `byoc.target`,
for `read-rounded`. A target asks for both (`Target.rounds_operands`), in the whole module before
the first match. Raises ByocirError B291 for another type.

Guarantees: `round-operands` changes numbers, by up to half a step of the narrower type for each
operand; f16 has no numbers above 65504. `read-rounded` changes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.array import Array, known_values
from byocir.dialects.graph import CastOp, ConvOp, ConvTransposeOp, GraphOp, MatmulOp
from byocir.dialects.tir import BlockOp, ConstantOp, blocks_in
from byocir.dialects.tir.affine import whole_axes
from byocir.dialects.tir.scalar import number_attr
from byocir.dialects.types import bf16, dtype_of, element_type_of, f16, f32, shape_of
from byocir.dialects.uses import erase_unused, put_before, replace_op, replace_uses
from byocir.errors import ByocirError
from byocir.rewrites.byoc.host_blocks import host_functions
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module
from byocir.rewrites.host.contraction import multiplies_and_adds

HALVES = {"f16": f16, "bf16": bf16}
"""The types that operands may be rounded to, by their names."""


@dataclass(frozen=True)
class RoundOperandsPass(ModulePass):
    """Rounds what convolutions and matrix products of f32 multiply."""

    name = "round-operands"

    to: str
    """The type: f16 or bf16."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_module(op, [RoundOperands(_half(self))])


def _half(given: RoundOperandsPass | ReadRoundedPass) -> Attribute:
    if given.to not in HALVES:
        told = f"expected a type among {', '.join(HALVES)}, found {given.to}"
        raise ByocirError("B291", told, where=f"pass {given.name}")
    return HALVES[given.to]


@dataclass(frozen=True)
class RoundOperands(Pattern):
    """Replaces `matmul(x, w)` by the product of what x and w are as halves."""

    half: Attribute
    roots = (ConvOp, ConvTransposeOp, MatmulOp)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, GraphOp)
        one, other, *rest = op.operands
        if any(element_type_of(each.type) != f32 for each in (one, other)):
            return None
        rounded = [self._rounded(each, new) for each in (one, other)]
        if rounded == [one, other]:
            return None
        return [new.again(op, *rounded, *rest, location=op.location)]

    def _rounded(self, value: SSAValue, new: NewOps) -> SSAValue:
        known = known_values(value)
        if known is not None:
            halves = _as_halves(known, self.half)
            return value if np.array_equal(halves, known, equal_nan=True) else new.constant(halves)
        if isinstance(value.owner, CastOp) and element_type_of(value.owner.input.type) == self.half:
            return value
        narrow = new.add(CastOp.make(value, to=self.half))
        return new.add(CastOp.make(narrow.results[0], to=f32)).results[0]


def _as_halves(values: np.ndarray, half: Attribute) -> np.ndarray:
    """Rounds f32 numbers to those that another type has."""
    with np.errstate(over="ignore"):
        return values.astype(dtype_of(half)).astype(np.float32)


@dataclass(frozen=True)
class ReadRoundedPass(ModulePass):
    """Lets contractions read halves where they read what was made of these."""

    name = "read-rounded"

    to: str
    """The type: f16 or bf16."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        half = _half(self)
        for function in host_functions(op):
            for block in blocks_in(function):
                if block.in_value_form and multiplies_and_adds(block):
                    _read_halves(block, half)
            erase_unused(function.body.block)


def _read_halves(op: BlockOp, half: Attribute) -> None:
    """Makes a contraction of f32 read halves, if it can read both operands so."""
    if {arg.type for arg in op.body.block.args} != {f32}:
        return
    one, other = (_halves(op, position, half) for position in (0, 1))
    if one is None or other is None:
        return
    made = op.like(
        ins=[one.value, other.value],
        pads=[one.pad, other.pad],
    )
    body = made.body.block
    assert body.first_op is not None
    for position in (0, 1):
        arg = body.insert_arg(half, position)
        wide = arith.ExtFOp(arg, f32)
        wide.location = op.location
        body.insert_op_before(wide, body.first_op)
        replace_uses(body.args[position + 1], wide.result)
        body.erase_arg(body.args[position + 1])
    replace_op(op, made)


class _Read(NamedTuple):
    """Describes a read of halves: of which array, and the number outside of it, if it is padded."""

    value: SSAValue
    pad: Attribute | None


def _halves(op: BlockOp, position: int, half: Attribute) -> _Read | None:
    """Finds the halves that an operand was made of, at the same index; None for other numbers."""
    value, pad = op.ins[position], op.pad_values[position]
    if pad is not None:
        number = float(cast("FloatAttr[Any]", pad).value.data)
        if _as_halves(np.array(number, np.float32), half) != number:
            return None
        pad = number_attr(number, half)
    if isinstance(value.owner, BlockOp) and _widens(value.owner, half):
        return _Read(value.owner.ins[0], pad)
    if not isinstance(value.owner, ConstantOp) or not value.owner.value.data.present:
        return None
    numbers = value.owner.value.data.values()
    if numbers.dtype != np.float32 or not np.array_equal(_as_halves(numbers, half), numbers):
        return None
    made = ConstantOp.of(Array.of(numbers.astype(dtype_of(half))), location=value.owner.location)
    put_before(op, made)
    return _Read(made.result, pad)


def _widens(op: BlockOp, half: Attribute) -> bool:
    """Tells if a block makes f32 of each element of an array of halves."""
    if len(op.ins) != 1 or op.reductions or op.bases or op.where is not None or op.is_padded:
        return False
    given, index = op.yielded[0].owner, op.in_maps[0]
    whole = whole_axes(op.out_maps[0], shape_of(op.outs[0].type), op.extents) is not None
    if not whole or index != op.out_maps[0] or element_type_of(op.ins[0].type) != half:
        return False
    return isinstance(given, arith.ExtFOp) and given.input is op.body.block.args[0]
