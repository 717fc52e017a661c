"""The table of codes: every one is met by an example here, and the page in docs/ lists it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from byocir.vta_sim import (
    TimingModel,
    VTAConfig,
    VTAError,
    assemble,
    decode,
    disassemble,
    encode,
    estimate,
    run_in_order,
    simulate,
)
from byocir.vta_sim.errors import CODES, shown

PAGE = Path(__file__).parents[2] / "docs" / "vta-isa.md"
DRAM = np.zeros(4096, np.uint8)


def refused(text: str, *, check: bool = False) -> Callable[[], object]:
    """Running a program."""
    return lambda: simulate(assemble(text), DRAM, check=check)


LOAD_UOP = "load.uop y=1 x=1\n"
LOAD_ACC = "load.acc dram=0x1 y=1 x=1\n"

EXAMPLES: dict[str, Callable[[], object]] = {
    "V001": lambda: decode(np.zeros((1, 16), np.int8)),
    "V002": lambda: simulate(assemble("finish"), np.zeros(16)),
    "V003": lambda: simulate(assemble("finish"), DRAM, engine="fast"),
    "V004": lambda: VTAConfig(log_block=40),
    "V005": lambda: disassemble(assemble("finish"), locations=[]),
    "V006": lambda: VTAConfig.from_json("no/such/file.json"),
    "V009": lambda: TimingModel(bus_bytes=0),
    "V101": lambda: decode(np.zeros(17, np.uint8)),
    "V102": lambda: decode(np.full(16, 5, np.uint8)),
    "V103": refused("load.out y=1 x=1\nfinish"),
    "V104": refused("alu.op5\nfinish"),
    "V105": refused("store.out y=1 x=1 pad=1,0,0,0\nfinish"),
    "V106": refused("load.inp {pop_prev}\nfinish"),
    "V107": lambda: encode("load", x_size=1 << 16),
    "V108": lambda: assemble("jump"),
    "V201": refused("load.acc sram=2047 dram=0x1 y=1 x=2\nfinish"),
    "V202": refused("load.acc dram=0x40 y=1 x=1\nfinish"),
    "V203": refused("gemm.reset uop=8191,8193 out=1 in=1\nfinish"),
    "V204": refused(LOAD_UOP + "gemm.reset uop=0,1 out=2 in=2 dst=2000,2000\nfinish"),
    "V205": lambda: run_in_order(assemble("gemm.reset uop=0,1 out=1 in=1"), DRAM, check=True),
    "V206": refused(
        LOAD_UOP + LOAD_ACC + "alu.shr.imm uop=0,1 out=1 in=1 imm=32\nfinish", check=True
    ),
    "V207": lambda: simulate(
        assemble("finish"), DRAM, VTAConfig(log_inp_width=4, log_inp_buff_size=16)
    ),
    "V208": lambda: VTAConfig().expect(VTAConfig(log_batch=1), "a program"),
    "V301": refused("load.uop {pop_prev}\nfinish"),
    "V302": refused("load.inp {push_next}\nfinish"),
    "V303": refused("load.uop"),
    "V304": refused("finish\nload.uop"),
    "V305": refused("load.inp\nfinish"),
    "V306": lambda: estimate(
        assemble(
            "load.inp\nload.inp {pop_next}\nload.inp\nload.inp {push_next}\nload.uop {push_prev}\n"
            "finish {pop_prev}"
        ),
        model=TimingModel(command_queue=1),
    ),
}


def test_every_code_has_an_example() -> None:
    assert list(EXAMPLES) == [code for code in CODES if code.startswith("V")]


@pytest.mark.parametrize("code", list(EXAMPLES))
def test_the_example_raises_its_code(code: str) -> None:
    with pytest.raises(VTAError) as caught:
        EXAMPLES[code]()
    assert caught.value.code == code
    first, *rest = str(caught.value).splitlines()
    assert first == f"error[{code}]: expected {caught.value.expected}, found {caught.value.found}"
    assert rest[-1] == f"  help  {CODES[code].help}"
    assert caught.value.found


def test_the_page_lists_every_code() -> None:
    page = PAGE.read_text()
    for code, entry in CODES.items():
        assert f"`{code}`" in page
        assert entry.meaning in page
        assert not entry.meaning.endswith(".")


def test_values_are_shown_in_one_short_line() -> None:
    assert shown("a\nb") == "'a\\nb'"
    assert shown(True) == "True"
    assert shown("x" * 99) == "'" + "x" * 39 + "…"
    assert shown(10**5000) == "a very large int"
