"""A pass of one's own: relu ops behind what is never negative do nothing.

byocir-opt model.onnx --load-passes examples/drop_relus.py -p drop-relus
"""

from typing import ClassVar

from byocir.patterns import either, op, wildcard
from byocir.rewrites import RewritePass, rewrites

x = wildcard("x")
never_negative = either(op("graph.relu", x), op("graph.clip", x), op("graph.sigmoid", x)) @ "inner"


@rewrites(op("graph.relu", never_negative))
def drop_relu(inner):
    """A relu behind what is never negative does nothing."""
    return inner


@drop_relu.where
def clips_start_at_0(inner):
    """A clip before it has a lower bound of 0 or more, and no upper bound below 0."""
    if inner.op.name != "graph.clip":
        return True, inner.op.name
    low, high = inner.attrs.get("min"), inner.attrs.get("max")
    return low is not None and low >= 0 and (high is None or high >= 0), (low, high)


class DropRelus(RewritePass):
    """Drops relu ops that do nothing."""

    name = "drop-relus"
    rewrites: ClassVar = (drop_relu,)
