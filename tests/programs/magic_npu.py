"""A device whose operator reads two arrays and gives two, and is evaluated by a rule in Python."""

import json
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

import byocir
from byocir.dialects.checks import expect
from byocir.dialects.graph.base import FLOAT, GraphOp
from byocir.dialects.types import f32, shape_of, tensor
from byocir.evaluate.interpreter import evaluates
from byocir.frontend.onnx.entry import regular
from byocir.frontend.onnx.properties import number
from byocir.patterns import RegionPolicy, composite, op, wildcard


class RowsOp(GraphOp):
    """Products of two matrices, element by element, and the sum of each row."""

    x = operand_def(TensorType)
    y = operand_def(TensorType)
    gain = prop_def(FLOAT)
    products = result_def(TensorType)
    sums = result_def(TensorType)
    assembly_format = "$x `,` $y attr-dict `:` functional-type(operands, results)"

    def infer(self):
        types = {self.x.type, self.y.type}
        shape = shape_of(self.x.type)
        expect(types == {tensor(f32, shape)} and len(shape) == 2, "expected two matrices alike")
        return [tensor(f32, shape), tensor(f32, shape[:1])]


@irdl_op_definition
class MagicOp(RowsOp):
    """Products and sums, e.g. `magic.rows %x, %y {gain = 0.5 : f32} : (tensor<2x4xf32>,
    tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)`."""

    name = "magic.rows"


@irdl_op_definition
class PlainOp(RowsOp):
    """The same, of which no example is shown."""

    name = "magic.plain"


def rows(x, y, gain):
    products = x * y * np.float32(gain)
    return [products, products.sum(axis=1)]


@evaluates(MagicOp)
def evaluated(interpreter, magic, arrays):
    return rows(*arrays, magic.gain.value.data)


@composite("magic.rows")
def magic():
    """Products and their sums."""
    return op("magic.rows", wildcard("x"), wildcard("y"))


@composite("magic.plain")
def plain():
    """The same."""
    return op("magic.plain", wildcard("x"), wildcard("y"))


@dataclass(frozen=True)
class MagicNpu(byocir.Target):
    """A device that multiplies and sums up."""

    name = "magic"
    patterns = (magic,)
    dialects = (Dialect("magic", [MagicOp, PlainOp]),)
    operators = (regular("com.foo.Magic", MagicOp, {"gain": number("gain", 1.0)}, operands=2),)
    region_policy = RegionPolicy("none")

    def emit(self, module, symbols):
        found = {}
        for function in module.ops:
            if isinstance(function, FuncOp) and function.sym_name.data in symbols:
                (taken,) = (each for each in function.walk() if isinstance(each, MagicOp))
                given = [value.index for value in taken.operands]  # one may be read twice
                read = [value.index for value in taken.parent_block().last_op.operands]
                found[function.sym_name.data] = [taken.gain.value.data, given, read]
        return {"gains": json.dumps(found).encode()}

    def load(self, blobs):
        found = json.loads(blobs["gains"])

        def run(symbol, inputs):
            gain, given, read = found[symbol]
            made = rows(*(inputs[i] for i in given), gain)
            return [made[i] for i in read]

        return run


@dataclass(frozen=True)
class Unshown(MagicNpu):
    """The same device, with an op of which nothing tells how to make one."""

    patterns = (plain,)
