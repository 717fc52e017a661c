"""Defines the `json` target, and the base class of targets whose code is JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal, get_args

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.arg_spec import ArgSpec

from byocir.errors import did_you_mean
from byocir.patterns import Composite
from byocir.patterns.nodes import AnyOperandsPattern
from byocir.patterns.target_classes import find_class
from byocir.targets.base import ConstantPolicy, Runner, Target
from byocir.targets.json.codegen import json_blobs
from byocir.targets.json.kernels import GRAPH_OPS, KERNELS
from byocir.targets.json.runtime import Kernels, json_runner

Rounding = Literal["", "floor", "half_up", "half_even", "float_scale", "float_scale_last"]


@dataclass(frozen=True)
class JsonTarget(Target):
    """Defines what targets share whose code is JSON and whose device is a table of kernels."""

    constants: ClassVar[ConstantPolicy] = "bind"

    kernels: ClassVar[Kernels] = KERNELS
    """Kernels by the name of an op, or of a composite that runs in one go."""

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        return json_blobs(module, symbols, self.spec(include_default=True))

    def load(self, blobs: Mapping[str, bytes]) -> Runner:
        return json_runner(blobs, self.kernels)


@dataclass(frozen=True)
class Json(JsonTarget):
    """Writes regions as JSON and safetensors, and runs them by numpy kernels.

    `ops` are graph ops that it takes one by one, e.g. `conv`; `like` names targets, e.g. `vta`, or
    composites of theirs, e.g. `"vta.conv"`, whose patterns at graph level it takes first. With
    neither it takes every graph op. `rounding` is how it requantises in fixed point; "" is as ONNX.
    """

    name = "json"

    ops: tuple[str, ...] = ()
    like: tuple[str, ...] = ()
    rounding: Rounding = ""

    def __post_init__(self) -> None:
        roundings = get_args(Rounding)
        if self.rounding not in roundings:
            known = ", ".join(roundings[1:])
            raise ValueError(f"expected rounding {known} or '', found {self.rounding!r}")
        for name in self.ops:
            if _full(name) not in GRAPH_OPS:
                known = [op.removeprefix("graph.") for op in GRAPH_OPS]
                raise ValueError(
                    f"expected a graph op, found '{name}': {did_you_mean(name, known)}"
                )
        for name in self.like:
            _like(name)

    @property
    def fixed_point(self) -> Rounding:
        return self.rounding

    def composites(self) -> tuple[Composite, ...]:
        whole = [composite for name in self.like for composite in _like(name)]
        ops = self.ops if self.ops or self.like else tuple(sorted(GRAPH_OPS))
        return (*whole, *(_single(_full(name)) for name in ops))


def _full(name: str) -> str:
    return name if name.startswith("graph.") else f"graph.{name}"


@cache
def _single(name: str) -> Composite:
    """Makes a composite of one op, with any operands and attributes."""
    return Composite(name.removeprefix("graph."), (AnyOperandsPattern(name),))


@cache
def _like(name: str) -> tuple[Composite, ...]:
    """Copies the graph-level composites of a target, or the one of this name, under names of this
    target. Raises ByocirError B210 for an unknown target, ValueError for an unknown composite.
    """
    target = name.partition(".")[0]
    taker = find_class(target).from_spec(ArgSpec(target, {}))
    theirs = [composite.of_target(target) for composite in taker.composites()]
    found = [c for c in theirs if c.level == "graph" and name in (target, c.name)]
    if not found:
        known = [composite.name for composite in theirs if composite.level == "graph"]
        raise ValueError(
            f"expected a target or a graph-level composite of one, found '{name}': "
            f"{did_you_mean(name, known)}"
        )
    return tuple(composite.renamed(composite.name.partition(".")[2]) for composite in found)
