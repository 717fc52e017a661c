"""Defines programs to be compiled for a target, with their inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from byocir.dialects.byoc import LEVELS
from byocir.dialects.context import load_context
from byocir.dialects.graph import (
    CastOp,
    DivOp,
    GroupNormOp,
    GruOp,
    InstanceNormOp,
    LayerNormOp,
    LrnOp,
    LstmOp,
    ModOp,
    PowOp,
    ReverseSequenceOp,
    RnnOp,
    TopKOp,
)
from byocir.dialects.types import dtype_of, element_type_of, is_float, shape_of
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import MAIN, evaluate, random_feeds
from byocir.evaluate.ports import port_names
from byocir.rewrites.pipeline import run_passes
from byocir.runtime.golden import distance
from byocir.targets.base import Target
from byocir.targets.hand_off_passes import meaning_pipeline
from byocir.testing.choose import Choose, pick

Arrays = Mapping[str, np.ndarray]

WIDE = 1 << 20
"""Wide integers lie between this and its negative: sums of them do not wrap around."""

EXACT = 2.0**53
"""All integers up to here are floats of 64 bits."""

RECURRENT = (GruOp, LstmOp, RnnOp)
SEQUENCES = (*RECURRENT, ReverseSequenceOp)
NORMS = (GroupNormOp, InstanceNormOp, LayerNormOp, LrnOp)

NO_MEANING = ("B301", "B303", "B312")
"""Errors of programs that mean nothing, or nothing on these inputs: an index that was drawn may
lie outside of its array."""


@dataclass(frozen=True)
class Case:
    """Holds a program and its inputs; `levels` are those at which it is handed over."""

    module: ModuleOp
    feeds: Arrays
    levels: tuple[str, ...] = LEVELS

    def meaning(self, target: Target) -> Meaning | None:
        """Computes the program in the numbers in which the target computes; None where it has no
        defined result on these inputs, or several.
        """
        module = self.module
        try:
            if target.fixed_point or target.signed_bytes or target.tables:
                module = module.clone()
                run_passes(module, load_context(), meaning_pipeline(module, [target]))
            watch = _Watch()
            interpreter = Interpreter(module, observe=watch)
            watch.interpreter = interpreter
            outputs: dict[str, Any] = evaluate(module, self.feeds, interpreter=interpreter)
        except ByocirError as error:
            if error.code not in NO_MEANING:
                raise
            return None
        is_arrays = all(isinstance(value, np.ndarray) for value in outputs.values())
        watch.look(self.feeds.values())
        if not is_arrays or watch.is_open or (watch.is_non_finite and not target.non_finite):
            return None
        return Meaning(module, self.feeds, outputs, target.tolerance)


SHAKEN = 16
"""The times that a program is evaluated with floats that are a little off: enough that one or the
other of two nearly equal floats is the larger once."""
TIMES = 4.0
"""By so much more than these were found to be off may a target be off."""


class Unmeant(Exception):
    """Ends the trial of a program that has no defined result on these inputs."""


@dataclass(frozen=True)
class Meaning:
    """Holds the results of a program on inputs, by name, where each op may differ by `tolerance` of
    its largest float, or of 1.
    """

    module: ModuleOp
    feeds: Arrays
    outputs: Arrays
    tolerance: float

    @cached_property
    def room(self) -> Arrays:
        """Bounds how far elements of the outputs may be off if each op is off by its tolerance:
        that is much after a small difference of large numbers, or a division by almost nothing.
        Raises Unmeant where other floats give another shape, or nothing.
        """
        room = {name: np.zeros(array.shape) for name, array in self.outputs.items()}
        for seed in range(SHAKEN if self.tolerance else 0):
            found = self._shaken(np.random.default_rng(seed))
            for name, array in self.outputs.items():
                if found[name].shape != array.shape:
                    raise Unmeant
                room[name] = np.maximum(room[name], TIMES * distance(found[name], array)[0])
        return room

    @cached_property
    def _in_steps(self) -> ModuleOp:
        """Gives the program, with norms as blocks. A norm over few elements subtracts their mean,
        which is close to the elements, and divides by a difference that is almost nothing. Sums of
        squares over windows of channels may be computed by adding the channel that comes in and
        subtracting the one that goes out, so that small sums after large ones are far off.
        """
        if not any(isinstance(op, NORMS) for op in self.module.walk()):
            return self.module
        module = self.module.clone()
        run_passes(module, load_context(), "convert-graph-to-tir")
        return module

    def _shaken(self, rng: np.random.Generator) -> Arrays:
        """Computes the outputs with floats moved a little. Raises Unmeant where there are none."""
        given = {name: np.array(array) for name, array in self.feeds.items()}
        shake = _Shake(self.tolerance, rng)
        for op in self._in_steps.walk():
            if isinstance(op, RECURRENT):  # their sums have terms that are no results of ops
                shake(op, [*given.values()])
                break
        try:
            interpreter = Interpreter(self._in_steps, observe=shake)
            return evaluate(self._in_steps, given, interpreter=interpreter)
        except ByocirError as error:
            raise Unmeant from error


@dataclass
class _Shake:
    """Moves the floats that ops give a little, up or down."""

    part: float
    rng: np.random.Generator

    def __call__(self, op: Operation, results: Sequence[Any]) -> None:
        for each in results:
            array = cast(np.ndarray, each)
            if isinstance(each, np.ndarray) and array.dtype.kind in "fV" and array.flags.writeable:
                sign = self.rng.choice([-1.0, 1.0], array.shape)
                array[...] = array.astype(np.float64) + sign * self.part * max(1.0, _largest(array))


class _Watch:
    """Notes whether a program computes with NaN or infinities, and whether ONNX leaves its result
    open: integers divided by zero, floats cast to integers that do not hold them, powers that are
    no integers or larger than floats hold, sequences of no elements or of more than there are, the
    largest elements in any order.
    """

    def __init__(self) -> None:
        self.is_non_finite = self.is_open = False
        self.interpreter: Interpreter | None = None

    def __call__(self, op: Operation, results: Sequence[Any]) -> None:
        self.look(results)
        if isinstance(op, TopKOp):
            self.is_open = self.is_open or not op.sorted.value.data
        if isinstance(op, DivOp | ModOp) and self.interpreter is not None:
            divisor = np.asarray(self.interpreter.value(op.operands[1]))
            is_float = divisor.dtype.kind in "fV"
            self.is_open = self.is_open or not (is_float or bool(divisor.all()))
        if isinstance(op, SEQUENCES) and self.interpreter is not None:
            lengths = np.asarray(self.interpreter.value(op.lengths))
            time = op.time_axis.value.data if isinstance(op, ReverseSequenceOp) else 0
            steps = shape_of(op.input.type)[time]
            self.is_open = self.is_open or not ((lengths > 0) & (lengths <= steps)).all()
        if isinstance(op, CastOp) and self.interpreter is not None:
            given = np.asarray(self.interpreter.value(op.operands[0]))
            self.is_open = self.is_open or _overflows(given, np.asarray(results[0]))
        if isinstance(op, PowOp) and self.interpreter is not None:
            base, power = (np.asarray(self.interpreter.value(v), np.float64) for v in op.operands)
            with np.errstate(all="ignore"):
                self.is_open = self.is_open or _is_inexact(base**power, np.asarray(results[0]))

    def look(self, values: Iterable[Any]) -> None:
        """Looks for NaN and infinities among some of the program's values."""
        self.is_non_finite = self.is_non_finite or any(map(_is_non_finite, values))


