"""What a target is: one class of declarations that byocir calls.

```python
@dataclass(frozen=True)
class Npu(Target):
    name = "npu"
    patterns = (conv_relu, gemm)

    block: int = 16                      # an option: --target npu{block=8}

    def emit(self, module, symbols): ...
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpecConvertible

from byocir.patterns import Composite

Runner = Callable[[str, Sequence[np.ndarray]], list[np.ndarray]]
"""Runs a region function: its symbol and its inputs give its outputs."""

Point = Literal["before-match", "after-outline", "after-lowering", "before-codegen"]
"""Where a target's own passes run: before the first match; after regions became functions; after
graph ops became blocks; right before `emit`."""


@dataclass(frozen=True)
class Target(ArgSpecConvertible):
    """Base class of targets. Dataclass fields of a subclass are the target's options; they may be
    numbers, strings, booleans or tuples of these, with defaults."""

    name: ClassVar[str]
    """The part before the dot in the names of its composites."""

    patterns: ClassVar[tuple[Composite, ...]] = ()
    """Composites at either level, in order of priority."""

    codegen_level: ClassVar[Literal["graph", "tensor"]] = "graph"
    """The level at which `emit` sees region functions."""

    @property
    def fixed_point(self) -> Literal["", "half_up", "half_even"]:
        """How the target rounds requantised integers: in fixed point with this rule, or "" for as
        ONNX does, in float. Fixed point is chosen for the whole module before the first match."""
        return ""

    def passes(self, point: Point) -> Sequence[str | ModulePass]:
        """The target's own passes at a named point, as pipeline text or pass objects. They run on
        the whole module and look at functions whose `byoc.target` is theirs."""
        return ()

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        """Generates code for all of the target's functions together: named blobs. The functions'
        bodies leave the module once there are blobs. The default gives none: the functions stay
        and run through the evaluator."""
        return {}

    def load(self, blobs: Mapping[str, bytes]) -> Runner | None:
        """How the in-process runtime runs what `emit` made; None leaves it to the evaluator."""
        return None

    def profile(self, blobs: Mapping[str, bytes]) -> Sequence[Profile]:
        """Where the time of the target's programs goes, if it can tell."""
        return ()


@dataclass(frozen=True)
class Profile:
    """Time of one program: `cycles` in total, and by (model's node, unit of the device)."""

    symbol: str
    cycles: int
    by_node: Mapping[tuple[str, str], int]
