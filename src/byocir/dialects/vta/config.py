"""Reads the configuration of the VTA that a function is for from the options of its target."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from byocir.dialects.byoc import TARGET, TargetAttr
from byocir.errors import ByocirError
from byocir.vta_sim import DEFAULT_CONFIG, VTAConfig, VTAError

VTA = "vta"
"""The machine of targets whose functions these passes lower."""


def target_of(op: Operation) -> TargetAttr | None:
    """The target of the nearest enclosing op (or of the op itself) that has one."""
    found: Operation | None = op
    while found is not None:
        target = found.attributes.get(TARGET)
        if isinstance(target, TargetAttr):
            return target
        found = found.parent_op()
    return None


def config_of(op: Operation) -> VTAConfig:
    """The configuration that the target of this op or of what encloses it asks for.

    The integer option `block` is the side of the GEMM unit; buffers grow and shrink with it, so
    that they hold as many elements as the default and every instruction field keeps its width.
    Without a target or the option it is the default. Raises ByocirError B338 for a block that no
    VTA has.
    """
    target = target_of(op)
    return DEFAULT_CONFIG if target is None else _config(target)


@lru_cache(maxsize=64)
def _config(target: TargetAttr) -> VTAConfig:
    block = target.options.data.get("block")
    if block is None:
        return DEFAULT_CONFIG
    size = cast("IntegerAttr", block).value.data if isinstance(block, IntegerAttr) else 0
    if size < 1 or size & (size - 1):
        raise ByocirError("B338", f"expected option block to be a power of two, found {block}")
    try:
        wider = size.bit_length() - 1 - DEFAULT_CONFIG.log_block
        return VTAConfig(
            log_block=DEFAULT_CONFIG.log_block + wider,
            log_inp_buff_size=DEFAULT_CONFIG.log_inp_buff_size + wider,
            log_wgt_buff_size=DEFAULT_CONFIG.log_wgt_buff_size + 2 * wider,
            log_acc_buff_size=DEFAULT_CONFIG.log_acc_buff_size + wider,
        )
    except VTAError as error:
        raise ByocirError(
            "B338",
            f"expected a block that VTA can encode, found {size}: "
            f"{error.expected} but {error.found}",
            help="use block=16",
        ) from None
