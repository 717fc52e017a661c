"""Defines the base class of targets: declarations, and hooks that byocir calls.

Modules for described machines are imported by the hooks that need them, as `byocir targets` needs
none.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect, Operation, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible

from byocir.dialects.byoc import CompositeOp, TargetAttr, stored
from byocir.dialects.graph import GraphOp
from byocir.dialects.traits import is_constant_value
from byocir.errors import ByocirError
from byocir.patterns import Composite
from byocir.patterns.knobs import knobs_of
from byocir.patterns.policy import ConstantPolicy, Quantisation, RegionPolicy
from byocir.patterns.targets import find
from byocir.rewrites.byoc.count_work import MatchedOps
from byocir.targets.device import CFunctions, Device
from byocir.targets.loader import Loader, Runner
from byocir.targets.profile import Profile
from byocir.vendor.blame import is_ours, place_in_class
from byocir.vendor.hooks import ask, expect_given

if TYPE_CHECKING:
    from byocir.dialects.tir.emit import Emitter
    from byocir.machine import Machine
else:
    Machine = object  # for code that evaluates all annotations to find the types of options

Point = Literal["before-match", "after-match", "after-outline", "after-lowering", "before-codegen"]
"""The point at which a target's own passes run: before the first match; after composites were made
at a level, before they are gathered into regions; after regions of the graph level became
functions; after graph ops became blocks; right before `emit`."""


def _described(target: Target) -> Machine | None:
    """Gives the machine that a target describes with its options; None if it describes none."""
    found = cast(object, target.machine)
    if isinstance(found, str):
        return None
    from byocir.machine.checks import check_machine

    machine = _expected(type(target), found)
    machine.answer(("checked",), lambda: check_machine(machine))
    return machine


def _reads_others(ops: Sequence[Operation], inside: Sequence[Operation] | None) -> bool:
    """Tells whether ops read constants that are not `inside` of their composite: with None all
    are.
    """
    values = (value for op in ops for value in op.operands if is_constant_value(value))
    return inside is not None and any(value.owner not in inside for value in values)


def _is_property(kind: type[Target]) -> bool:
    """Tells whether the machine of a class follows from its options."""
    return isinstance(kind.machine, (property, cached_property))


def _expected(kind: type[Target], found: object) -> Machine:
    """Expects a machine; raises ByocirError B270."""
    from byocir.machine import Machine

    if isinstance(found, Machine):
        return found
    told = f"expected machine of class {kind.__name__} to be a Machine, found {found!r}"
    where, help = place_in_class(kind, "machine"), 'machine = npu, for npu = Machine("npu")'
    raise ByocirError("B270", told, where=where, help=help)


@dataclass(frozen=True)
class Target(Loader, ArgSpecConvertible):
    """Defines what targets share, as their base class. Dataclass fields of a subclass are the
    target's options; they may be numbers, strings, booleans or tuples of these, with defaults.
    `byocir targets` shows what a field's `metadata={"doc": …}` says of it.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        found, follows = cast(object, cls.machine), _is_property(cls)
        if not follows and not isinstance(found, str):
            from byocir.machine.checks import check_machine

            check_machine(_expected(cls, found))
        if (follows or not isinstance(found, str)) and cls.emit is Target.emit:
            cls.codegen_level = "tensor"  # programs are made of blocks
        if isinstance(found, str) and vars(cls).get("machine") and not is_ours(cls):
            _expected(cls, found)

    name: ClassVar[str]
    """The part before the dot in the names of its composites."""

    patterns: ClassVar[tuple[Composite, ...]] = ()
    """Composites at either level, in order of priority."""

    codegen_level: ClassVar[Literal["graph", "tensor"]] = "graph"
    """The level at which `emit` sees region functions; "tensor" for a described machine
    whose programs byocir makes."""

    machine: ClassVar[str | Machine] = ""
    """The machine that its functions run on, where passes choose functions by that and not by the
    name of one target: "vta" for every class derived from VTA's, or a machine that is described.
    For one that is, byocir tiles, selects instructions, allocates, synchronises and simulates. It
    may follow from the options: as a property that gives the same machine for the same options."""

    channel_multiple: ClassVar[int] = 1
    """Asks that convolutions with constant weights and matrix products, of integers, are offered
    with a multiple of so many channels, of what they read and of what they give: zeros are added to
    weights, or to the second array of a product, and other arrays get channels that nobody reads
    (`pad-channels`), in the whole module before the first match; what stays on the host computes
    these, too. A depthwise convolution gets channels where it has fewer; those of groups of several
    channels stay as they are. The least common multiple counts where several targets ask."""

    split_groups: ClassVar[int] = 0
    """Asks that convolutions in groups with constant weights, other than depthwise ones, are
    offered as several without groups (`split-groups`), in the whole module before the first match.
    Of integers, each has as many groups as have so many channels together, with weights of 0
    between them; of floats each has one group, unless none of a machine's memories holds floats.
    0 leaves them as they are. The greatest number counts where several targets ask."""

    gathers_windows: ClassVar[bool] = True
    """Lets the host gather the windows of convolutions of few channels as channels, where images
    come from the host and a described machine then takes fewer cycles (`gather-windows`)."""

    instructions: ClassVar[tuple[Composite, ...]] = ()
    """The steps that its device can do, as patterns of blocks that `tensorise` in its schedules
    may name. They take no work themselves, as those of `patterns` do."""

    signed_bytes: ClassVar[bool] = False
    """Says that it computes on signed bytes alone: arrays of unsigned ones then become signed, with
    zero points that are 128 less, in the whole module before the first match."""

    unsigned_bytes: ClassVar[bool] = False
    """Says that it computes faster on unsigned bytes without a zero point than on signed ones with
    the zero point -128, as what follows a relu often has: these then become unsigned, in the whole
    module before the first match, unless another target has `signed_bytes`."""

    channels_last: ClassVar[bool] = False
    """Asks that convolutions are offered to its patterns at the tensor level with channels last:
    images [n, h, w, c], weights [r, s, c, o], those of depthwise convolutions [r, s, c], and zeros
    around images in memory. Those of one dimension are offered with images of height 1, [n, 1, w,
    c], and weights [1, s, c, o]. What computes images and what reads them follows, in the whole
    module."""

    reassociates: ClassVar[bool] = False
    """Says that it may add products of f32 in any order, as most hardware does: contractions are
    then offered to patterns at the tensor level with the flag `reassoc`, in the whole module. With
    `channels_last` those of convolutions sum over channels inside of windows, and tiles of sums may
    have any size."""

    rounds_operands: ClassVar[Literal["", "f16", "bf16"]] = ""
    """Says that it multiplies f32 numbers as halves of this type, and sums up in f32, as most
    matrix units do. What convolutions and matrix products of f32 multiply is then rounded
    (`round-operands`), in the whole module before the first match, and patterns at the tensor level
    are offered contractions of halves with sums of f32: `total + x.to(f32) * w.to(f32)`."""

    dialects: ClassVar[tuple[Dialect, ...]] = ()
    """The dialects of its own. Modules that have their ops are read, checked and run where the
    target is installed or given; `define` says what a graph op of a dialect computes, `@evaluates`
    what another op does."""

    operators: ClassVar[tuple[Any, ...]] = ()
    """The ONNX operators that come in as ops of its own and go out again, one line for each as in
    byocir's own table: `regular("com.foo.Magic", MagicOp)`, the operator with its domain."""

    constants: ClassVar[ConstantPolicy] = "match"
    """Places the constants that its composites use: "match", "bind", "argument" or
    "transform" (see `byocir.patterns.policy`)."""

    non_finite: ClassVar[bool] = True
    """Says that it computes with NaN and infinities as the evaluator does. Where it does not say
    so, `byocir conform` compares no numbers that come from these."""

    tolerance: ClassVar[float] = 1e-7
    """Bounds the error of the floats that its ops give, relative to the largest of them or to 1: by
    sums in another order, as a rule. `byocir conform` looks at what becomes of that in a program
    whose results differ by more than one part in ten thousand. 1e-6 suits a library that computes
    functions in ways of its own."""

    tables: ClassVar[bool] = False
    """Says that it has tables of 256 entries: functions of one byte between dequantize and quantize
    (sigmoid, gelu, …) then become `graph.gather` from a constant at `graph.cast` of the byte, and
    so do the exponentials of a softmax where it computes in fixed point."""

    @classmethod
    def read_files(cls, spec: ArgSpec) -> ArgSpec:
        """Replaces file names in options by the content of the files. It is called for options that
        the user gives as text; an instance, and so a saved module, names no file.
        """
        return spec

    def composites(self) -> tuple[Composite, ...]:
        """Lists the composites that the target takes with these options, in order of priority: its
        `patterns`.
        """
        return self.patterns

    @property
    def fixed_point(
        self,
    ) -> Literal["", "floor", "half_up", "half_even", "float_scale", "float_scale_last"]:
        """Tells how the target rounds requantised integers: in fixed point with this rule ("floor"
        after half a step was added to sums of products), by one f32 scale, half to even
        ("float_scale", or "float_scale_last" if it cannot add a zero point behind the scale: it
        then joins the sums), or "" for in float, as ONNX does. It is chosen for the whole module
        before the first match."""
        return ""

    @property
    def quantisation(self) -> Quantisation:
        """Gives the form of int8 nets that the target computes best, for `byocir quantise`: by
        default without zero points, and with a scale for each channel of weights.
        """
        return Quantisation()

    def settings(self) -> Sequence[str]:
        """Names the settings that `byocir sweep` may vary: by default the options."""
        return [each.name for each in fields(self)]

    def varied(self, settings: Mapping[str, Any]) -> Target:
        """Makes the same target with other settings, by the names that `settings` gives. Raises
        ByocirError for values that it cannot have.
        """
        return replace(self, **settings)

    def resources(self) -> Mapping[str, int]:
        """Counts what the device has, for `byocir sweep`: "memory_bits", those of all memories but
        the main one, and "macs_per_cycle", the most multiply-accumulates it does in a cycle; those
        of a described machine's memories by default."""
        machine = _described(self)
        if machine is None:
            return {}
        storages = {memory.storage for memory in machine.memories if not memory.hidden}
        return {"memory_bits": sum(8 * each.rows * each.row_bytes for each in storages)}

    @property
    def region_policy(self) -> RegionPolicy:
        """Tells how composites are gathered into regions, each of which is one call. The default is
        as few regions as possible, connected or not; for a described machine that cannot wait for
        its own writes to main memory (`Machine.hands_on`), by way of a third unit neither, it is a
        region for each composite.
        """
        machine = _described(self)
        if machine is None or machine.hands_on:
            return RegionPolicy("any")
        from byocir.rewrites.machine.relays import relay_of

        return RegionPolicy("none" if relay_of(machine) is None else "any")

    def refusal(self, ops: Sequence[Operation]) -> str:
        """Gives the reason why the target cannot run the ops of a match that keeps all rules, or
        "": what is refused goes to the next target or the host. The first line is what tables
        show, and further lines are shown with the node alone. For a described machine, the default
        refuses blocks that no instruction does, and tiles that no memory holds, whether `schedule`
        gives scripts or not.
        """
        machine = _described(self)
        if machine is None:
            return ""
        from byocir.rewrites.machine.search_schedule import with_hint

        inside = ops.constants if isinstance(ops, MatchedOps) else None
        inside = {"match": inside, "argument": ()}.get(self.constants)
        reason = self._refusal(machine, ops, inside)
        if reason and _reads_others(ops, inside) and not self._refusal(machine, ops, None):
            hint = 'constants = "bind" in the target\'s class makes constants part of composites'
            return with_hint(reason, hint)
        return reason

    def _refusal(
        self, machine: Machine, ops: Sequence[Operation], inside: Sequence[Operation] | None
    ) -> str:
        """Says why the machine cannot run ops with these constants inside, by default all."""
        from byocir.dialects.tir import ExternOp, ForOp
        from byocir.lowering.graph_to_tir.match_blocks import blocks_of_match
        from byocir.rewrites.machine.search_schedule import refusal_of

        if type(self).lower is Target.lower and any(isinstance(op, GraphOp) for op in ops):
            ops, inside = blocks_of_match(ops, inside), None
            if other := next((op for op in ops if isinstance(op, ExternOp | ForOp)), None):
                return f"expected operators that blocks compute, found one with {other.name}"
        return refusal_of(machine, ops, self.channel_multiple, inside)

    def cost(self, composite: str, ops: MatchedOps) -> Mapping[str, float]:
        """Estimates a match of one of the target's composites: "latency" in seconds, "energy" in
        joules, "bytes" that cross. `ops` are the matched ops, the last one first, with the
        `ops.macs` and `ops.bytes` that reports have. Where a compilation names an objective,
        targets that estimate it compete for the ops that several of them can take.
        """
        return {}

    def passes(self, point: Point) -> Sequence[str | ModulePass]:
        """Gives the target's own passes at a named point, as pipeline text or pass objects. They
        run on the whole module and look at functions whose `byoc.target` is theirs. One before the
        match may be a partitioner of its own: what it marks with `byocir.rewrites.mark_ops` goes to
        the target, whatever others could take, and groups that it names stay regions of their
        own."""
        return ()

    def lower(self, composite: CompositeOp, emit: Emitter) -> Sequence[SSAValue] | None:
        """Lowers a composite that was taken at graph level to blocks, for targets whose
        `codegen_level` is "tensor": written with `emit`, from the arguments and ops of
        `composite.body.block`, its results in order. None, the default, lowers its ops one by one.
        """
        return None

    def schedule(self, composite: CompositeOp) -> str | None:
        """Gives the schedule of a composite's blocks: a script of primitives, such as `"m, n =
        tile(gemm, m=4, n=4); stage(gemm, 0, 'npu.in', at=n)"`; None, the default, for no schedule
        or, where the target's machine is described, for the one that a search finds. The script
        names blocks, iterators and inputs as the pattern does that took them;
        `Composite.matched_in` tells their sizes. It is recorded in the module, and applied once the
        function is in memory, before the passes that come before `emit`. The hook is called for
        composites that are blocks: those of the tensor level and, where `codegen_level` is
        "tensor", those of both levels. It may be called more than once, but not about a composite
        that it has left to the search, whose blocks may be others by then.
        """
        return None

    def knobs(self, composite: CompositeOp) -> Mapping[str, Sequence[int | str]]:
        """Lists the values that each hole of the target's script can have: `{"tile_m": (4, 8)}` for
        `"m, = tile(gemm, m={tile_m})"`. The first value of each is the default, and `byocir tune`
        looks for the best. Without a script, the knobs are read by `emit`, with
        `byocir.targets.base.knobs_of(composite)`; composites of operators can have such knobs, too.
        """
        return {}

    def candidates(self, composite: CompositeOp, most: int) -> Sequence[str]:
        """Lists schedules that `byocir tune` tries, at most so many, the most promising first,
        where the target has no knobs. For a described machine, they are those that the search puts
        first, unless `schedule` gives one.
        """
        machine = _described(self)
        if machine is None:
            return ()
        from byocir.rewrites.machine import own_script
        from byocir.rewrites.machine.search_schedule import schedules_for

        if own_script(self, composite) is not None:
            return ()
        return schedules_for(machine, composite, most)

    def transform(
        self, composite: str, uses: Sequence[Use], array: np.ndarray
    ) -> np.ndarray | None:
        """Converts a constant to the array that is stored for it, where `constants` is "transform":
        weights in the order of the device, of any shape and element type, or None for the numbers
        as they are. `composite` is the name of the composite that has the constant, and `uses` tell
        where it is used there (`use.operation`, a graph op or block, and `use.index`, which operand
        of it). The hook is called once for each constant of each composite; `stored` gives its
        result to `emit`. The module's meaning stays the same: kernels that `emit` refers to must
        take what is stored.
        """
        return None

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        """Generates code for all of the target's functions together: named blobs. A value that a
        function reads twice is one input, and what nothing outside reads is no output. The
        functions' bodies leave the module once there are blobs. The default gives none: the
        functions stay and run through the evaluator. For a described machine it gives its programs,
        to be simulated, and takes the bodies out of `module`: who reads them does so first. The
        command line calls one of a target from a file in a process of its own, and `byocir.isolate`
        does: of what it does, what it gives alone remains."""
        machine = _described(self)
        if machine is None:
            return {}
        from byocir.targets.described import programs_of

        return programs_of(machine, module, symbols)

    def load(self, blobs: Mapping[str, bytes]) -> Runner | None:
        """Makes the runner of what `emit` made, for the in-process runtime: a function of a
        region's symbol and its inputs, which it must not write. Its results are copied. None means
        that the target cannot run its code, and running a package raises ByocirError B227. Programs
        of a described machine are simulated. The command line calls it in a process of its own
        where the target is from a file, and so does `byocir.isolate`.
        """
        machine = _described(self)
        if machine is None:
            return None
        from byocir.targets.described import runner

        return runner(machine, blobs)

    def load_checked(self, blobs: Mapping[str, bytes]) -> Runner | None:
        """Loads code like `load`, but for a runner that also looks for mistakes in the code itself,
        such as missing synchronisation, and raises on the first. It is slower, and meant for tests.
        The default looks for such mistakes in programs of described machines only.
        """
        machine = _described(self)
        if machine is None or type(self).load is not Target.load:
            return self.load(blobs)
        from byocir.targets.described import runner

        return runner(machine, blobs, check=True)

    def device(self, blobs: Mapping[str, bytes]) -> Device | CFunctions | None:
        """Gives what exported C projects need to run what `emit` made: programs and the C of a
        device that runs them, or functions in C; None if they cannot. For a described machine these
        are functions that issue its code, if the machine says how (`Machine.issue`).
        """
        machine = _described(self)
        if machine is None:
            return None
        from byocir.targets.described import c_functions

        return c_functions(machine, blobs)

    def profile(self, blobs: Mapping[str, bytes]) -> Sequence[Profile]:
        """Profiles the target's programs, if it knows where their time goes: those of a described
        machine by the costs of instructions in the description.
        """
        machine = _described(self)
        if machine is None:
            return ()
        from byocir.targets.described import costs_of_programs

        return [Profile(*costs) for costs in costs_of_programs(machine, blobs)]


__all__ = [
    "MatchedOps",
    "Point",
    "Profile",
    "Runner",
    "Target",
    "knobs_of",
    "stored",
    "target_of",
]


def target_of(attribute: TargetAttr) -> Target:
    """Makes the target that a module's attribute names; raises ByocirError B210, B213 or B216."""
    found = find(attribute)
    if not isinstance(found, Target):
        raise ByocirError(
            "B216",
            f"expected target '{attribute.target_name.data}' to derive from byocir.Target, "
            f"found {type(found).__name__}",
        )
    return found


def profiles_of(target: Target, blobs: Mapping[str, bytes]) -> Sequence[Profile]:
    """Asks a target for its programs' profiles. Raises ByocirError B228 if it gives something
    else.
    """
    given: Any = ask(target, "profile", blobs)
    expect_given(target, "profile", isinstance(given, (list, tuple)), "a list of Profile", given)
    listed = cast("Sequence[object]", given)
    for each in listed:
        expect_given(target, "profile", isinstance(each, Profile), "a list of Profile", each)
    return cast("Sequence[Profile]", listed)
