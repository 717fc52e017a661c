"""What the sanitizer reports, case by case."""

from __future__ import annotations

import numpy as np
import pytest

from byocir.vta_sim import (
    DEFAULT_CONFIG,
    HAZARDS,
    Hazard,
    VTAConfig,
    VTAError,
    assemble,
    encode_uops,
    run_in_order,
    sanitize,
    simulate,
)


def image(size: int = 1 << 14, dst: object = 0, src: object = 0, wgt: object = 0) -> np.ndarray:
    """Zeros, with micro-ops at address 0."""
    dram = np.zeros(size, np.uint8)
    words = encode_uops(dst, src, wgt).reshape(-1).view(np.uint8)  # type: ignore[arg-type]
    dram[: words.size] = words
    return dram


def found(text: str, dram: np.ndarray | None = None) -> list[Hazard]:
    return sanitize(assemble(text), image() if dram is None else dram)


def brief(hazards: list[Hazard]) -> list[tuple[object, ...]]:
    return [
        (h.code, *(p.index if p else None for p in (h.first, h.second)), h.memory, h.range)
        for h in hazards
    ]


START = "load.uop y=1 x=1\nload.acc y=1 x=4\n"


def test_a_read_after_a_write() -> None:
    text = START + "load.inp y=1 x=1\nload.wgt y=1 x=1 {push_next}\n"
    gemm = "gemm uop=0,1 out=1 in=1"
    assert brief(found(f"{text}{gemm} {{pop_prev}}\nfinish")) == []
    (inp, wgt) = found(f"{text}{gemm}\nload.uop {{pop_prev}}\nfinish")
    assert brief([inp, wgt]) == [("S201", 2, 4, "INP", (0, 1)), ("S201", 3, 4, "WGT", (0, 1))]
    assert inp.kind == "read-after-write"
    assert str(inp) == (
        "[S201] read-after-write: expected compute to wait for load, found no order between load, "
        "which writes INP elements 0..1, and compute, which reads them\n"
        "  at instruction 2: load.inp y=1 x=1\n"
        "  at instruction 4: gemm uop=0,1 out=1 in=1"
    )


def test_a_write_after_a_read() -> None:
    text = START + "load.inp y=1 x=4 {push_next}\nload.wgt y=1 x=1 {push_next}\n"
    text += "load.uop {pop_prev}\ngemm uop=0,1 out=1 in=2 src=0,2 {pop_prev%s}\n"
    text += "load.inp y=1 x=4 {%spush_next}\nfinish {pop_prev}"
    assert found(text % (",push_prev", "pop_next,")) == []
    assert brief(found(text % ("", ""))) == [("S202", 5, 6, "INP", (0, 3))]


def test_only_touched_elements_count() -> None:
    """The nest reads elements 0 and 2: writing 1 and 3 needs no order."""
    text = START + "load.inp y=1 x=4 {push_next}\nload.wgt y=1 x=1 {push_next}\n"
    text += "load.uop {pop_prev}\ngemm uop=0,1 out=1 in=2 src=0,2 {pop_prev}\n"
    text += "load.inp sram=1 y=1 x=1\nload.inp sram=3 y=1 x=1 {push_next}\nfinish {pop_prev}"
    assert found(text) == []


def test_store_and_compute_share_accumulators() -> None:
    text = START + "gemm.reset uop=0,1 out=1 in=4 dst=0,1 %s\n"
    text += "store.out dram=0x80 y=1 x=4 %s\nalu.max.imm uop=0,1 out=1 in=1 %s\nfinish %s"
    right = ("{push_next}", "{pop_prev,push_prev}", "{pop_next}", "")
    assert found(text % right) == []
    no_wait = ("", "{push_prev}", "{pop_next}", "")
    assert brief(found(text % no_wait)) == [("S201", 2, 3, "ACC", (0, 4))]
    overtaken = ("{push_next}", "{pop_prev,push_prev}", "", "{pop_next}")
    assert brief(found(text % overtaken)) == [("S202", 3, 4, "ACC", (0, 1))]


def test_loads_of_what_is_being_stored() -> None:
    """Bytes 0x800 to 0x840 are stored, and loaded by rows that leave gaps."""
    text = START + "load.uop {push_next}\nstore.out dram=0x80 y=1 x=4 {pop_prev,push_prev}\n"
    text += "load.inp dram=0x7f y=2 x=2 stride=3 {%spush_next}\nfinish {pop_prev%s}"
    assert brief(found(text % ("", ",pop_next"))) == [("S203", 3, 4, "DRAM", (0x800, 0x840))]
    ordered = text.replace("finish", "load.uop {pop_next,push_prev}\nfinish")
    assert found(ordered % ("pop_next,", "")) == []
    apart = text.replace("dram=0x7f y=2 x=2 stride=3", "dram=0x7e y=2 x=2 stride=6")
    assert found(apart % ("", ",pop_next")) == []


