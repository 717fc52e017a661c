"""Defines the parameters of one VTA instance and everything derived from them.

Sources: tvm-vta ``config/vta_config.json`` (keys, defaults), ``config/pkg_config.py`` (OUT sizes,
config name) and ``include/vta/hw_spec.h`` (shapes, depths, bit-fields).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from byocir.files import read_whole
from byocir.vta_sim.errors import VTAError, shown
from byocir.vta_sim.isa_table import UOP_BITS, Memory, words_needed

TARGET, NAMES = "TARGET", ("TARGET", "HW_VER")
"""Keys that name a board and a bitstream; they may be absent."""
EVERYTHING, PUBLISHED = (True, True), (False, False)
TARGETS = {
    "sim": EVERYTHING,
    "intelfocl": EVERYTHING,
    "tsim": PUBLISHED,
    "pynq": PUBLISHED,
    "ultra96": PUBLISHED,
    "zcu104": PUBLISHED,
    "de10nano": PUBLISHED,
}
"""Tells of each of upstream's targets if it has MUL in its ALU, loads of accumulators from bytes.
The HLS design of the FPGAs and the Chisel one have neither."""
LANE_LOG_BITS = 5
"""The ALU of every implementation computes in 32 bits, so no lane is wider."""
FEATURES = ("alu_mul", "acc_8bit")
"""The fields that say what a machine has."""
LONGEST_NAME = 80
PAGE_BYTES = 4096
"""The driver's page; an element may not be larger (tvm ``vta/runtime/runtime.cc``)."""
SRAM_LOG_DEPTH = 16
"""The width of ``sram_base``: a deeper scratchpad could not be filled."""


_NAME = re.compile(
    r"(\d+)x(\d+)_i(\d+)w(\d+)a(\d+)_(\d+)_(\d+)_(\d+)_(\d+)(_nomul)?(_noacc8)?", re.ASCII
)


