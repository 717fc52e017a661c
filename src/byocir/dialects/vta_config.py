"""Reads, from the options of a function's target, for which configuration of VTA the function
is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation
from xdsl.utils.arg_spec import ArgSpec

from byocir.arguments import shown
from byocir.dialects.byoc import TARGET, TargetAttr
from byocir.errors import ByocirError
from byocir.vta_sim import DEFAULT_CONFIG, VTAConfig, VTAError
from byocir.vta_sim.config import PRESETS, computes

VTA = "vta"
"""The machine of targets whose functions these passes lower."""


def target_of(op: Operation) -> TargetAttr | None:
    """Gives the target of an op, or of the nearest op around it that has one."""
    found: Operation | None = op
    while found is not None:
        target = found.attributes.get(TARGET)
        if isinstance(target, TargetAttr):
            return target
        found = found.parent_op()
    return None


def config_of(op: Operation) -> VTAConfig:
    """Gives the configuration of VTA that the target of an op, or of what encloses it, asks for.

    Its option `config` names one; else `block` is the side of the GEMM unit of one that is the
    default otherwise. Without a target or the options it is the default. Raises ByocirError B338
    for what no VTA has.
    """
    target = target_of(op)
    return DEFAULT_CONFIG if target is None else _config(target)


@lru_cache(maxsize=64)
def _config(target: TargetAttr) -> VTAConfig:
    options = target.options.data
    name, block = options.get("config"), options.get("block")
    text = name.data if isinstance(name, StringAttr) else ""
    if block is None and not text:
        return DEFAULT_CONFIG
    if text:
        return configured(text)
    size = cast("IntegerAttr", block).value.data if isinstance(block, IntegerAttr) else 0
    if size < 1 or size & (size - 1):
        raise _no_vta(f"expected option block to be a power of two, found {block}")
    return configured("", size)


def configured(name: str, block: int = 16) -> VTAConfig:
    """Gives the VTA configuration of this name or preset; without a name, the default with a GEMM
    unit of `block` by `block`, a power of two. Raises ByocirError B338.
    """
    try:
        return _named(name) if name else VTAConfig.of_block(block)
    except VTAError as error:
        expected = "a VTA" if name else "a block"
        raise _no_vta(
            f"expected {expected} that can be encoded, found {name or block}: expected "
            f"{error.expected}, found {error.found}"
        ) from None


def is_configured(name: str) -> bool:
    """Tells if a text is the name of a configuration or of a preset, and not a file."""
    return not name or name in PRESETS or VTAConfig.is_name(name)


def config_in(path: str) -> VTAConfig:
    """Reads a `vta_config.json`. Raises ByocirError B338."""
    try:
        config = VTAConfig.from_json(path)
    except VTAError as error:
        raise _no_vta(f"expected {error.expected}, found {error.found}", error.where) from None
    _check_widths(config, path)
    return config


def with_config_read(spec: ArgSpec) -> ArgSpec:
    """Replaces a `vta_config.json` that the option `config` names by the name of its configuration,
    for `Target.read_files`. Raises ByocirError B338.
    """
    given = spec.parameters.get("config", ())
    if len(given) != 1 or not isinstance(given[0], str) or is_configured(given[0]):
        return spec
    return ArgSpec(spec.name, {**spec.parameters, "config": (config_in(given[0]).name,)})


def _named(name: str) -> VTAConfig:
    config = PRESETS.get(name) or VTAConfig.from_name(name)
    if config is None:
        raise _no_vta(
            f"expected option config to be {', '.join(PRESETS)}, a name like "
            f"{DEFAULT_CONFIG.name} or a file vta_config.json, found {shown(name)}"
        )
    _check_widths(config)
    return config


def _check_widths(config: VTAConfig, where: str = "") -> None:
    if not computes(config):
        raise _no_vta(
            "expected a VTA of 8-bit inputs and weights and 32-bit accumulators, found "
            f"{config.name}",
            where,
        )


def _no_vta(message: str, where: str = "") -> ByocirError:
    return ByocirError("B338", message, where=where, help=f"{DEFAULT_CONFIG.name} is the default")