def test_reads_of_what_was_never_written() -> None:
    text = "load.uop y=1 x=1\nload.acc y=1 x=2\nalu.add uop=0,1 out=1 in=3 dst=0,1 src=0,1\nfinish"
    (hazard,) = found(text)
    assert brief([hazard]) == [("S204", 2, None, "ACC", (2, 3))]
    assert hazard.message.endswith("found 1 unwritten, element 2 first")
    assert brief(found("alu.add uop=3,5 out=1 in=1\nfinish"))[0] == ("S204", 0, None, "UOP", (3, 5))
    stores = "store.out dram=0x40 y=1 x=2 {push_prev}\nfinish {pop_next}"
    assert brief(found(stores)) == [("S205", 0, None, "ACC", (0, 2))]


def test_a_reset_writes_and_reads_nothing_but_micro_ops() -> None:
    assert found("load.uop y=1 x=1\ngemm.reset uop=0,1 out=1 in=1\nfinish") == []


def test_an_immediate_has_no_source() -> None:
    text = "load.uop y=1 x=1\nload.acc y=1 x=1\nalu.add.imm uop=0,1 out=1 in=1 imm=1\nfinish"
    assert found(text, image(src=9)) == []
    assert brief(found(text.replace(".imm", "").replace(" imm=1", ""), image(src=9)))[0][:4] == (
        "S204", 2, None, "ACC",
    )  # fmt: skip


def test_leaks_name_the_pushes_that_are_left() -> None:
    hazards = found("load.inp {push_next}\nload.inp {push_next}\nfinish {pop_prev}")
    assert brief(hazards) == [
        ("S206", 1, None, "load->compute", None),
        ("S210", 1, 2, "", None),
    ]
    assert hazards[0].message == (
        "expected every token of load->compute popped, "
        "found 2 pushes and 1 pops, none for this push"
    )


def test_deadlocks_name_the_heads_and_what_they_wait_for() -> None:
    hazards = found("load.inp {pop_next,push_next}\nload.uop {pop_prev,push_prev}\nfinish")
    assert brief(hazards) == [
        ("S207", 0, 1, "compute->load", None),
        ("S207", 0, 1, "load->compute", None),
    ]
    assert brief(found("store.uop {pop_prev}\nfinish")) == [
        ("S207", 0, None, "compute->store", None)
    ]


def test_transfers_that_leave_the_image() -> None:
    text = "load.inp dram=0x3ff y=1 x=2 {push_next}\nfinish {pop_prev}"
    assert brief(found(text)) == [("S208", 0, None, "DRAM", (0x3FF0, 0x4010))]
    assert found(text.replace("0x3ff", "0x3fe")) == []


def test_a_load_that_leaves_the_image_still_loads_what_is_in_it() -> None:
    """The last word names accumulator 3; no finding but the range follows from the rest."""
    dram = image(1 << 12)
    dram[-4:] = image(4, dst=3)
    text = "load.uop dram=0x3ff y=1 x=2\nload.acc y=1 x=3\n"
    text += "alu.add.imm uop=0,1 out=1 in=1\nfinish"
    assert brief(found(text, dram)) == [
        ("S208", 0, None, "DRAM", (0xFFC, 0x1004)),
        ("S204", 2, None, "ACC", (3, 4)),
    ]
    assert brief(found(text.replace("x=3", "x=4"), dram)) == [
        ("S208", 0, None, "DRAM", (0xFFC, 0x1004))
    ]
    assert found("load.uop y=1 x=1\nfinish", dram[::2]) == []


