"""A target whose code has knobs: it takes more cycles the further they are off."""

import json
from dataclasses import dataclass

import byocir
from byocir.dialects.byoc import CompositeOp
from byocir.patterns import composite, op, wildcard
from byocir.targets.base import Profile, knobs_of


@composite("knobbed.relu")
def relu():
    return op("graph.relu", wildcard("x"))


@dataclass(frozen=True)
class Knobbed(byocir.Target):
    """A relu in lanes, best with as many as its size leaves over, in the second order."""

    name, patterns = "knobbed", (relu,)
    wide: int = 3

    def knobs(self, composite):
        return {"lanes": [*range(self.wide)], "order": ("mn", "nm")}

    def emit(self, module, symbols):
        found = {symbol: [] for symbol in symbols}
        for inner in module.walk():
            if isinstance(inner, CompositeOp):
                (size,) = inner.outputs[0].type.get_shape()
                found[inner.parent_op().sym_name.data].append([size, knobs_of(inner)])
        return {symbol: json.dumps(each).encode() for symbol, each in found.items()}

    def profile(self, blobs):
        return [
            Profile(symbol, sum(cycles(*each) for each in json.loads(blob)), [])
            for symbol, blob in blobs.items()
        ]


def cycles(size, knobs):
    return 10 * size + abs(knobs["lanes"] - size % 3) + 5 * (knobs["order"] == "mn")