def _overflows(given: np.ndarray, made: np.ndarray) -> bool:
    """Tells if floats were cast to integers that do not hold them."""
    if given.dtype.kind not in "fV" or made.dtype.kind not in "iu":
        return False
    info, wide = np.iinfo(made.dtype), given.astype(np.float64)
    return not bool(((wide >= info.min) & (wide < float(info.max) + 1)).all())


def _is_inexact(power: np.ndarray, made: np.ndarray) -> bool:
    """Tells if integers do not hold powers, or floats do not hold these integers: ONNX leaves open
    in which type powers are computed.
    """
    if made.dtype.kind not in "iu":
        return False
    is_exact = (np.abs(power) <= EXACT) & (power == np.round(power))
    return not bool(is_exact.all()) or _overflows(power, made)


def _largest(array: np.ndarray) -> float:
    """Finds the largest finite float."""
    wide = np.abs(array.astype(np.float64))
    return float(wide.max(initial=0.0, where=np.isfinite(wide)))


def _is_non_finite(value: Any) -> bool:
    array = cast(np.ndarray, value)
    if not isinstance(value, np.ndarray) or array.dtype.kind not in "fcV":
        return False
    return not bool(np.isfinite(array).all())


def draw_feeds(choose: Choose, module: ModuleOp, *, special: bool) -> Arrays | None:
    """Draws inputs for a program: ordinary ones, small whole numbers (whose float sums are exact),
    large ones or, if `special` asks for them, floats with NaN and infinities among them. None for a
    program with inputs that are not numbers.
    """
    seed = choose(0, 2**31)
    try:
        feeds = random_feeds(module, seed)
    except ByocirError:
        return None
    kinds = ("ordinary", "whole", "large", "special")[: 4 if special else 3]
    kind = pick(choose, kinds)
    if kind == "ordinary":
        return feeds
    entry = Interpreter(module).function(MAIN)
    types = dict(
        zip(port_names(entry.arg_attrs, len(feeds), "arg"), entry.function_type.inputs, strict=True)
    )
    rng = np.random.default_rng(seed)
    return {name: _drawn(rng, kind, types[name], array) for name, array in feeds.items()}


def _drawn(
    rng: np.random.Generator, kind: str, type_: Attribute, ordinary: np.ndarray
) -> np.ndarray:
    element = element_type_of(type_)
    dtype, shape = dtype_of(element), ordinary.shape
    if dtype.kind == "b":
        return ordinary
    if is_float(element):
        return _floats(rng, kind, ordinary)
    info = np.iinfo(dtype)
    span = 4 if kind == "whole" else WIDE
    low, high = max(int(info.min), -span), min(int(info.max), span)
    return rng.integers(low, high, shape, endpoint=True).astype(dtype)


SPECIAL = (np.nan, np.inf, -np.inf, -0.0)


def _floats(rng: np.random.Generator, kind: str, ordinary: np.ndarray) -> np.ndarray:
    shape, dtype = ordinary.shape, ordinary.dtype
    if kind == "whole":
        return rng.integers(-4, 5, shape).astype(dtype)
    if kind == "large":
        return (ordinary * 100).astype(dtype)
    replaced = rng.random(shape) < 0.1
    return np.where(replaced, rng.choice(SPECIAL, shape), ordinary).astype(dtype)