def test_elements_past_the_end_of_a_scratchpad() -> None:
    def ranges(text: str, dram: np.ndarray | None = None) -> list[tuple[object, ...]]:
        return [row for row in brief(found(text, dram)) if row[0] == "S209"]

    assert ranges("load.acc sram=2047 y=1 x=2\nfinish") == [("S209", 0, None, "ACC", (2047, 2049))]
    assert ranges("store.out sram=2047 y=1 x=2 {push_prev}\nfinish {pop_next}") == [
        ("S209", 0, None, "ACC", (2047, 2049))
    ]
    assert ranges("gemm uop=8191,8193 out=1 in=1\nfinish") == [
        ("S209", 0, None, "UOP", (8191, 8193))
    ]
    nest = "load.uop y=1 x=2\nalu.add.imm uop=0,2 out=3 in=2 src=900,300\nfinish"
    assert ranges(nest) == [("S209", 1, None, "ACC", (0, 2101))]
    assert ranges(nest.replace("900", "800"), image(src=[0, 200])) == [
        ("S209", 1, None, "ACC", (0, 2101))
    ]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [("S210", None, None, "", None)]),
        ("load.uop", [("S210", 0, None, "", None)]),
        ("finish\nload.uop", [("S210", 0, 1, "", None)]),
        ("load.inp\nfinish", [("S210", 0, 1, "", None)]),
        ("finish\nstore.uop", [("S210", 0, 1, "", None)]),
        ("finish {pop_next}\nstore.uop {push_prev}", []),
    ],
)
def test_finish_comes_after_everything(text: str, rows: list[tuple[object, ...]]) -> None:
    assert brief(found(text)) == rows


def test_micro_ops_that_the_stream_itself_stores() -> None:
    """The second LOAD UOP takes a word that a store wrote: the GEMM after it touches accumulator 5
    where the image says 0; fields above the low byte of each lane cannot be made by a store."""
    dram = image()
    dram[64 * 16 : 64 * 16 + 4] = np.array([5], "<i4").view(np.uint8)
    text = """
    load.uop y=1 x=1
    load.acc dram=0x10 y=1 x=4 {push_next}
    store.out dram=0x100 y=1 x=1 {pop_prev,push_prev}
    load.uop dram=0x400 y=1 x=1 {pop_next}
    alu.add.imm uop=0,1 out=1 in=1 {push_next}
    store.out sram=0 dram=0x200 y=1 x=4 {pop_prev,push_prev}
    finish {pop_next}
    """
    assert run_in_order(assemble(text), dram)[0x1000] == 5
    assert brief(found(text, dram)) == [("S204", 4, None, "ACC", (5, 6))]
    assert found(text.replace("x=4", "x=6"), dram) == []


def test_locations_are_named() -> None:
    text = START + "load.inp y=1 x=1\nload.wgt y=1 x=1 {push_next}\n"
    text += "gemm uop=0,1 out=1 in=1\nfinish {pop_prev}"
    names = ["", "", "conv_1, tile 0 3", "conv_1", "conv_2", ""]
    (first, _) = sanitize(assemble(text), image(), locations=names)
    assert [p.location for p in (first.first, first.second) if p] == ["conv_1, tile 0 3", "conv_2"]
    assert "instruction 2: load.inp y=1 x=1 (conv_1, tile 0 3)" in str(first)
    with pytest.raises(VTAError, match=r"V005.*each of 6 instructions, found 1 locations"):
        sanitize(assemble(text), image(), locations=["conv"])


def test_check_raises_the_first_finding_and_counts_the_rest() -> None:
    text = START + "load.inp y=1 x=4\nload.wgt y=1 x=1 {push_next}\n"
    text += "gemm uop=0,1 out=1 in=1\n" * 4 + "finish {pop_prev}"
    with pytest.raises(VTAError) as caught:
        simulate(assemble(text), image(), check=True)
    assert str(caught.value) == (
        "error[S201]: expected compute to wait for load, found no order between load, which writes "
        "INP elements 0..1, and compute, which reads them\n"
        "  at    instruction 2: load.inp y=1 x=4\n"
        "  and   instruction 4: gemm uop=0,1 out=1 in=1\n"
        "  also  [S201] read-after-write: WGT, instructions 3 and 4\n"
        "  also  [S201] read-after-write: INP, instructions 2 and 5\n"
        "  also  5 more\n"
        f"  help  {HAZARDS['S201'].help}"
    )
    assert simulate(assemble(text), image()).counters.gemm_counter == 4


def test_arguments_are_checked_as_by_simulate() -> None:
    with pytest.raises(VTAError, match="V001"):
        sanitize(np.zeros((1, 8), np.uint8), image())
    with pytest.raises(VTAError, match="V002"):
        sanitize(assemble("finish"), np.zeros(4, np.int8))
    with pytest.raises(VTAError, match="V103"):
        found("load.out\nfinish")


def test_widths_that_no_engine_computes() -> None:
    config = VTAConfig(log_inp_width=4, log_inp_buff_size=16)
    stream = assemble("load.inp y=1 x=1 {push_next}\nfinish {pop_prev}", config)
    assert sanitize(stream, np.zeros(64, np.uint8), config) == []
    assert config.batch == DEFAULT_CONFIG.batch
