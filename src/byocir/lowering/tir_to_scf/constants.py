"""Constant arrays as globals of the module.

Two kinds of elements do not survive as dense text in all tools: booleans, which MLIR packs, and
floats that are infinite or NaN, which xDSL reads back as other numbers. Their bits are kept as
integers, from which a function makes the array when it needs it.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects import tir
from byocir.dialects.array import Array
from byocir.dialects.emitting import emit
from byocir.dialects.tir import buffer
from byocir.dialects.types import bf16, element_of, f16, i1, is_float
from byocir.lowering.tir_to_scf.indices import Numbers
from byocir.lowering.tir_to_scf.nests import write_nest


class Constants:
    """The globals of a module, one for each content."""

    def __init__(self, module: ModuleOp) -> None:
        self._module = module
        self._made: dict[str, memref.GlobalOp] = {}

    def insert(self) -> None:
        """Puts the globals before the functions."""
        if self._made:
            Rewriter.insert_op(
                list(self._made.values()), InsertPoint.at_start(self._module.body.block)
            )

    def read(self, op: tir.ConstantOp, numbers: Numbers) -> SSAValue:
        """Emits the memref of a constant."""
        array = op.value.data
        element = element_of(array.dtype)
        stored = _stored_type(array, element)
        held = self._global(array, stored)
        if stored == element:
            return held
        made = emit(memref.AllocOp.get(element, shape=array.shape)).memref

        def convert(indices: list[SSAValue]) -> None:
            bits = emit(memref.LoadOp.get(held, indices)).res
            value = arith.TruncIOp(bits, i1) if element == i1 else arith.BitcastOp(bits, element)
            emit(value)
            emit(memref.StoreOp.get(value.results[0], made, indices))

        write_nest(numbers, array.shape, [f"i{i}" for i in range(len(array.shape))], convert)
        return made

    def _global(self, array: Array, stored: IntegerType | AnyFloat) -> SSAValue:
        if array.digest not in self._made:
            shape = TensorType(stored, array.shape)
            dense = DenseIntOrFPElementsAttr(shape, BytesAttr(array.values().tobytes()))
            held = memref.GlobalOp.get(
                StringAttr(f"constant_{len(self._made)}"),
                buffer(stored, array.shape),
                dense,
                constant=UnitAttr(),
            )
            self._made[array.digest] = held
        made = self._made[array.digest]
        return emit(memref.GetGlobalOp(made.sym_name.data, made.type)).memref


def _stored_type(array: Array, element: IntegerType | AnyFloat) -> IntegerType | AnyFloat:
    """Gives the type of the global that holds an array."""
    if element == i1:
        return IntegerType(8)
    plain = not is_float(element) or (
        element not in (f16, bf16) and bool(np.isfinite(array.values()).all())
    )
    return element if plain else IntegerType(8 * array.dtype.itemsize)
