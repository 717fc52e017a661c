"""Describes the host for which C code is made: its processor and threads, as options and in the
module.

`c{cpu=native,threads=1}` is written as targets are. `native` becomes this machine's processor by
name when the module is told, so that the code is a function of the module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, get_type_hints

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute, Operation
from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, ParseError

from byocir.dialects.byoc import HOST_CODE, TargetAttr
from byocir.errors import ByocirError, did_you_mean
from byocir.rewrites.byoc.processor import Kernels
from byocir.toolchain import x86_64_features, x86_64_level
from byocir.toolchain.cpu import CPUS, Cpu, fitting

NATIVE = "native"
MOST_THREADS = 1024
BYTES_PER_SECOND, CACHED_BYTES_PER_SECOND = 1.4e10, 1.2e10
"""The bytes of arrays that pass in a second: convolutions of 2 to 6 MB took 1e10 to 1.6e10, and a
normalisation of 0.26 MB 20 us, because it reads them several times."""


@dataclass(frozen=True)
class CHost(ArgSpecConvertible):
    """Describes the host that C code is made for: a processor of the table, and a number of
    threads."""

    name: ClassVar[str] = "c"

    cpu: str = NATIVE
    threads: int = 1

    def __post_init__(self) -> None:
        if self.cpu not in (*CPUS, NATIVE):
            near = did_you_mean(self.cpu, [*CPUS, NATIVE])
            expected = ", ".join((*CPUS, NATIVE))
            raise _wrong(f"expected a cpu of {expected}, found '{self.cpu}'", near)
        if not 1 <= self.threads <= MOST_THREADS:
            raise _wrong(f"expected 1 to {MOST_THREADS} threads, found {self.threads}")

    @property
    def resolved(self) -> CHost:
        """Gives the same host with the name of this machine's processor in place of `native`."""
        if self.cpu != NATIVE:
            return self
        return CHost(fitting(x86_64_level(), x86_64_features()).name, self.threads)

    @property
    def description(self) -> Cpu:
        """Gives the entry of the processor's table; `native` must have been resolved."""
        return CPUS[self.cpu]

    def cost(self, composite: str, ops: Sequence[Operation]) -> Mapping[str, float]:
        """Estimates ops as C, as targets estimate theirs: loops are not called, and multiply as
        much in a clock as a vector has lanes. What crosses to targets is not part of it.
        """
        cpu = self.resolved.description
        macs_per_clock = cpu.vector / (4 if cpu.fuses else 8)
        rates = macs_per_clock, BYTES_PER_SECOND, CACHED_BYTES_PER_SECOND
        kernels = Kernels(0, *rates, fuse=True)
        costs = kernels.cost_of(ops, self.threads)
        return {name: cost for name, cost in costs.items() if name != "bytes"}


def _wrong(message: str, near: str = "") -> ByocirError:
    return ByocirError(
        "B229", f"host 'c': {message}", help=near or "e.g. c{cpu=x86-64-v3,threads=2}"
    )


def is_c(text: str) -> bool:
    """Tells if a host is C, whatever its options."""
    return text.partition("{")[0].strip() == CHost.name


def parse_c_host(text: str) -> CHost:
    """Parses the text of a host, such as `c{cpu=x86-64-v3,threads=2}` names. Raises ByocirError
    B229.
    """
    try:
        specs = list(parse_pipeline(text.replace(",", " ")))
    except (ParseError, ArgSpecParseError, ValueError):  # ValueError: a number of many digits
        raise _wrong(f"expected options as {{name=value,…}}, found '{text}'") from None
    return _of_spec(specs[0]) if len(specs) == 1 else CHost()


def _of_spec(spec: ArgSpec) -> CHost:
    known = [field.name for field in fields(CHost)]
    for option in spec.parameters:
        if option not in known:
            raise _wrong(f"expected an option, found '{option}'", did_you_mean(option, known))
    for option, kind in get_type_hints(CHost).items():
        values = spec.parameters.get(option, ())
        if option in spec.parameters and [type(value) for value in values] != [kind]:
            found = ", ".join(map(str, values)) or "nothing"
            raise _wrong(f"expected option {option} as {kind.__name__}, found {found}")
    return CHost.from_spec(spec)


def set_c_host(module: ModuleOp, host: CHost) -> None:
    """Writes into a module for which host C code is made, with the name of this machine's
    processor.
    """
    known = host.resolved
    options: dict[str, Attribute] = {
        "cpu": StringAttr(known.cpu),
        "threads": IntegerAttr(known.threads, i64),
    }
    module.attributes[HOST_CODE] = TargetAttr.of(CHost.name, options)


def c_host_of(module: ModuleOp) -> CHost:
    """Reads the host of a module's C code; any machine where the module does not say. Raises
    ByocirError B229 for an attribute that names no such host.
    """
    attribute = module.attributes.get(HOST_CODE)
    if attribute is None:
        return CHost("generic")
    cpu, threads = None, None
    if isinstance(attribute, TargetAttr):
        cpu, threads = (attribute.options.data.get(name) for name in ("cpu", "threads"))
    if not isinstance(cpu, StringAttr) or not isinstance(threads, IntegerAttr):
        raise _wrong(f"expected cpu and threads in {HOST_CODE}, found {attribute}")
    return CHost(cpu.data, threads.value.data).resolved
