"""Operators that move elements: reshapes, slices, pads, and what is made of sizes."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_fuzz.cases import element_of
from onnx_fuzz.draft import Draft, Unfit, dtype_of, kind_of
from onnx_fuzz.rules.reductions import some_axes
from onnx_fuzz.rules.registry import rule

FAR = (2**31 - 1, 2**63 - 1, 1000)
"""Ends of slices that mean the end."""


@rule("Reshape")
def reshape(d: Draft) -> None:
    x = d.take("data")
    shape = d.draws.random.sample(x.shape, x.ndim)
    if shape and d.maybe():
        cut = d.draws.upto(len(shape), 0)
        shape = [prod(shape[:cut]), *shape[cut:]]
    if d.maybe(0.3):
        shape.insert(d.draws.upto(len(shape), 0), 1)
    zero = d.attr("allowzero", d.draws.upto(1, 0), 0)
    if zero == 0 and 0 in shape:
        raise Unfit
    if x.size and d.maybe(0.3) and shape:
        shape[d.draws.upto(len(shape) - 1, 0)] = -1
    elif x.size and zero == 0 and d.maybe(0.3):
        shape = [
            0 if i < x.ndim and n == x.shape[i] and d.maybe() else n for i, n in enumerate(shape)
        ]
    d.say("shape", shape)


@rule("Flatten")
def flatten(d: Draft) -> None:
    x = d.take("input")
    d.attr("axis", d.draws.upto(x.ndim, -x.ndim if d.schema.since_version >= 11 else 0), 1)
    if d.attributes.get("axis", 1) > x.ndim:
        raise Unfit


@rule("Squeeze")
def squeeze(d: Draft) -> None:
    x = d.take("data", shape=[1 if d.maybe(0.4) else n for n in d.draws.shape()])
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    if d.maybe(0.75):
        axes = d.draws.random.sample(ones, d.draws.upto(len(ones), 0)) if ones else []
        negative = d.schema.since_version >= 11
        axes = [axis - x.ndim if negative and d.maybe(0.3) else axis for axis in axes]
        if axes or d.has_input("axes"):
            d.say("axes", axes)
    d.left_out.add("axes")


@rule("Unsqueeze")
def unsqueeze(d: Draft) -> None:
    x = d.take("data", rank=(0, 4))
    count = d.draws.upto(2)
    axes = d.draws.random.sample(range(x.ndim + count), count)
    negative = d.schema.since_version >= 11
    d.say("axes", [a - x.ndim - count if negative and d.maybe(0.3) else a for a in axes])


@rule("Transpose")
def transpose(d: Draft) -> None:
    x = d.take("data")
    perm = d.draws.random.sample(range(x.ndim), x.ndim)
    d.attr("perm", perm, perm)


@rule("Concat")
def concat(d: Draft) -> None:
    name = d.schema.inputs[0].name
    x = d.take(name, rank=(1, 5))
    axis = d.axis(x.ndim)
    for _ in range(d.draws.upto(3, 0)):
        shape = list(x.shape)
        shape[axis] = d.draws.size()
        d.take(name, shape=shape)


@rule("Expand")
def expand(d: Draft) -> None:
    x = d.take("input", shape=[1 if d.maybe(0.3) else n for n in d.draws.shape(0, 4, 200)])
    shape = [d.draws.upto(4) if n == 1 else (1 if d.maybe(0.2) else n) for n in x.shape]
    lead = [d.draws.upto(3) for _ in range(d.draws.one([0, 0, 1]))]
    if not lead and d.maybe(0.2):
        shape = shape[1:]
    d.say("shape", [*lead, *shape])


@rule("Tile")
def tile(d: Draft) -> None:
    x = d.take("input", rank=(1, 4)) if d.schema.since_version < 6 else d.take("input", rank=(0, 4))
    d.say("repeats", [d.draws.one([0, 1, 2] if d.draws.empty else [1, 1, 2, 3]) for _ in x.shape])


@rule("Slice")
def slice_(d: Draft) -> None:
    x = d.take("data", rank=(1, 5))
    old = not d.has_input("starts")
    axes = d.draws.random.sample(range(x.ndim), d.draws.upto(x.ndim))
    if d.maybe(0.2):
        axes = list(range(len(axes)))
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    for axis in axes:
        size = x.shape[axis]
        step = 1 if old else d.draws.one([1, 1, 1, 2, 3, -1, -2, 7])
        starts.append(d.draws.upto(size + 1, -size - 1))
        ends.append(
            d.draws.one(
                [d.draws.upto(size + 1, -size - 1), *(far if step > 0 else -far for far in FAR)]
            )
        )
        steps.append(step)
    kind = np.dtype(np.int64) if old else d.bind("starts")
    if kind == np.int32:
        ends = [max(min(end, 2**31 - 1), -(2**31)) for end in ends]
    d.say("starts", starts, kind)
    d.say("ends", ends, kind)
    if axes != list(range(len(axes))) or d.maybe(0.3):
        negative = d.schema.since_version >= 11
        d.say("axes", [a - x.ndim if negative and d.maybe(0.3) else a for a in axes], kind)
        if not old and (any(step != 1 for step in steps) or d.maybe(0.3)):
            d.say("steps", steps, kind)
    elif not old and any(step != 1 for step in steps):
        d.say("axes", axes, kind)
        d.say("steps", steps, kind)
    d.left_out.add("axes")


@rule("Split")
def split(d: Draft) -> None:
    x = d.take("input", rank=(1, 5))
    axis = d.axis(x.ndim)
    size = x.shape[axis]
    parts = d.draws.upto(3)
    d.outputs = parts
    if d.has("num_outputs") and d.maybe(0.4):
        d.attributes["num_outputs"] = parts
        if -(-size // parts) * (parts - 1) > size:
            raise Unfit
        return
    d.left_out |= {"num_outputs", "split"}
    if not d.has("num_outputs") and size % parts == 0 and d.maybe(0.3):
        return
    cuts = sorted(d.draws.upto(size, 0) for _ in range(parts - 1))
    d.say("split", [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)])
    d.left_out.discard("split")


@rule("Pad")
def pad(d: Draft) -> None:
    x = d.take("data", rank=(1, 5))
    modes = (
        ["constant", "reflect", "edge", "wrap"]
        if d.schema.since_version >= 19
        else ["constant", "reflect", "edge"]
    )
    mode = d.attr("mode", d.draws.one(modes), "constant")
    axes = list(range(x.ndim))
    if d.has_input("axes") and d.maybe(0.4):
        axes = d.draws.random.sample(axes, d.draws.upto(x.ndim))
    least = -1 if d.maybe(0.3) and mode == "constant" else 0
    pads: list[int] = []
    for part in range(2 * len(axes)):
        size = x.shape[axes[part % len(axes)]]
        most = min(3, size - 1) if mode == "reflect" else (3 if size or mode == "constant" else 0)
        pads.append(d.draws.upto(max(most, 0), least if size > 2 else 0))
    d.say("pads", pads)
    if d.has("value"):
        d.attr("value", 1.5, 0.0)
    named = axes != list(range(x.ndim))
    if not d.has("value") and (named or (mode == "constant" and d.maybe())):
        d.put("constant_value", d.draws.array(x.dtype, ()), 0.9)
    if named:
        d.say("axes", [a - x.ndim if d.maybe(0.3) else a for a in axes])


@rule("CenterCropPad")
def center_crop_pad(d: Draft) -> None:
    x = d.take("input_data", rank=(1, 4))
    axes = sorted({axis % x.ndim for axis in some_axes(d, x.ndim)}) or [0]
    if d.maybe(0.6):
        d.attributes["axes"] = [a - x.ndim if d.maybe(0.3) else a for a in axes]
    else:
        axes = list(range(x.ndim))
        d.left_out.add("axes")
    d.say("shape", [d.draws.upto(x.shape[a] + 2) for a in axes])


@rule("DepthToSpace", "SpaceToDepth")
def blocks(d: Draft) -> None:
    block = d.draws.upto(3)
    channels, height, width = d.draws.upto(2), d.draws.upto(3), d.draws.upto(3)
    if d.schema.name == "DepthToSpace":
        channels *= block * block
    else:
        height, width = height * block, width * block
    d.take("input", shape=[d.draws.upto(2), channels, height, width])
    d.attributes["blocksize"] = block
    d.attr("mode", d.draws.one(["DCR", "CRD"]), "DCR")


@rule("Trilu")
def trilu(d: Draft) -> None:
    d.take("input", rank=(2, 5))
    d.attr("upper", d.draws.upto(1, 0), 1)
    if d.maybe(0.6):
        d.say("k", d.draws.upto(4, -4))


@rule("EyeLike")
def eye_like(d: Draft) -> None:
    d.take("input", rank=(2, 2))
    d.attr("k", d.draws.upto(2, -2), 0)
    drawn_dtype(d, "dtype", optional=True)


def drawn_dtype(d: Draft, name: str, optional: bool = False) -> None:
    """Draws an attribute that names the type of the first output."""
    if optional and d.maybe(0.4):
        d.left_out.add(name)
        return
    types = sorted(next(o for o in d.schema.outputs).types)
    dtypes = [dtype for each in types if (dtype := dtype_of(each)) is not None]
    d.attr(name, element_of(d.draws.dtype(dtypes)))


@rule("Constant")
def constant(d: Draft) -> None:
    kinds = [name for name in d.schema.attributes if name != "sparse_value"]
    name = d.draws.one(kinds)
    d.left_out |= set(d.schema.attributes)
    d.attributes[name] = {
        "value": lambda: _tensor(d, d.draws.shape(0, 3)),
        "value_int": lambda: 3,
        "value_ints": lambda: [1, -2],
        "value_float": lambda: 1.5,
        "value_floats": lambda: [0.5, 2.0],
        "value_string": lambda: "text",
        "value_strings": lambda: ["a", ""],
    }[name]()


def _tensor(d: Draft, shape: tuple[int, ...]):
    from onnx import numpy_helper

    types = sorted(next(o for o in d.schema.outputs).types)
    dtypes = [dtype for each in types if (dtype := dtype_of(each)) is not None]
    return numpy_helper.from_array(d.draws.array(d.draws.dtype(dtypes), shape))


@rule("ConstantOfShape")
def constant_of_shape(d: Draft) -> None:
    d.say("input", list(d.draws.shape(0, 4)))
    if d.maybe(0.7):
        d.attributes["value"] = _tensor(d, (1,))
    d.left_out.add("value")


@rule("Shape")
def shape(d: Draft) -> None:
    x = d.take("data")
    if d.has("start"):
        d.attr("start", d.draws.upto(x.ndim + 1, -x.ndim - 1), 0)
        if d.maybe(0.6):
            d.attributes["end"] = d.draws.upto(x.ndim + 1, -x.ndim - 1)
        d.left_out.add("end")


@rule("Size", "NonZero")
def of_one(d: Draft) -> None:
    d.take(d.schema.inputs[0].name)


@rule("Range")
def range_(d: Draft) -> None:
    dtype = d.bind("start")
    whole = kind_of(dtype) != "f"
    start, count = d.draws.upto(9, -9), d.draws.upto(7, 0)
    delta = d.draws.one([1, 2, 3, -1, -2] if whole else [0.5, 1, 1.5, -0.25])
    for name, number in (("start", start), ("limit", start + delta * count), ("delta", delta)):
        d.put(name, np.array(number, dtype), 0.0 if d.maybe(0.1) else 1.0)
    d.attr("stash_type", 1, 1)


@rule("OneHot")
def one_hot(d: Draft) -> None:
    depth = d.draws.upto(5)
    kind = d.bind("indices")
    least = 0 if kind_of(kind) == "u" else -depth
    whole = d.draws.array(np.dtype(np.int8), d.draws.shape(1, 3, 60), least, depth)
    indices = d.put("indices", whole.astype(kind), 0.3)
    d.say("depth", depth if d.maybe() else [depth], d.bind("depth"))
    values = d.draws.array(d.bind("values"), (2,))
    d.put("values", values)
    d.axis(indices.ndim, beyond=1)


@rule("ReverseSequence")
def reverse_sequence(d: Draft) -> None:
    x = d.take("input", rank=(2, 4))
    batch = d.attr("batch_axis", d.draws.upto(1, 0), 1)
    d.attributes["time_axis"] = 1 - batch
    if d.attributes["time_axis"] == 0 and d.maybe():
        del d.attributes["time_axis"]
        d.left_out.add("time_axis")
    d.put(
        "sequence_lens", d.draws.array(np.dtype(np.int64), (x.shape[batch],), 1, x.shape[1 - batch])
    )
    if 0 in x.shape[:2]:
        raise Unfit


@rule("Unique")
def unique(d: Draft) -> None:
    x = d.take("X", rank=(1, 3))
    if d.maybe():
        d.axis(x.ndim)
    d.left_out.add("axis")
    d.attr("sorted", d.draws.upto(1, 0), 1)
    d.outputs = d.draws.upto(4)


@rule("Compress")
def compress(d: Draft) -> None:
    x = d.take("input", rank=(1, 4))
    length = x.size
    if d.maybe(0.7):
        length = x.shape[d.axis(x.ndim)]
    d.left_out.add("axis")
    d.put("condition", d.draws.array(np.dtype(np.bool_), (d.draws.upto(max(length, 1)),)))
    if not length:
        raise Unfit
