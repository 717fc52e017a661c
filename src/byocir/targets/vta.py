"""Defines the built-in accelerator: VTA, with a simulator as its device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.arg_spec import ArgSpec

from byocir.arguments import shown
from byocir.dialects.byoc import CompositeOp
from byocir.dialects.graph.fixed_point import Rounding
from byocir.dialects.vta_config import VTA, configured, with_config_read
from byocir.errors import ByocirError
from byocir.patterns import Composite
from byocir.patterns.policy import Quantisation
from byocir.targets.base import Point, Profile, Target
from byocir.targets.device import Device
from byocir.targets.vta_loader import VtaLoader
from byocir.targets.vta_patterns import PATTERNS, patterns_of
from byocir.vta_sim import DEFAULT_CONFIG, VTAConfig, VTAError
from byocir.vta_sim.config import PRESETS

ARRANGE, GATHER = "vta-arrange", "vta-gather-windows"
LOWERING = (
    "vta-legalise,vta-pack,clean-up,vta-bufferize,vta-border,"
    "vta-tile,vta-stage,vta-tensorise,vta-insert-tokens,vta-encode"
)
ROUNDINGS = ("floor", "half_up", "half_even")

BLOCKS = (1, 2, 4, 8, 16, 32, 64)
"""Sides of the GEMM unit whose instructions can be encoded when the buffers grow with the block."""


def _option(default: Any, doc: str) -> Any:
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True)
class Vta(VtaLoader, Target):
    """Compiles for VTA: load, gemm, alu and store units around int8 and int32 scratchpads."""

    patterns = PATTERNS
    codegen_level = "tensor"
    machine = VTA
    signed_bytes = True

    rounding: Literal["floor", "half_up", "half_even"] = _option(
        "floor",
        "How requantisation rounds: half_up takes an addition and a shift; floor adds the half to "
        "sums of products, rounded, before it multiplies them, which takes one ALU instruction or "
        "two less; half_even sends ties to the even number and takes seven more.",
    )
    block: int = _option(
        DEFAULT_CONFIG.block_out, "The side of the GEMM unit, with buffers that grow with it."
    )
    config: str = _option(
        "",
        "A whole configuration: a vta_config.json with the LOG_ keys of batch, block, widths and "
        "buffers and, optional, TARGET, ALU_MUL and ACC_8BIT for what the machine has; one of "
        f"the presets {', '.join(PRESETS)}; or a name, such as {DEFAULT_CONFIG.name}, by which it "
        "is kept.",
    )

    gather: bool = _option(
        True,
        "Lets the host gather the windows of convolutions of few channels, such as a stem, on the "
        "way in: fewer steps of the GEMM unit for more bytes that cross.",
    )

    def __post_init__(self) -> None:
        given = (
            ("rounding", self.rounding, ROUNDINGS),
            ("block", self.block, BLOCKS),
            ("gather", self.gather, (True, False)),
        )
        for option, value, known in given:
            if type(value) is not type(known[0]) or value not in known:
                raise ByocirError(
                    "B213",
                    f"target 'vta': expected {option} {' or '.join(map(str, known))}, "
                    f"found {shown(value)}",
                )
        if type(self.config) is not str:
            raise ByocirError("B213", f"expected config as text, found {shown(self.config)}")
        if self.config:
            self._take(configured(self.config))

    def _take(self, config: VTAConfig) -> None:
        """Sets the options `config` and `block` by a configuration: its name, and the side of its
        unit.
        """
        if self.block not in (type(self).block, config.block_out):
            raise ByocirError(
                "B213",
                f"target 'vta': expected block {config.block_out} as in config {config.name}, "
                f"found {self.block}",
                help="give one of the two options",
            )
        object.__setattr__(self, "config", config.name)
        object.__setattr__(self, "block", config.block_out)

    @classmethod
    def read_files(cls, spec: ArgSpec) -> ArgSpec:
        """Reads a configuration from a file that the options name."""
        return with_config_read(spec)

    @property
    def machine_config(self) -> VTAConfig:
        """Gives the VTA that the options describe."""
        return configured(self.config, self.block)

    def composites(self) -> tuple[Composite, ...]:
        return patterns_of(self.machine_config, self.gather)

    @property
    def fixed_point(self) -> Rounding:
        return self.rounding

    def settings(self) -> Sequence[str]:
        return [*super().settings(), *(each.name for each in fields(VTAConfig))]

    def varied(self, settings: Mapping[str, Any]) -> Vta:
        """Makes the same target with other options and, in its configuration, other sizes."""
        own = set(super().settings())
        options = {name: value for name, value in settings.items() if name in own}
        sizes = {name: value for name, value in settings.items() if name not in own}
        target = replace(self, **options)
        if not sizes:
            return target
        try:
            config = replace(target.machine_config, **sizes)
        except VTAError as error:
            raise ByocirError("B338", f"expected {error.expected}, found {error.found}") from None
        return replace(target, block=type(self).block, config=config.name)

    def resources(self) -> Mapping[str, int]:
        config = self.machine_config
        logs = (each.name for each in fields(config) if each.name.endswith("_buff_size"))
        return {
            "memory_bits": sum(8 << getattr(config, name) for name in logs),
            "macs_per_cycle": config.batch * config.block_in * config.block_out,
        }

    @property
    def quantisation(self) -> Quantisation:
        """Gives the form of int8 nets for VTA: sums of terms in one scale need no products, and a
        machine without MUL only shifts.
        """
        return Quantisation(equal_terms=True, powers_of_two=not self.machine_config.alu_mul)

    def cost(self, composite: str, ops: Sequence[Operation]) -> Mapping[str, float]:
        from byocir.targets.vta_cost import cost_of

        return cost_of(ops, self.block, self.rounding)

    def candidates(self, composite: CompositeOp, most: int) -> Sequence[str]:
        """Lists the tiles that the estimate of cycles puts first, as sizes of loops."""
        from byocir.targets.vta_tiles import tiles_of

        return tiles_of(composite, self._lowering, most)

    def passes(self, point: Point) -> Sequence[str]:
        if point == "after-match":
            return ("vta-separate",)
        return (self._lowering,) if point == "after-lowering" else ()

    @property
    def _lowering(self) -> str:
        """Lists the passes from blocks to code."""
        return ",".join([ARRANGE, *([GATHER] if self.gather else []), LOWERING])

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        from byocir.dialects.vta import ProgramOp
        from byocir.targets.vta_emit import files_of

        blobs: dict[str, bytes] = {}
        for op in module.body.block.ops:
            if isinstance(op, ProgramOp) and op.sym_name.data in symbols:
                blobs.update(files_of(op))
        return blobs

    def device(self, blobs: Mapping[str, bytes]) -> Device:
        from byocir.targets.vta_runs import device_of

        return device_of(blobs)

    def profile(self, blobs: Mapping[str, bytes]) -> Sequence[Profile]:
        from byocir.targets.vta_runs import profiles_of

        return profiles_of(blobs)
