"""Numpy rules of recurrent ops: onnx's reference has no sequence lengths and one direction only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from byocir.dialects.graph import GruOp, LstmOp, RecurrentOp, RnnOp
from byocir.evaluate.rule import Rule

States = tuple[np.ndarray, ...]
"""States that a step hands to the next, each [batch,H]; the first is the output."""

Step = Callable[[np.ndarray, States], States]
"""One step: the inputs' products with the weights [batch,gates*H], and states, to states."""


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -x))


def _run(
    op: RecurrentOp,
    operands: Sequence[np.ndarray],
    starts: Sequence[np.ndarray],
    step_of: Callable[[int], Step],
) -> list[np.ndarray]:
    """Gives all states and the last ones [directions,batch,H] each, direction by direction."""
    x, w, lengths = operands[0], operands[1], operands[4]
    states = np.zeros((x.shape[0], w.shape[0], x.shape[1], operands[2].shape[2]), x.dtype)
    lasts = [np.array(start) for start in starts]
    for direction in range(w.shape[0]):
        backwards = direction == 1 or op.direction.data == "reverse"
        products, step = x @ w[direction].T, step_of(direction)
        current = tuple(start[direction] for start in starts)
        for time in range(x.shape[0])[:: -1 if backwards else 1]:
            inside = (time < lengths)[:, None]  # backwards, too: the end of a sequence is its start
            found = step(products[time], current)
            pairs = zip(found, current, strict=True)
            current = tuple(np.where(inside, new, old).astype(x.dtype) for new, old in pairs)
            states[time, direction] = np.where(inside, current[0], 0)
        for last, value in zip(lasts, current, strict=True):
            last[direction] = value
    return [states, *lasts]


def _biases(bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gives the biases of the input and of the recurrence."""
    half = len(bias) // 2
    return bias[:half], bias[half:]


def _rnn(op: RnnOp, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    def step_of(direction: int) -> Step:
        recurrence, bias = operands[2][direction], sum(_biases(operands[3][direction]))
        return lambda x, states: (np.tanh(x + states[0] @ recurrence.T + bias),)

    return _run(op, operands, [operands[5]], step_of)


def _gru(op: GruOp, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    hidden, linear = operands[2].shape[2], op.linear_before_reset.value.data == 1

    def step_of(direction: int) -> Step:
        recurrence = operands[2][direction]
        on_input, on_state = _biases(operands[3][direction])
        gates, last = slice(2 * hidden), slice(2 * hidden, None)

        def step(x: np.ndarray, states: States) -> States:
            (h,) = states
            x = x + on_input
            opened = _sigmoid(x[:, gates] + h @ recurrence[gates].T + on_state[gates])
            update, reset = opened[:, :hidden], opened[:, hidden:]
            if linear:
                product = reset * (h @ recurrence[last].T + on_state[last])
            else:
                product = (reset * h) @ recurrence[last].T + on_state[last]
            return ((1 - update) * np.tanh(x[:, last] + product) + update * h,)

        return step

    return _run(op, operands, [operands[5]], step_of)


def _lstm(op: LstmOp, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    def step_of(direction: int) -> Step:
        recurrence, bias = operands[2][direction], sum(_biases(operands[3][direction]))
        peep_in, peep_out, peep_forget = np.split(operands[7][direction], 3)

        def step(x: np.ndarray, states: States) -> States:
            h, c = states
            entry, exit_, forget, cell = np.split(x + h @ recurrence.T + bias, 4, axis=1)
            kept = _sigmoid(forget + peep_forget * c) * c
            new = kept + _sigmoid(entry + peep_in * c) * np.tanh(cell)
            return _sigmoid(exit_ + peep_out * new) * np.tanh(new), new

        return step

    return _run(op, operands, [operands[5], operands[6]], step_of)


RECURRENT_RULES: Mapping[type[Operation], Rule] = {GruOp: _gru, LstmOp: _lstm, RnnOp: _rnn}
"""The rule of each op class."""
