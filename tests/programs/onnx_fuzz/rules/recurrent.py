"""Recurrent operators."""

from __future__ import annotations

import numpy as np

from onnx_fuzz.draft import Draft
from onnx_fuzz.rules.registry import rule

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = (
    "Tanh",
    "Sigmoid",
    "Relu",
    "LeakyRelu",
    "HardSigmoid",
    "Elu",
    "Softsign",
    "Softplus",
    "Affine",
    "ScaledTanh",
    "ThresholdedRelu",
)
PARAMETERS = {
    "LeakyRelu": 1,
    "HardSigmoid": 2,
    "Elu": 1,
    "Affine": 2,
    "ScaledTanh": 2,
    "ThresholdedRelu": 1,
}


@rule(*GATES)
def recurrent(d: Draft) -> None:
    name = d.schema.name
    gates, hidden = GATES[name], d.draws.upto(4)
    length, batch, inputs = d.draws.upto(4), d.draws.upto(3), d.draws.upto(4)
    direction = d.attr("direction", d.draws.one(["forward", "reverse", "bidirectional"]), "forward")
    count = 2 if direction == "bidirectional" else 1
    layout = d.attr("layout", d.draws.upto(1, 0), 0)
    d.attributes["hidden_size"] = hidden
    d.take("X", shape=[batch, length, inputs] if layout else [length, batch, inputs])
    d.take("W", shape=[count, gates * hidden, inputs], low=-0.8, high=0.8)
    d.take("R", shape=[count, gates * hidden, hidden], low=-0.8, high=0.8)
    if d.maybe():
        d.take("B", shape=[count, 2 * gates * hidden], low=-0.8, high=0.8)
    if d.maybe(0.3):
        d.put("sequence_lens", d.draws.array(np.dtype(np.int32), (batch,), 1, length))
    state = [batch, count, hidden] if layout else [count, batch, hidden]
    if d.maybe():
        d.take("initial_h", shape=state)
        if d.has_input("initial_c") and d.maybe(0.7):
            d.take("initial_c", shape=state)
    if d.has_input("P") and d.maybe(0.3):
        d.take("P", shape=[count, 3 * hidden], low=-0.8, high=0.8)
    _activations(d, count * {"RNN": 1, "GRU": 2, "LSTM": 3}[name])
    if d.maybe(0.25):
        d.attributes["clip"] = 0.75
    d.left_out.add("clip")
    d.outputs = d.draws.upto(d.schema.max_output)


def _activations(d: Draft, count: int) -> None:
    names = ("activations", "activation_alpha", "activation_beta")
    d.left_out |= set(names)
    if d.maybe(0.7):
        return
    chosen = [d.draws.one(FUNCTIONS) for _ in range(count)]
    d.attributes["activations"] = chosen
    alphas = [0.3 for each in chosen if PARAMETERS.get(each, 0) >= 1]
    betas = [0.4 for each in chosen if PARAMETERS.get(each, 0) == 2]
    if alphas:
        d.attributes["activation_alpha"] = alphas
    if betas:
        d.attributes["activation_beta"] = betas
