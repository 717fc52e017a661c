"""What a target makes of a quantised net: its share of the work, its cycles, and how far its
integers are from those of ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.graph import QuantizeOp
from byocir.dialects.locations import names
from byocir.dialects.types import shape_of
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate
from byocir.rewrites.pipeline import run_passes
from byocir.runtime.report import Report
from byocir.targets.stages import meaning_pipeline

Feeds = Mapping[str, np.ndarray]
LEVELS = (("graph",), ("tensor",), ("graph", "tensor"))


@dataclass(frozen=True)
class Offload:
    """Of a net at some levels: how much a target took, its cycles and its results.

    `share` is of all multiply-accumulates, 0 to 1; `unknown` counts operators that nobody knows the
    multiply-accumulates of; `products` are the steps of the target's GEMM, one cycle each.
    """

    share: float
    unknown: int
    cycles: int
    products: int
    results: Sequence[Mapping[str, np.ndarray]]
    report: Report


def offload(
    model: bytes, feeds: Sequence[Feeds], levels: Sequence[str], target: str = "vta"
) -> Offload:
    """Compiles a net, and runs it with the target's own checks on."""
    package = byocir.compile(model, targets=[target], levels=levels)
    report = package.report
    devices = [(report.device.get(r.symbol, {}), r.turns or 1) for r in report.regions]
    cycles = sum(device.get("cycles", 0) * turns for device, turns in devices)
    products = sum(device.get("bounds", {}).get("gemm", 0) * turns for device, turns in devices)
    share = report.macs[target] / max(sum(report.macs.values()), 1)
    results = [package.run(feed, check=True) for feed in feeds]
    return Offload(share, len(report.unknown_macs), cycles, products, results, report)


def same_results(ways: Sequence[Offload]) -> bool:
    """Whether all of these gave the same bits."""
    return all(
        np.array_equal(ours[name], array)
        for way in ways[1:]
        for ours, first in zip(way.results, ways[0].results, strict=True)
        for name, array in first.items()
    )


@dataclass
class Steps:
    """How far quantised values are from ONNX's, which rounds halves to even in float: the largest
    distance, how many values there are, how many are off, and how many quantize ops have no value
    to compare with."""

    largest: int = 0
    values: int = 0
    moved: int = 0
    unseen: int = 0


def steps(model: bytes, feeds: Sequence[Feeds], targets: Sequence[str] = ("vta",)) -> Steps:
    """What the rewrites for targets change, op by op.

    Each quantize op of the imported net is given what the rewritten net computed before it, so that
    steps do not add up.
    """
    plain, rewritten = byocir.import_onnx(model), byocir.import_onnx(model)
    run_passes(plain, load_context(), "fold-constants,clean-up,normalize-qdq,clean-up")
    run_passes(rewritten, load_context(), meaning_pipeline(rewritten, targets))
    found = Steps()
    for feed in feeds:
        _compare(plain, _computed(rewritten, feed), feed, found)
    return found


_Key = tuple[str, tuple[int, ...]]
_Seen = dict[_Key, list[np.ndarray]]


def _computed(module: ModuleOp, feed: Feeds) -> _Seen:
    """Bytes that a module computes, by node and shape: of several ops of one node that work one
    after the other on a shape, those of the last."""
    seen: _Seen = {}

    def observe(op: Operation, results: Sequence[np.ndarray]) -> None:
        if not op.operands or not op.results or _goes_on(op):
            return
        for array in results:
            if isinstance(array, np.ndarray) and array.dtype in (np.int8, np.uint8):
                for node in names(op.location):
                    seen.setdefault((node, array.shape), []).append(array)

    evaluate(module, feed, interpreter=Interpreter(module, observe=observe))
    return seen


def _goes_on(op: Operation) -> bool:
    """Whether an op of the same nodes works on its result, and on the same shape."""
    users = [use.operation for use in op.results[0].uses]
    return any(
        user.location == op.location
        and user.results
        and shape_of(user.results[0].type) == shape_of(op.results[0].type)
        for user in users
    )


def _compare(module: ModuleOp, seen: _Seen, feed: Feeds, found: Steps) -> None:
    """Runs a module with the values of another in place of its own quantised ones. Where a node has
    several of one shape, as a join has parts, whose order is not that of the other module, each is
    compared with the closest that is left."""
    left = {key: list(arrays) for key, arrays in seen.items()}

    def observe(op: Operation, results: Sequence[np.ndarray]) -> None:
        if not isinstance(op, QuantizeOp):
            return
        (value,) = results
        others = left.get((names(op.location)[-1], value.shape), [])
        if not others:
            found.unseen += 1
            return
        distances = [np.abs(_as(value, other) - value.astype(np.int64)) for other in others]
        closest = min(range(len(others)), key=lambda i: int(distances[i].max(initial=0)))
        other, distance = others.pop(closest), distances[closest]
        found.largest = max(found.largest, int(distance.max(initial=0)))
        found.moved += int((distance > 0).sum())
        found.values += distance.size
        value[...] = _as(value, other)

    evaluate(module, feed, interpreter=Interpreter(module, observe=observe))


def _as(value: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The numbers of another array on the grid of a value: a target's bytes may be signed."""
    if other.dtype == value.dtype:
        return other.astype(np.int64)
    return other.astype(np.int64) + (128 if value.dtype == np.uint8 else -128)
