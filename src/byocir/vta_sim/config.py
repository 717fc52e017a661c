"""Parameters of one VTA instance and everything derived from them.

Sources: tvm-vta ``config/vta_config.json`` (keys, defaults), ``config/pkg_config.py`` (OUT sizes,
config name) and ``include/vta/hw_spec.h`` (memory ids, shapes, depths).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property

from byocir.vta_sim.errors import VTAError

UOP_BITS = 32
IGNORED_KEYS = frozenset({"TARGET", "HW_VER"})


class Memory(IntEnum):
    """Memory ids of LOAD and STORE (hw_spec.h ``VTA_MEM_ID_*``)."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5


@dataclass(frozen=True)
class VTAConfig:
    """Log2 of widths (bits), of the GEMM shape (elements) and of the buffer sizes (bytes).

    The defaults are those of every upstream sample config: a 1x16x16 int8 GEMM unit. Raises
    VTAError V004 if the derived instruction or micro-op encoding does not fit its word.
    """

    log_inp_width: int = 3
    log_wgt_width: int = 3
    log_acc_width: int = 5
    log_batch: int = 0
    log_block: int = 4
    log_uop_buff_size: int = 15
    log_inp_buff_size: int = 15
    log_wgt_buff_size: int = 18
    log_acc_buff_size: int = 17

    def __post_init__(self) -> None:
        for field in fields(self):
            value: object = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 31:
                key = field.name.upper()
                raise VTAError("V004", f"{key} to be an integer in 0..31", repr(value))
        if self.log_acc_width < self.log_inp_width:
            raise VTAError(
                "V004",
                "accumulators at least as wide as inputs",
                f"{1 << self.log_acc_width} and {1 << self.log_inp_width} bits",
            )
        self._check_memories()
        self._check_words()

    def _check_memories(self) -> None:
        for memory in Memory:
            if self._element_bits(memory) < 8:
                raise VTAError(
                    "V004",
                    f"{memory.name} elements of at least one byte",
                    f"{self._element_bits(memory)} bits",
                )
            if self._log_depth(memory) < 0:
                raise VTAError(
                    "V004",
                    f"room for one {memory.name} element in its buffer",
                    f"{self.element_bytes(memory)} bytes per element",
                )

    def _check_words(self) -> None:
        """An instruction is two 64-bit words and no field crosses; a micro-op is 32 bits."""
        uop, acc = self.log_depth(Memory.UOP), self.log_depth(Memory.ACC)
        inp, wgt = self.log_depth(Memory.INP), self.log_depth(Memory.WGT)
        needs = (
            ("GEMM and ALU word 0", 7 + 1 + uop + (uop + 1) + 2 * 14, 64),
            ("GEMM word 1", 2 * (acc + inp + wgt), 64),
            ("ALU word 1", 4 * acc + 3 + 1 + 16, 64),
            ("a micro-op", acc + max(acc, inp) + wgt, UOP_BITS),
        )
        for what, bits, limit in needs:
            if bits > limit:
                raise VTAError("V004", f"{what} to fit {limit} bits", f"{bits} bits in {self.name}")

    @staticmethod
    def from_dict(values: Mapping[str, object]) -> VTAConfig:
        """Build from the keys of ``vta_config.json``; TARGET and HW_VER may be there, unused."""
        known = {field.name.upper(): field.name for field in fields(VTAConfig)}
        unknown = sorted(set(values) - set(known) - IGNORED_KEYS)
        missing = sorted(set(known) - set(values))
        if unknown or missing:
            found = [f"unknown {', '.join(unknown)}"] if unknown else []
            found += [f"missing {', '.join(missing)}"] if missing else []
            raise VTAError("V004", f"the keys {', '.join(known)}", "; ".join(found))
        checked: dict[str, int] = {}
        for key, name in known.items():
            value = values[key]
            if not isinstance(value, int):
                raise VTAError("V004", f"{key} to be an integer in 0..31", repr(value))
            checked[name] = value
        return VTAConfig(**checked)

    def to_dict(self) -> dict[str, int]:
        """The nine ``LOG_`` keys; ``from_dict`` reads them."""
        return {field.name.upper(): getattr(self, field.name) for field in fields(self)}

    @property
    def name(self) -> str:
        """Upstream's configuration string, e.g. ``1x16_i8w8a32_15_15_18_17``."""
        widths = f"i{1 << self.log_inp_width}w{1 << self.log_wgt_width}a{1 << self.log_acc_width}"
        sizes = (
            self.log_uop_buff_size,
            self.log_inp_buff_size,
            self.log_wgt_buff_size,
            self.log_acc_buff_size,
        )
        return f"{self.batch}x{self.block_in}_{widths}_" + "_".join(map(str, sizes))

    @property
    def batch(self) -> int:
        """Rows of one INP, ACC or OUT element."""
        return 1 << self.log_batch

    @property
    def block_in(self) -> int:
        """Columns of an INP element: the input channels of one micro-op."""
        return 1 << self.log_block

    @property
    def block_out(self) -> int:
        """Columns of an ACC or OUT element: the output channels of one micro-op."""
        return 1 << self.log_block

    def element_bytes(self, memory: Memory) -> int:
        """Bytes of one element in DRAM; ACC_8BIT elements are the narrow form of ACC."""
        return self._element_bytes[memory]

    def log_depth(self, memory: Memory) -> int:
        """Log2 of the number of elements; ACC_8BIT and OUT share the depth of ACC."""
        return self._log_depths[memory]

    def depth(self, memory: Memory) -> int:
        """Number of elements of a scratchpad."""
        return 1 << self._log_depths[memory]

    @cached_property
    def _element_bytes(self) -> tuple[int, ...]:
        return tuple(self._element_bits(memory) // 8 for memory in Memory)

    @cached_property
    def _log_depths(self) -> tuple[int, ...]:
        return tuple(self._log_depth(memory) for memory in Memory)

    def _element_bits(self, memory: Memory) -> int:
        tile = self.log_batch + self.log_block
        logs = {
            Memory.UOP: 5,
            Memory.WGT: 2 * self.log_block + self.log_wgt_width,
            Memory.INP: tile + self.log_inp_width,
            Memory.ACC: tile + self.log_acc_width,
            Memory.OUT: tile + self.log_inp_width,
            Memory.ACC_8BIT: tile + self.log_inp_width,
        }
        return 1 << logs[memory]

    def _log_depth(self, memory: Memory) -> int:
        sizes = {
            Memory.UOP: self.log_uop_buff_size,
            Memory.WGT: self.log_wgt_buff_size,
            Memory.INP: self.log_inp_buff_size,
        }
        shared = memory if memory in sizes else Memory.ACC
        bits = self._element_bits(shared)
        return sizes.get(shared, self.log_acc_buff_size) + 3 - (bits.bit_length() - 1)


DEFAULT_CONFIG = VTAConfig()