@dataclass(frozen=True)
class VTAConfig:
    """Holds the parameters of one VTA: log2 of widths (bits), of the GEMM shape (elements) and of
    the buffer sizes (bytes), and whether it has what not every VTA has: `alu_mul`, the ALU's
    product, and `acc_8bit`, loads of accumulators from bytes.

    The defaults are those of every upstream sample config: a 1x16x16 int8 GEMM unit. Raises
    VTAError V004 for a number that is none or out of range, for widths that do not go together,
    for elements or depths that the machine cannot address, and for an instruction or micro-op
    that does not fit its word.
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
    alu_mul: bool = True
    acc_8bit: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            value: object = getattr(self, field.name)
            if field.name in FEATURES:
                if not isinstance(value, bool):
                    key = field.name.upper()
                    raise VTAError("V004", f"{key} to be true or false", shown(value))
                continue
            top = LANE_LOG_BITS if field.name.endswith("_width") else 31
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= top:
                key = field.name.upper()
                raise VTAError("V004", f"{key} to be an integer in 0..{top}", shown(value))
        self._check_widths()
        self._check_memories()
        self._check_words()

    def _check_widths(self) -> None:
        for name, log in (("inputs", self.log_inp_width), ("weights", self.log_wgt_width)):
            if self.log_acc_width < log:
                expected = f"accumulators at least as wide as {name}"
                found = f"{1 << self.log_acc_width} and {1 << log} bits"
                raise VTAError("V004", expected, found)

    def _check_memories(self) -> None:
        for memory in Memory:
            bits = self._element_bits(memory)
            if not 8 <= bits <= 8 * PAGE_BYTES:
                expected = f"{memory.name} elements of 1..{PAGE_BYTES} bytes"
                raise VTAError("V004", expected, f"{bits} bits" if bits < 8 else f"{bits // 8}")
            log_depth = self._log_depth(memory)
            if log_depth < 0:
                expected = f"room for one {memory.name} element in its buffer"
                raise VTAError("V004", expected, f"{bits // 8} bytes per element")
            if log_depth > SRAM_LOG_DEPTH:
                expected = f"at most {1 << SRAM_LOG_DEPTH} {memory.name} elements"
                raise VTAError("V004", expected, f"2^{log_depth}")

    def _check_words(self) -> None:
        """Checks that an instruction is two 64-bit words and no field crosses; a micro-op is 32
        bits."""
        for what, bits, limit in words_needed(self):
            if bits > limit:
                raise VTAError("V004", f"{what} to fit {limit} bits", f"{bits} bits in {self.name}")

    @staticmethod
    def from_dict(values: Mapping[str, object]) -> VTAConfig:
        """Makes a configuration from keys of ``vta_config.json``. The nine ``LOG_`` keys must be
        there. TARGET, one of upstream's, says what the machine has, "sim" if it is missing; ALU_MUL
        and ACC_8BIT, true or false, override it. HW_VER is not used. Raises VTAError V004.
        """
        if not isinstance(values, Mapping):
            raise VTAError("V004", "an object with the keys of a config", type(values).__name__)
        known = {field.name.upper(): field.name for field in fields(VTAConfig)}
        unknown = sorted(_name(key) for key in values if key not in known and key not in NAMES)
        needed = (key for key, name in known.items() if name not in FEATURES)
        missing = sorted(key for key in needed if key not in values)
        if unknown or missing:
            found = [f"unknown {', '.join(unknown)}"] if unknown else []
            found += [f"missing {', '.join(missing)}"] if missing else []
            raise VTAError("V004", f"the keys {', '.join(known)}", "; ".join(found))
        for key in NAMES:
            if not isinstance(values.get(key, ""), str):
                raise VTAError("V004", f"{key} to be a string", shown(values[key]))
        has = dict(zip(FEATURES, _target(values.get(TARGET, "sim")), strict=True))
        given = {name: values[key] for key, name in known.items() if key in values}
        return VTAConfig(**cast("dict[str, Any]", {**has, **given}))

    @staticmethod
    def from_json(path: str | Path) -> VTAConfig:
        """Reads a ``vta_config.json``; raises VTAError V006 for a file that is no JSON object with
        each key once, and V004 for one that describes no VTA.
        """
        try:
            text = read_whole(path).decode()
        # ValueError: the path is not valid, or the file is no UTF-8 text.
        except (OSError, ValueError) as error:
            found = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise VTAError("V006", "a readable file of UTF-8 text", found, str(path)) from None
        try:
            return VTAConfig.from_dict(_parse(text))
        except VTAError as error:
            raise VTAError(error.code, error.expected, error.found, str(path)) from None

    @staticmethod
    def is_name(text: str) -> bool:
        """Tells if a text is formed like a `name`."""
        return len(text) <= LONGEST_NAME and _NAME.fullmatch(text) is not None

    @staticmethod
    def from_name(name: str) -> VTAConfig | None:
        """Makes the configuration that has this `name`; None for any other text. Raises VTAError
        V004 for numbers that describe no VTA.
        """
        found = _NAME.fullmatch(name)
        if found is None or not VTAConfig.is_name(name):
            return None
        shape, sizes = [int(n) for n in found.groups()[:5]], [int(n) for n in found.groups()[5:9]]
        if any(n < 1 or n & (n - 1) for n in shape):
            raise VTAError("V004", "powers of two for batch, block and widths", name)
        batch, block, *widths = [n.bit_length() - 1 for n in shape]
        numbers = [*widths, batch, block, *sizes, found[10] is None, found[11] is None]
        names = (field.name for field in fields(VTAConfig))
        return VTAConfig(**cast("dict[str, Any]", dict(zip(names, numbers, strict=True))))

    @staticmethod
    def read(text: str) -> VTAConfig:
        """Reads the configuration that a user asks for: a preset, a `name` or a
        ``vta_config.json``. Raises VTAError V004 and V006."""
        return PRESETS.get(text) or VTAConfig.from_name(text) or VTAConfig.from_json(text)

    @staticmethod
    def of_block(size: int) -> VTAConfig:
        """Makes the default configuration with a GEMM unit of another side, a power of two. Buffers
        grow and shrink with it, so that they hold as many elements and each field keeps its width.
        """
        wider, plain = size.bit_length() - 1 - DEFAULT_CONFIG.log_block, DEFAULT_CONFIG
        return VTAConfig(
            log_block=plain.log_block + wider,
            log_inp_buff_size=plain.log_inp_buff_size + wider,
            log_wgt_buff_size=plain.log_wgt_buff_size + 2 * wider,
            log_acc_buff_size=plain.log_acc_buff_size + wider,
        )

    def to_dict(self) -> dict[str, int]:
        """Gives the nine ``LOG_`` keys, ALU_MUL and ACC_8BIT; ``from_dict`` reads them."""
        return {field.name.upper(): getattr(self, field.name) for field in fields(self)}

    def expect(self, made_for: VTAConfig, what: str, where: str = "") -> None:
        """Raises VTAError V208 for something that was made for another machine than this one."""
        if made_for != self:
            expected, found = f"{what} for {self.name}", f"one for {made_for.name}"
            raise VTAError("V208", expected, found, where)

    @property
    def name(self) -> str:
        """Gives upstream's configuration string, e.g. ``1x16_i8w8a32_15_15_18_17``, with ``_nomul``
        or ``_noacc8`` behind it for what the machine lacks.
        """
        widths = f"i{1 << self.log_inp_width}w{1 << self.log_wgt_width}a{1 << self.log_acc_width}"
        sizes = (
            self.log_uop_buff_size,
            self.log_inp_buff_size,
            self.log_wgt_buff_size,
            self.log_acc_buff_size,
        )
        lacks = "_nomul" * (not self.alu_mul) + "_noacc8" * (not self.acc_8bit)
        return f"{self.batch}x{self.block_in}_{widths}_" + "_".join(map(str, sizes)) + lacks

    @property
    def batch(self) -> int:
        """Counts the rows of one INP, ACC or OUT element."""
        return 1 << self.log_batch

    @property
    def block_in(self) -> int:
        """Counts the columns of an INP element: the input channels of one micro-op."""
        return 1 << self.log_block

    @property
    def block_out(self) -> int:
        """Counts the columns of an ACC or OUT element: the output channels of one micro-op."""
        return 1 << self.log_block

    @property
    def device_numbers(self) -> tuple[int, ...]:
        """Gives the numbers that the C core takes as ``vta_config``: log2 of batch, block and the
        depths of UOP, INP, WGT and ACC, and 0 or 1 for each of `FEATURES`.
        """
        depths = (self.log_depth(m) for m in (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC))
        return self.log_batch, self.log_block, *depths, int(self.alu_mul), int(self.acc_8bit)

    def element_bytes(self, memory: Memory) -> int:
        """Gives the bytes of one element in DRAM; ACC_8BIT elements are the narrow form of ACC."""
        return self._element_bytes[memory]

    def log_depth(self, memory: Memory) -> int:
        """Gives log2 of the number of elements of a memory; ACC_8BIT and OUT share the depth of
        ACC.
        """
        return self._log_depths[memory]

    def depth(self, memory: Memory) -> int:
        """Gives the number of elements of a scratchpad."""
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
            Memory.UOP: UOP_BITS.bit_length() - 1,
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


def _target(name: object) -> tuple[bool, bool]:
    """Tells if one of upstream's targets has MUL, and if it has byte loads; raises VTAError
    V004.
    """
    if name not in TARGETS:
        raise VTAError("V004", f"TARGET to be one of {', '.join(TARGETS)}", shown(name))
    return TARGETS[str(name)]


def _parse(text: str) -> Mapping[str, object]:
    """Parses a JSON object as a mapping; raises VTAError V006."""
    try:
        data: object = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise VTAError("V006", "a flat JSON object", "one nested too deeply") from None
    except ValueError as error:  # malformed, or a number with thousands of digits
        raise VTAError("V006", "a JSON object", str(error)) from None
    if not isinstance(data, dict):
        raise VTAError("V006", "a JSON object", shown(data))
    return cast("Mapping[str, object]", data)


def _name(key: object) -> str:
    """Writes a key for a message, quoted unless it looks like a name."""
    return key if isinstance(key, str) and key.isidentifier() and key.isascii() else shown(key)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    twice = sorted({_name(name) for name in names if names.count(name) > 1})
    if twice:
        raise VTAError("V006", "each key once", f"{', '.join(twice)} again")
    return dict(pairs)


DEFAULT_CONFIG = VTAConfig()
PRESETS = {name: VTAConfig(alu_mul=mul, acc_8bit=acc) for name, (mul, acc) in TARGETS.items()}
"""The sample configuration of each of upstream's targets: they differ in what they have."""


def computes(config: VTAConfig) -> bool:
    """Tells if the engines compute with numbers of these widths."""
    return (config.log_inp_width, config.log_wgt_width, config.log_acc_width) == (3, 3, 5)
