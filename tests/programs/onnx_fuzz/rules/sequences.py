"""Operators on sequences of tensors."""

from __future__ import annotations

import numpy as np

from onnx_fuzz.cases import element_of
from onnx_fuzz.draft import Draft, Unfit, dtype_of
from onnx_fuzz.rules.registry import rule


def sequence(d: Draft, name: str) -> list[np.ndarray]:
    """Gives an operand that is a sequence: one of the graph, or a new one."""
    types = [each.removeprefix("seq(").removesuffix(")") for each in sorted(d.formal(name).types)]
    allowed = [dtype for each in types if (dtype := dtype_of(each)) is not None]
    held = [k for k, v in d.case.values.items() if v.is_sequence and v.dtype in allowed and v.data]
    if held and d.maybe(0.7):
        chosen = d.draws.one(held)
        d.use(name, chosen)
        return d.case.values[chosen].data
    dtype = d.draws.dtype(allowed)
    shape = d.draws.shape(0, 3, 60)
    return d.put(name, [d.draws.array(dtype, shape) for _ in range(d.draws.upto(3))])


def position(d: Draft, size: int) -> None:
    d.put("position", np.array(d.draws.upto(size - 1, -size), d.bind("position")), 0.7)


@rule("SequenceConstruct")
def construct(d: Draft) -> None:
    x = d.take("inputs", rank=(0, 3))
    for _ in range(d.draws.upto(2, 0)):
        d.take("inputs", shape=x.shape)


@rule("SequenceEmpty")
def empty(d: Draft) -> None:
    kinds = [t.removeprefix("seq(").removesuffix(")") for t in sorted(d.schema.outputs[0].types)]
    dtypes = [dtype for each in kinds if (dtype := dtype_of(each)) is not None]
    d.attr("dtype", element_of(d.draws.dtype(dtypes)), element_of(np.dtype(np.float32)))


@rule("SequenceAt")
def at(d: Draft) -> None:
    position(d, len(sequence(d, "input_sequence")))


@rule("SequenceErase")
def erase(d: Draft) -> None:
    parts = sequence(d, "input_sequence")
    if d.maybe():
        position(d, len(parts))


@rule("SequenceInsert")
def insert(d: Draft) -> None:
    parts = sequence(d, "input_sequence")
    d.put("tensor", d.draws.array(parts[0].dtype, parts[0].shape))
    if d.maybe():
        position(d, len(parts))


@rule("SequenceLength")
def length(d: Draft) -> None:
    sequence(d, "input_sequence")


@rule("ConcatFromSequence")
def concat(d: Draft) -> None:
    parts = sequence(d, "input_sequence")
    rank = parts[0].ndim
    new = d.attr("new_axis", d.draws.upto(1, 0), 0)
    if any(part.shape != parts[0].shape for part in parts) or not rank + new:
        raise Unfit
    d.attributes["axis"] = d.draws.upto(rank - 1 + new, -rank - new)


@rule("SplitToSequence")
def split(d: Draft) -> None:
    x = d.take("input", rank=(1, 4))
    axis = d.axis(x.ndim)
    size = x.shape[axis]
    if not size:
        raise Unfit
    d.attr("keepdims", d.draws.upto(1, 0), 1)
    if d.maybe(0.6):
        kind = d.bind("split")
        if d.maybe():
            d.put("split", np.array(d.draws.upto(size), kind), 0.8)
        else:
            cut = d.draws.upto(size, 0)
            d.put("split", np.array([cut, size - cut], kind), 0.8)
