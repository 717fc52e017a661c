"""The driver: import, passes, hand-offs, code generation, package. Every step is a named pass.

```
fold-constants, clean-up, normalize-qdq, qdq-to-integer, fold-constants, clean-up   graph rewrites
fix-point                                       when a target computes in fixed point
match-composites, assign-targets, merge-regions, outline-regions, clean-up          first hand-off
convert-graph-to-tir
match-composites{level=tensor}, assign-targets, merge-regions, outline-regions      second hand-off
each target's own passes, then its code generator
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGET, CallOp, TargetAttr
from byocir.dialects.context import load_context
from byocir.errors import ByocirError
from byocir.patterns.targets import attr_of, parse_targets, register, targets_of
from byocir.rewrites.byoc.set_targets import set_targets
from byocir.rewrites.fix_point import FixPointPass
from byocir.rewrites.pipeline import AfterPass, parse_pipeline, run_passes
from byocir.runtime.package import Package
from byocir.runtime.report import Report, report_of
from byocir.targets.base import Point, Target, target_of

if TYPE_CHECKING:
    from onnx import ModelProto

LEVELS = ("graph", "tensor")
GRAPH_REWRITES = "fold-constants,clean-up,normalize-qdq,qdq-to-integer,fold-constants,clean-up"
HAND_OFF = "assign-targets,merge-regions,outline-regions,clean-up"

Targets = Sequence[str | Target]
Step = Callable[[str], None]
"""Told what begins."""


def import_onnx(
    model: str | Path | bytes | ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> ModuleOp:
    """The graph-level module of an ONNX model, with `@main` as its function.

    `model` is a path, the file's bytes or a ModelProto. `shapes` pins symbolic dimensions, e.g.
    `{"x": (1, 1, 16, 16)}`. Raises ByocirError B101 to B106, naming node and op.
    """
    from byocir.frontend.onnx import import_onnx as import_model

    return import_model(model, shapes=shapes)


def partition(
    module: ModuleOp,
    targets: Targets,
    *,
    levels: Sequence[str] = LEVELS,
    after_pass: AfterPass | None = None,
) -> Report:
    """Hands the module's work to targets, in order of preference, and says what went where.

    Changes the module in place: regions become functions that carry `byoc.target`, the rest of
    `@main` is lowered to the tensor level. `levels` says at which levels targets may take work.
    """
    run_passes(
        module, load_context(), partition_pipeline(module, targets, levels), callback=after_pass
    )
    return report_of(module)


def partition_pipeline(
    module: ModuleOp, targets: Targets, levels: Sequence[str]
) -> list[ModulePass]:
    """Names the targets in the module and gives the passes that partition it."""
    unknown = [level for level in levels if level not in LEVELS]
    if unknown or not levels:
        raise ByocirError(
            "B212",
            f"expected levels among {', '.join(LEVELS)}, found {', '.join(unknown) or 'none'}",
        )
    attributes = [attribute for target in targets for attribute in _attributes(target)]
    set_targets(module, attributes)
    instances = [target_of(attribute) for attribute in attributes]
    passes = [*parse_pipeline(GRAPH_REWRITES), *_fix_point(instances)]
    passes += _at(instances, "before-match")
    if "graph" in levels:
        passes += parse_pipeline(f"match-composites,{HAND_OFF}")
        passes += _at(instances, "after-outline")
    passes += parse_pipeline("convert-graph-to-tir")
    if "tensor" in levels:
        passes += parse_pipeline(f"match-composites{{level=tensor}},{HAND_OFF}")
    return passes


def compile(
    model: str | Path | bytes | ModelProto,
    *,
    targets: Targets = ("vta",),
    shapes: Mapping[str, Sequence[int]] | None = None,
    levels: Sequence[str] = LEVELS,
    after_pass: AfterPass | None = None,
    on_step: Step = lambda step: None,
) -> Package:
    """Compiles an ONNX model into a package.

    `after_pass(pass, module, seconds)` sees every stage; `on_step(name)` is told what begins. Other
    arguments as `import_onnx` and `partition`.
    """
    on_step("import")
    module = import_onnx(model, shapes=shapes)
    on_step("partition")
    report = partition(module, targets, levels=levels, after_pass=after_pass)
    on_step("generate code")
    return generate(module, report, after_pass=after_pass)


def generate(module: ModuleOp, report: Report, *, after_pass: AfterPass | None = None) -> Package:
    """Runs each target's passes and code generator on a partitioned module."""
    context = load_context()
    instances = [target_of(attribute) for attribute in targets_of(module)]
    passes = [*_at(instances, "after-lowering"), *_at(instances, "before-codegen")]
    run_passes(module, context, passes, callback=after_pass)
    blobs: dict[str, Mapping[str, bytes]] = {}
    for target in instances:
        symbols = [region.symbol for region in report.regions if region.target == target.name]
        made: Mapping[str, bytes] = target.emit(module, symbols) if symbols else {}
        if made:
            blobs[target.name] = made
            _declare(module, symbols)
            for profile in target.profile(made):
                report.device[profile.symbol] = profile.to_dict()
    return Package(module, blobs, report)


def _attributes(target: str | Target) -> list[TargetAttr]:
    if isinstance(target, str):
        return parse_targets(target)
    register(target.name, type(target))
    return [attr_of(target)]


def _fix_point(targets: Sequence[Target]) -> list[ModulePass]:
    roundings = sorted({target.fixed_point for target in targets} - {""})
    if len(roundings) > 1:
        raise ByocirError(
            "B215",
            f"expected targets that agree on rounding, found {' and '.join(roundings)}",
            help="the module's integers have one meaning: give the targets the same rounding",
        )
    return [*(FixPointPass(rounding) for rounding in roundings), *parse_pipeline("clean-up")]


def _at(targets: Sequence[Target], point: Point) -> list[ModulePass]:
    passes: list[ModulePass] = []
    for target in targets:
        for entry in target.passes(point):
            passes += parse_pipeline(entry) if isinstance(entry, str) else [entry]
    return passes


def _declare(module: ModuleOp, symbols: Sequence[str]) -> None:
    """Code was generated: what remains of a region function is its declaration."""
    calls = {c.callee.root_reference.data: c for c in module.walk() if isinstance(c, CallOp)}
    for op in list(module.body.block.ops):
        name = op.properties.get("sym_name")
        symbol = getattr(name, "data", "")
        if symbol in symbols:
            call = calls[symbol]
            inputs, outputs = [v.type for v in call.inputs], [r.type for r in call.outputs]
            declaration = FuncOp.external(symbol, inputs, outputs)
            declaration.attributes[TARGET] = _target_attr(module, call)
            declaration.location = op.location
            module.body.block.insert_op_before(declaration, op)
            op.detach()
            op.erase()


def _target_attr(module: ModuleOp, call: CallOp) -> TargetAttr:
    record = call.handed_off
    assert record is not None
    return next(t for t in targets_of(module) if t.target_name == record.target)
