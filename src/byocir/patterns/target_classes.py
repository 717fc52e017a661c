"""Finds the classes of targets by name: entry points and those that the user of this process gave.

A module names its target; code is imported only from an entry point of the group `byocir.targets`,
or registered by the caller, never from a path in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, Self

from xdsl.ir import Dialect, Operation, SSAValue, Use
from xdsl.utils.arg_spec import ArgSpec

from byocir.dialects.byoc import HOST, CompositeOp
from byocir.errors import ByocirError, did_you_mean
from byocir.patterns.composite import Composite
from byocir.patterns.policy import ConstantPolicy, RegionPolicy
from byocir.vendor import registry
from byocir.vendor.user_code import IN_A_FILE, given_file


class TargetProtocol(Protocol):
    """Describes a target as passes see it: they do not know the class `byocir.targets.base.Target`,
    which has these members. Its class makes an instance from options.
    """

    name: ClassVar[str]
    """The part before the dot in the names of its composites."""

    dialects: ClassVar[tuple[Dialect, ...]]
    """The dialects of its own."""

    operators: ClassVar[tuple[Any, ...]]
    """The ONNX operators that come in as its own ops: entries of the op table."""

    @classmethod
    def read_files(cls, spec: ArgSpec) -> ArgSpec:
        """Replaces, among options, names of files by what the files hold."""
        ...

    @classmethod
    def from_spec(cls, spec: ArgSpec) -> Self:
        """Makes an instance with the options of a spec; raises ValueError."""
        ...

    def spec(self, *, include_default: bool = False) -> ArgSpec:
        """Gives the target's name and options."""
        ...

    def cost(self, composite: str, ops: Any) -> Mapping[str, float]:
        """Estimates a match of a composite: seconds as "latency", joules as "energy", and as
        "bytes" what crosses; empty where it does not know."""
        ...

    constants: ClassVar[ConstantPolicy]
    """The way in which its composites get their constants."""

    def composites(self) -> tuple[Composite, ...]:
        """Lists the composites that it takes with its options, in order of priority."""
        ...

    signed_bytes: ClassVar[bool]
    """Tells whether it computes on signed bytes alone."""

    unsigned_bytes: ClassVar[bool]
    """Tells whether it computes faster on unsigned bytes without a zero point."""

    def refusal(self, ops: Sequence[Operation]) -> str:
        """Gives the reason why it cannot run the ops of a match, or ""."""
        ...

    codegen_level: ClassVar[Literal["graph", "tensor"]]
    """The level that its region functions are brought to before code generation."""

    machine: ClassVar[Any]
    """The machine that its functions run on, for passes that serve several targets: a name, or a
    described machine (`byocir.machine.Machine`)."""

    channel_multiple: ClassVar[int]
    """The number of channels of which it wants multiples."""

    gathers_windows: ClassVar[bool]
    """Tells if the host may gather the windows of its convolutions."""

    @property
    def fixed_point(self) -> str:
        """Gives the rounding of fixed-point requantisation ("half_up", "half_even", "float_scale",
        …), or "" for a target that computes as ONNX does."""
        ...

    @property
    def region_policy(self) -> RegionPolicy:
        """Tells how its composites are gathered into regions."""
        ...

    def lower(self, composite: CompositeOp, emit: Any) -> Sequence[SSAValue] | None:
        """Gives the blocks that compute a composite, written with `emit`, and their results; None
        for what its ops become by default."""
        ...

    instructions: ClassVar[tuple[Composite, ...]]
    """The patterns of what `tensorise` in its schedules may make of blocks."""

    def schedule(self, composite: CompositeOp) -> str | None:
        """Gives the script by which the blocks of a composite run; None to run them as they are."""
        ...

    def knobs(self, composite: CompositeOp) -> Mapping[str, Sequence[int | str]]:
        """Gives the values that each hole of the composite's script can have or, without a script,
        each knob of its code.
        """
        ...

    def transform(self, composite: str, uses: Sequence[Use], array: Any) -> Any:
        """Gives the array to store for a constant of a composite; None to store its own numbers."""
        ...


def register(name: str, target: type[TargetProtocol]) -> None:
    """Registers a target's class in this process by its name; this thread finds it before those
    that others register.
    """
    registry.give(name, _with_dialects(target))


def _with_dialects(target: type[TargetProtocol]) -> type[TargetProtocol]:
    """Registers the dialects of a target's class, and gives the class."""
    for dialect in target.dialects:
        registry.give_dialect(dialect.name, dialect)
    return target


def file_of(name: str) -> str:
    """Spells a target from a file as the user gave it, `path/to/npu.py:Npu`; empty for others."""
    kind = registry.registered_class(name)
    file = given_file(kind) if isinstance(kind, type) else ""
    return f"{file}:{getattr(kind, '__name__', '')}" if file else ""


def operators_known() -> list[Any]:
    """Lists the ONNX operators of all targets that are registered in this process."""
    return [entry for target in registry.all_given().values() for entry in target.operators]


def installed() -> set[str]:
    """Gives the names of the targets that installed packages bring."""
    return {entry.name for entry in registry.installed()}


def names() -> list[str]:
    """Gives the names of all targets that can be found."""
    return sorted({*registry.all_given(), *installed()})


def find_class(name: str) -> type[TargetProtocol]:
    """Finds the class of a target; raises ByocirError B210 for an unknown name."""
    known: type[TargetProtocol] | None = registry.registered_class(name)
    if known is not None:
        return known
    for entry in registry.installed():
        if entry.name == name:
            return _with_dialects(registry.imported(entry))
    if name == HOST:
        raise unknown_target(name, _NO_TARGET)
    way = "as C the host runs with --host c" if name == "c" else f"one in a file is {IN_A_FILE}"
    raise unknown_target(name, f"{did_you_mean(name, names())}; {way}")


_NO_TARGET = (
    "the host is no target: it runs what no target takes, and all of a model where none is named "
    '(targets=[] in Python, --target host for byocir); with host="c" it does so in C'
)


def unknown_target(name: str, help: str) -> ByocirError:
    return ByocirError("B210", f"unknown target '{name}'", help=help)


def find_installed(targets: Iterable[str]) -> None:
    """Makes the dialects of those targets known that packages bring."""
    for name in installed().intersection(targets):
        find_class(name)
