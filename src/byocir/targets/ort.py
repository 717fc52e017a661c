"""ONNX Runtime as a target: takes every graph op and every foreign op, one model per region.

The model of a region has the lowest opset and IR version that say the same, so that an ONNX Runtime
older than the model takes it. Graph optimisations are off by default: then ONNX Runtime computes
each operator as ONNX defines it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.dialects.byoc import CompositeOp, inline
from byocir.dialects.graph import ConstantOp, ForeignOp, Graph, YieldOp
from byocir.errors import ByocirError
from byocir.patterns import Composite, Match, supports
from byocir.targets.base import Runner, Target


def _patterns() -> tuple[Composite, ...]:
    """One composite for each op of the graph dialect."""
    made: list[Composite] = []
    for op in Graph.operations:
        if op in (ConstantOp, YieldOp):
            continue

        @supports(op.name, name=f"ort.{op.name.removeprefix('graph.')}")
        def takes(match: Match) -> tuple[bool, str]:
            """The values are tensors."""
            op = match["op"].op
            foreign = [v for v in (*op.operands, *op.results) if not _is_tensor(v.type)]
            return not foreign, str(foreign[0].type) if foreign else "tensors only"

        made.append(takes)
    return tuple(made)
