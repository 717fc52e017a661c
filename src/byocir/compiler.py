"""The driver of a compilation runs import, passes, hand-offs, code generation and packaging. Every
step is a named pass.

The passes that partition a module are listed in `byocir.targets.hand_off_passes`; each target's own
passes and its code generator follow. The rest of `@main` runs in the evaluator, or as C after the
passes of `host_pipeline`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from byocir.arguments import (
    CALL,
    FLAG,
    SHAPES,
    TEXT,
    TEXTS,
    check,
    instance_of,
)
from byocir.dialects.byoc import LEVELS, TARGET, TARGETS, CallOp, TargetAttr
from byocir.dialects.context import load_context
from byocir.dialects.gc_pause import gc_paused
from byocir.errors import ByocirError, did_you_mean
from byocir.evaluate.memory_needs import ask_for_program
from byocir.evaluate.module import MAIN
from byocir.evaluate.ports import INPUTS
from byocir.lowering.tir_to_c import HostCode
from byocir.lowering.tir_to_c.literals import NoC
from byocir.patterns.targets import targets_of
from byocir.request import Request
from byocir.rewrites.byoc.costs import CostTable
from byocir.rewrites.byoc.levels import levels_left
from byocir.rewrites.byoc.place_by_hand import set_placement
from byocir.rewrites.byoc.tuned import TunedTable
from byocir.rewrites.host.c_host import CHost, c_host_of, is_c, parse_c_host, set_c_host
from byocir.rewrites.pipeline import AfterPass, PassRunner, run_passes, with_care
from byocir.runtime.callbacks import callback_notes, callback_reasons
from byocir.runtime.host_ops import check_host_ops
from byocir.runtime.native import host_code, memory_of
from byocir.runtime.package import Package
from byocir.runtime.read_model import read_model, take_up
from byocir.runtime.report import REFERENCE, C, Report
from byocir.runtime.report_of_module import recount, report_of
from byocir.targets.base import profiles_of, target_of
from byocir.targets.emit_code import emitted
from byocir.targets.hand_off_passes import (
    LOWERING,
    code_pipeline,
    is_handed_over,
    mark_ran,
    partition_pipeline,
    ran_for_code,
    rest_pipeline,
    unmark,
)
from byocir.targets.resolve_targets import (
    Targets,
    listed,
    notes_on_options,
    of_saved,
    operators_of,
    with_options,
)
from byocir.targets.tuned import follow_tuned

if TYPE_CHECKING:
    from onnx import ModelProto

HOSTS = (REFERENCE, C)

Step = Callable[[str], None]
"""Told what begins."""


def import_onnx(
    model: str | Path | bytes | ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    targets: Targets | None = None,
) -> ModuleOp:
    """Imports the graph-level module of an ONNX model, with `@main` as its function.

    `model` is a path, the file's bytes or a ModelProto. `shapes` pins symbolic dimensions, e.g.
    `{"x": (1, 1, 16, 16)}`. ONNX operators of `targets` come in as ops of theirs.
    Raises ByocirError B101 to B106, naming node and op.
    """
    from byocir.frontend.onnx import import_onnx as import_model

    check(shapes=(shapes, SHAPES.or_none()))
    return import_model(model, shapes=shapes, operators=operators_of(targets))


def partition(
    module: ModuleOp,
    targets: Targets,
    *,
    levels: Sequence[str] = LEVELS,
    placement: Mapping[str, str] | None = None,
    objective: str = "",
    costs: str | Path | CostTable | None = None,
    tuned: str | Path | TunedTable | None = None,
    runner: PassRunner | None = None,
) -> Report:
    """Hands the module's work to targets, in order of preference, and says what went where.

    Changes the module in place: regions become functions that carry `byoc.target`, the rest of
    `@main` is lowered to the tensor level. `levels` says at which levels targets may take work.
    `placement` maps nodes, by name or regular expression, to a target or "host" and wins over
    patterns; names count before expressions, else the first entry does. With an `objective`
    ("latency", "energy" or "bytes") targets that tell their costs compete for what several can
    take; `costs`, a table or its file (`byocir.rewrites.byoc.costs`), are measured and count before
    what targets tell. `tuned`, a table or its file, has schedules that `tune` found best.
    """
    request = Request(targets, levels, placement, objective, costs, tuned)
    return _partition(module, targets, request, runner or PassRunner())


def _partition(module: ModuleOp, targets: Targets, request: Request, runner: PassRunner) -> Report:
    """Partitions a module as `partition` does, for `targets` in place of those of the request."""
    check(module=(module, MODULE))
    ask_for_program(module)
    passes = _passes(module, targets, request)
    with gc_paused():  # one pause for both, as each end of a pause walks all new objects
        runner.run(module, passes)
        return _reported(module, request)


def _passes(module: ModuleOp, targets: Targets, request: Request) -> Sequence[ModulePass]:
    """Gives the passes that partition a module, and writes into the module which nodes a user
    placed by hand.
    """
    if request.placement:
        set_placement(module, request.placement)
    costs = request.cost_table()
    return partition_pipeline(module, targets, request.levels, request.objective, costs)


def _reported(module: ModuleOp, request: Request) -> Report:
    """Gives the report of a partitioned module, after it was given the tuned schedules of the
    request, if there are any. Raises ByocirError B101, B264.
    """
    table = request.tuned_table()
    notes = follow_tuned(module, table) if table is not None else []
    report = report_of(module)
    report.notes += notes
    return report


MODULE = instance_of("a module, as import_onnx gives it,", ModuleOp)


def export_onnx(
    module: ModuleOp,
    targets: Targets = (),
    *,
    function: str = MAIN,
    rewritten: bool = False,
    levels: Sequence[str] = LEVELS,
    placement: Mapping[str, str] | None = None,
    objective: str = "",
    costs: str | Path | CostTable | None = None,
) -> ModelProto:
    """Exports the ONNX model of a module at the graph level: imported, rewritten or partitioned.

    Ops that were handed over are back in their places. With `targets`, or where the module names
    some, a copy is partitioned, as `compile` does it, and the metadata of each node say where it
    went and why (`byocir.runtime.annotate`). `rewritten` writes the ops that the first hand-off saw
    instead of those of the module, and so does naming a region's `function`. The module stays as it
    is.

    Raises ByocirError B109 for ops without an ONNX form, such as those of the tensor level, B302
    for a function that does not exist or for which code was generated, B114 and B213 for arguments
    that come too late for a partitioned module.
    """
    from byocir.frontend.onnx.handed_over import function_named
    from byocir.runtime.annotate import annotated_onnx

    check(module=(module, MODULE), function=(function, TEXT), rewritten=(rewritten, FLAG))
    targets = listed(targets)
    request = Request(targets or None, levels, placement, objective, costs)
    saved = targets_of(module) if TARGETS in module.attributes else []
    if not targets and not saved:
        return annotated_onnx(function_named(module, function), report_of(module))
    whole = module.clone()
    if is_handed_over(module):
        return annotated_onnx(function_named(module, function), hand_over(whole, request))
    passes = _passes(whole, of_saved(request.targets, saved), request)
    seen = _partitioned(whole, passes, keep=rewritten or function != MAIN)
    return annotated_onnx(function_named(seen or module, function), report_of(whole))


def _partitioned(module: ModuleOp, passes: Sequence[ModulePass], *, keep: bool) -> ModuleOp | None:
    """Partitions a module in place. With `keep` it gives a copy of the module as it was after the
    hand-off at graph level, before anything was lowered; else None.
    """
    lowering = [pass_.name for pass_ in passes].index(LOWERING)
    context = load_context()
    run_passes(module, context, passes[:lowering])
    seen = module.clone() if keep else None
    run_passes(module, context, passes[lowering:])
    return seen


def compile(
    model: str | Path | bytes | ModelProto | ModuleOp,
    *,
    targets: Targets | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    levels: Sequence[str] = LEVELS,
    placement: Mapping[str, str] | None = None,
    objective: str = "",
    costs: str | Path | CostTable | None = None,
    tuned: str | Path | TunedTable | None = None,
    host: str = REFERENCE,
    host_ops: Sequence[str] | None = None,
    after_pass: AfterPass | None = None,
    on_step: Step = lambda step: None,
    **options: Any,
) -> Package:
    """Compiles an ONNX model, or a module, into a package.

    A module can be given, which is not changed, or a file `NAME.mlir` with its large constants in
    `NAME.safetensors`; one that was saved in the middle of a compilation continues from there
    (`hand_over`). Without `targets` a model is compiled for those that its module names, else for
    VTA; with them, options that are not given are those in the module.

    `after_pass(pass, module, seconds)` is called after every pass, `on_step(name)` when a step
    begins. Other `options` go to every target that has an option of that name. What no target takes
    runs on the `host` (`host_of`). Other arguments as `import_onnx` and `partition`.
    """
    check(
        shapes=(shapes, SHAPES.or_none()),
        host=(host, TEXT),
        host_ops=(host_ops, TEXTS.or_none()),
        after_pass=(after_pass, CALL.or_none()),
        on_step=(on_step, CALL),
    )
    request = Request(targets, levels, placement, objective, costs, tuned, options)
    c_host = host_of(host)

    def attempt(runner: PassRunner) -> Package:
        on_step("import")
        module = read_model(model, shapes=shapes, targets=targets)
        on_step("partition")
        if objective and c_host is not None:
            set_c_host(module, c_host)  # the host that competes with targets
        report = hand_over(module, request, runner)
        if host_ops is not None:
            check_host_ops(report, host_ops)
        on_step("generate code")
        return generate(module, report, host=host, runner=runner)

    return with_care(attempt, after_pass)


def hand_over(module: ModuleOp, request: Request, runner: PassRunner | None = None) -> Report:
    """Partitions a module, or does what is left of that where it was saved on the way.

    For a partitioned module only code is generated, for the targets that it names. So arguments of
    `partition` are refused (ByocirError B114), and `targets` needs to name only those that are not
    installed, without options."""
    runner = runner or PassRunner()
    if is_handed_over(module):
        take_up(module, request.targets, request.too_late)
        runner.run(module, rest_pipeline(module))
        return _reported(module, request)
    saved = targets_of(module) if TARGETS in module.attributes else []
    chosen = with_options(of_saved(request.targets, saved), request.options)
    if request.at_all_levels:
        request = replace(request, levels=levels_left(module) or request.levels)
    report = _partition(module, chosen, request, runner)
    if request.targets is not None:
        report.notes = [*notes_on_options(targets_of(module), saved), *report.notes]
    return report


def host_of(text: str) -> CHost | None:
    """Reads the host that C code is made for from "c"; None for "reference", the evaluator.

    C is built on first use; its options, as in "c{cpu=x86-64-v3,threads=2}", say for which
    processor (`native`, this machine's, by default, or one of `byocir.toolchain.cpu`) and how many
    threads. Raises ByocirError B225 for an unknown host, B229 for options that it does not take.
    """
    if is_c(str(text)):
        return parse_c_host(text)
    if text != REFERENCE:
        raise ByocirError(
            "B225",
            f"expected host {' or '.join(HOSTS)}, found {text!r}",
            help=did_you_mean(str(text), list(HOSTS)),
        )
    return None


@gc_paused()
def generate(
    module: ModuleOp,
    report: Report,
    *,
    host: str = REFERENCE,
    runner: PassRunner | None = None,
) -> Package:
    """Runs each target's passes and code generator on a partitioned module."""
    c_host, runner = host_of(host), runner or PassRunner()
    instances = [target_of(attribute) for attribute in targets_of(module)]
    passes = code_pipeline(module, instances)
    _marking(runner, ran_for_code(module), report.split).run(module, passes)
    unmark(module)
    recount(report, module)
    if c_host is not None:
        set_c_host(module, c_host)
        runner.run(module, host_pipeline(c_host_of(module)))
    blobs: dict[str, Mapping[str, bytes]] = {}
    for target in instances:
        nodes = _nodes_by_symbol(report, target.name)
        made = emitted(target, module, nodes)
        if made:
            blobs[target.name] = made
            _declare(module, [*nodes])
            for profile in profiles_of(target, made):
                report.device[profile.symbol] = profile.to_dict()
    code = _host_code(module, report) if c_host is not None else None
    if code is not None:
        report.called_back = callback_reasons(code)
        report.notes += callback_notes(code)
        if code.is_worth_it:
            report.host_runs_on, report.memory = C, memory_of(code)
    found = {target.name: target for target in instances}
    return Package(module, blobs, report, code=code, found=found)


def _marking(runner: PassRunner, ran: Sequence[str], split: Sequence[str]) -> PassRunner:
    """Gives a runner like this one that, before it shows a module to `after_pass`, notes in it
    which passes have run to make code.
    """
    show, ran = runner.after_pass, [*ran]
    if show is None:
        return runner

    def after_pass(pass_: ModulePass, module: ModuleOp, seconds: float) -> None:
        ran.append(pass_.name)
        mark_ran(module, ran, split)
        show(pass_, module, seconds)

    return replace(runner, after_pass=after_pass)


def _host_code(module: ModuleOp, report: Report) -> HostCode | None:
    """Gives the C code of @main. Where its arguments, or ops of a function in memory, have no form
    in C, gives None and tells so in the report.
    """
    try:
        return host_code(module)
    except NoC as error:
        report.notes.append(f"the host runs in the evaluator: {error} has no form in C")
        return None


def host_pipeline(host: CHost) -> str:
    """Gives the passes that bring blocks into the form in which they become C for a host."""
    relax = "relax-contractions," if host.description.fuses else ""
    pack = f"pack-weights{{cpu={host.cpu}}},fold-copies"
    lower = f"outline-branches,convert-bounded-to-tir,{LOWERING}"
    layouts = f"{relax}split-phases,fold-copies,fold-pads,assign-layouts,flatten-windows"
    return f"{lower},{layouts},fuse-blocks,{pack},group-foreign"


def _nodes_by_symbol(report: Report, target: str) -> dict[str, list[str]]:
    """Gives the functions of a target, each with the nodes that it stands for."""
    found: dict[str, list[str]] = {}
    for region in report.regions:
        if region.target == target:
            found.setdefault(region.symbol, []).extend(region.nodes)
    return found


def _declare(module: ModuleOp, symbols: Sequence[str]) -> None:
    """Replaces each region function for which there is code by its declaration."""
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
            if INPUTS in op.attributes:
                declaration.attributes[INPUTS] = op.attributes[INPUTS]
            module.body.block.insert_op_before(declaration, op)
            op.detach()
            op.erase()


def _target_attr(module: ModuleOp, call: CallOp) -> TargetAttr:
    record = call.handed_off
    assert record is not None
    return next(t for t in targets_of(module) if t.target_name == record.target)
