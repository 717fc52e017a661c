"""Operators along axes: reductions, what is greatest, sums so far, normalisations."""

from __future__ import annotations

import numpy as np

from onnx_fuzz.draft import Draft, Unfit, kind_of
from onnx_fuzz.rules.registry import rule

REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


def some_axes(d: Draft, rank: int, most: int | None = None) -> list[int]:
    """Gives axes of either sign, each once."""
    count = d.draws.upto(rank if most is None else min(rank, most), 0)
    axes = d.draws.random.sample(range(rank), count)
    return [axis - rank if d.maybe(0.3) else axis for axis in axes]


@rule(*(f"Reduce{kind}" for kind in REDUCTIONS))
def reduction(d: Draft) -> None:
    low = 0.05 if d.schema.name == "ReduceLogSum" and not d.draws.special else None
    x = d.take("data", rank=(0, 5), low=low, high=None if low is None else 3)
    if d.maybe(0.75):
        axes = some_axes(d, x.ndim)
        if d.has_input("axes") or axes:
            d.say("axes", axes)
    d.left_out.add("axes")
    d.attr("keepdims", d.draws.upto(1, 0), 1)
    d.attr("noop_with_empty_axes", d.draws.upto(1, 0), 0)


@rule("ArgMax", "ArgMin")
def greatest(d: Draft) -> None:
    x = d.take("data", rank=(1, 5))
    axis = d.axis(x.ndim)
    if x.shape[axis] == 0:
        raise Unfit


@rule("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")
def along_axis(d: Draft) -> None:
    x = d.take(d.schema.inputs[0].name, rank=(1, 5))
    d.axis(x.ndim)
    if d.has("p"):
        d.attr("p", d.draws.upto(2), 2)


@rule("CumSum", "CumProd")
def cumulative(d: Draft) -> None:
    x = d.take("x", rank=(1, 5))
    d.say("axis", d.draws.upto(x.ndim - 1, -x.ndim), d.bind("axis"))


@rule("TopK")
def top_k(d: Draft) -> None:
    x = d.take("X", rank=(1, 5))
    axis = d.axis(x.ndim)
    k = d.draws.upto(x.shape[axis], 0 if d.draws.empty else 1)
    if k > x.shape[axis]:
        raise Unfit
    name = "K" if d.has_input("K") else "k"
    d.say(name, [k] if name == "K" else k)
    d.attr("largest", d.draws.upto(1, 0), 1)
    d.attr("sorted", 1, 1)  # what is not sorted has no order to compare
    d.outputs = 2


@rule("BatchNormalization")
def batch_norm(d: Draft) -> None:
    x = d.take("X", rank=(2, 5))
    shape = [x.shape[1]]
    for name in ("scale", "B", "input_mean" if d.has_input("input_mean") else "mean"):
        d.take(name, shape=shape)
    d.take("input_var" if d.has_input("input_var") else "var", shape=shape, low=0.3, high=2)
    d.attr("epsilon", d.draws.one([1e-5, 1e-3, 0.1]), 1e-5)
    d.attr("momentum", 0.8, 0.9)
    d.attr("spatial", 1, 1)
    if d.attr("training_mode", int(d.maybe(0.3)), 0) == 1:
        d.outputs = 3


@rule("InstanceNormalization")
def instance_norm(d: Draft) -> None:
    x = d.take("input", rank=(3, 5))
    for name in ("scale", "B"):
        d.take(name, shape=[x.shape[1]])
    d.attr("epsilon", d.draws.one([1e-5, 0.1]), 1e-5)


@rule("GroupNormalization")
def group_norm(d: Draft) -> None:
    x = d.take("X", rank=(3, 5))
    groups = d.draws.one([n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0] or [1])
    d.attributes["num_groups"] = groups
    for name in ("scale", "bias"):
        d.take(name, shape=[x.shape[1] if d.schema.since_version >= 21 else groups])
    d.attr("epsilon", d.draws.one([1e-5, 0.1]), 1e-5)
    d.attr("stash_type", d.draws.one([1, 1, 10]), 1)


@rule("LayerNormalization", "RMSNormalization")
def layer_norm(d: Draft) -> None:
    names = [each.name for each in d.schema.inputs]
    x = d.take(names[0], rank=(1, 5))
    axis = d.axis(x.ndim)
    shape = x.shape[axis:]
    d.take(names[1], shape=shape if d.maybe(0.8) else d.draws.broadcast(shape))
    if len(names) > 2 and d.maybe():
        d.take("B", shape=shape)
    d.attr("epsilon", d.draws.one([1e-5, 0.1]), 1e-5)
    d.attr("stash_type", d.draws.one([1, 1, 11 if x.dtype == np.float64 else 1]), 1)
    if d.schema.max_output > 1:
        d.outputs = d.draws.upto(3)


@rule("MeanVarianceNormalization")
def mean_variance(d: Draft) -> None:
    x = d.take("X", rank=(4, 4))
    axes = sorted({axis % x.ndim for axis in some_axes(d, x.ndim)}) or [0]
    d.attr("axes", axes, [0, 2, 3])


@rule("Det")
def determinant(d: Draft) -> None:
    size = d.draws.upto(4)
    d.take("X", shape=[*d.draws.shape(0, 2, 8), size, size])


@rule("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def cross_entropy(d: Draft) -> None:
    name, labels = [each.name for each in d.schema.inputs][:2]
    shape = [d.draws.upto(3), d.draws.upto(5), *d.draws.shape(0, 2, 12)]
    x = d.take(name, shape=shape)
    kind = d.bind(labels)
    drawn = d.draws.array(kind, [shape[0], *shape[2:]], 0, shape[1] - 1)
    ignored = d.attr("ignore_index", d.draws.upto(shape[1] - 1, 0), -1)
    if ignored == -1:
        d.left_out.add("ignore_index")
    d.put(labels, drawn)
    if d.maybe():
        d.put(
            [each.name for each in d.schema.inputs][2], d.draws.array(x.dtype, [shape[1]], 0.2, 1.5)
        )
    d.attr("reduction", d.draws.one(["none", "sum", "mean"]), "mean")
    if d.schema.max_output > 1:
        d.outputs = d.draws.upto(2)


def integers_only(dtype: np.dtype) -> bool:
    return kind_of(dtype) in "iu"
