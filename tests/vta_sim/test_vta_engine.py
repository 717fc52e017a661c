"""One instruction at a time: every rule of the semantics, on values small enough to read."""

from __future__ import annotations

import numpy as np
import pytest
from vta_engines import NewMachine, machine_type

from byocir.vta_sim import Machine, VTAError, assemble, encode_uops


@pytest.fixture(params=["numpy", "native"])
def machine(request: pytest.FixtureRequest) -> NewMachine:
    """Makes a machine of each engine with 4096 bytes of DRAM."""
    made = machine_type(request.param)
    dram = (np.arange(4096) * 7 % 251).astype(np.uint8)
    return lambda check=False: made(np.zeros_like(dram) if check else dram, check=check)


def run(m: Machine, text: str) -> Machine:
    m.run_in_order(assemble(text))
    return m


def elements(m: Machine, base: int) -> np.ndarray:
    """INP-sized element ``base`` of the image as float32 [1, 16]."""
    return m.dram[base * 16 : base * 16 + 16].view(np.int8).astype(np.float32)[None]


def test_load_pads_on_all_sides_and_is_dense(machine: NewMachine) -> None:
    m = machine()
    m.inp[:] = 9
    run(m, "load.inp sram=0x2 dram=0x3 y=2 x=3 stride=10 pad=1,2,1,3")
    image = m.inp[2 : 2 + 5 * 7].reshape(5, 7, 1, 16)
    for y in range(2):
        for x in range(3):
            assert np.array_equal(image[1 + y, 1 + x], elements(m, 3 + 10 * y + x))
    image[1:3, 1:4] = 0
    assert not image.any()
    assert (m.inp[:2] == 9).all()
    assert (m.inp[37:] == 9).all()


def test_load_without_columns_does_nothing_and_without_rows_pads(machine: NewMachine) -> None:
    m = machine()
    m.inp[:] = 9
    run(m, "load.inp dram=0xffffffff y=4 pad=1,1,1,1")
    assert (m.inp == 9).all()
    run(m, "load.inp dram=0xffffffff x=2 pad=1,1,0,1")
    assert not m.inp[:6].any()
    assert (m.inp[6:] == 9).all()


def test_load_repeats_rows_with_stride_zero(machine: NewMachine) -> None:
    m = run(machine(), "load.inp dram=0x5 y=3 x=1")
    assert all(np.array_equal(m.inp[row], elements(m, 5)) for row in range(3))


def test_load_narrow_accumulators_extends_the_sign(machine: NewMachine) -> None:
    m = run(machine(), "load.acc_8bit sram=0x1 dram=0x2 y=2 x=1 stride=3 pad=0,0,0,1")
    assert np.array_equal(m.acc[1], elements(m, 2))
    assert np.array_equal(m.acc[3], elements(m, 5))
    assert m.acc[1].min() < 0
    assert not m.acc[2].any()


def test_load_accumulators_weights_and_micro_ops(machine: NewMachine) -> None:
    m = run(
        machine(), "load.acc dram=0x1 y=1 x=1\nload.wgt dram=0x2 y=1 x=1\nload.uop dram=0x3 y=1 x=2"
    )
    assert m.acc[0].tobytes() == m.dram[64:128].tobytes()
    assert np.array_equal(m.wgt[0].T, m.dram[512:768].view(np.int8).reshape(16, 16))
    assert m.uop[:2].tobytes() == m.dram[12:20].tobytes()


def test_store_truncates_and_strides(machine: NewMachine) -> None:
    m = machine()
    m.acc[4:8] = np.array([300, -129, 128, -1]).reshape(4, 1, 1)
    before = m.dram.copy()
    run(m, "store.out sram=0x4 dram=0x8 y=2 x=2 stride=5")
    before[8 * 16 : 10 * 16] = np.repeat([44, 127], 16)
    before[13 * 16 : 15 * 16] = np.repeat([128, 255], 16)
    assert np.array_equal(m.dram, before)


def test_store_with_overlapping_rows_keeps_the_last(machine: NewMachine) -> None:
    m = machine()
    m.acc[:6] = np.arange(6).reshape(6, 1, 1)
    run(m, "store.out y=3 x=2 stride=1")
    assert m.dram[:64:16].tolist() == [0, 2, 4, 5]


def test_gemm_transposes_weights_and_wraps(machine: NewMachine) -> None:
    m = machine()
    rng = np.random.default_rng(1)
    inp, wgt = rng.integers(-128, 128, (1, 16)), rng.integers(-128, 128, (16, 16))
    m.inp[3], m.wgt[2] = inp, wgt.T
    m.uop[0] = encode_uops(1, 3, 2)
    m.acc[1] = 2**31 - 1
    run(m, "gemm uop=0,1 out=1 in=1")
    assert np.array_equal(m.acc[1], (2**31 - 1 + inp @ wgt.T).astype(np.int32))
    run(m, "gemm.reset uop=0,1 out=1 in=1")
    assert not m.acc.any()


def test_gemm_reset_ignores_other_indices(machine: NewMachine) -> None:
    m = machine()
    m.acc[:] = 1
    m.uop[0] = encode_uops(0, 2047, 1023)
    run(m, "gemm.reset uop=0,1 out=3 in=2 dst=4,1 src=99,99 wgt=99,99")
    assert np.flatnonzero(m.acc[:, 0, 0] == 0).tolist() == [0, 1, 4, 5, 8, 9]


@pytest.mark.parametrize("loops", ["uop=0,0 out=1 in=1", "uop=3,1 out=1 in=1", "uop=0,1 in=5"])
def test_empty_nests_do_nothing(machine: NewMachine, loops: str) -> None:
    m = machine()
    m.acc[:] = 1
    run(m, f"gemm.reset {loops}\nalu.add.imm {loops} imm=3")
    assert (m.acc == 1).all()


LARGE = 2**31 - 1


@pytest.mark.parametrize(
    ("operation", "x", "y", "expected"),
    [
        ("min", -5, 3, -5),
        ("max", -5, 3, 3),
        ("add", LARGE, 1, -(2**31)),
        ("shr", -5, 1, -3),
        ("shr", 5, 31, 0),
        ("shr", LARGE, -1, -2),
        ("shr", 3, -31, -(2**31)),
        ("shr", -5, 40, -1),
        ("shr", -5, -40, 0),
        ("mul", 1 << 20, 1 << 12, 0),
        ("mul", -7, 3, -21),
    ],
)
def test_alu_operations_in_both_forms(
    machine: NewMachine, operation: str, x: int, y: int, expected: int
) -> None:
    m = machine()
    m.uop[0] = encode_uops(0, 1)
    m.acc[0], m.acc[1] = x, y
    run(m, f"alu.{operation} uop=0,1 out=1 in=1")
    assert (m.acc[0] == expected).all()
    if -(1 << 15) <= y < 1 << 15:
        m.acc[0] = x
        run(m, f"alu.{operation}.imm uop=0,1 out=1 in=1 imm={y}")
        assert (m.acc[0] == expected).all()
    assert (m.acc[1] == y).all()


def test_register_shifts_of_any_distance(machine: NewMachine) -> None:
    m = machine()
    m.uop[0] = encode_uops(0, 1)
    m.acc[0], m.acc[1] = -8, 0
    m.acc[1, 0, :6] = [2**31 - 1, -(2**31), 32, -32, 1, -1]
    run(m, "alu.shr uop=0,1 out=1 in=1")
    assert m.acc[0, 0, :7].tolist() == [-1, 0, -1, 0, -4, -16, -8]


def test_alu_steps_see_earlier_steps(machine: NewMachine) -> None:
    """A running sum: each step reads what the step before wrote."""
    m = machine()
    m.acc[:5] = np.arange(1, 6).reshape(5, 1, 1)
    m.uop[0] = encode_uops(1, 0)
    run(m, "alu.add uop=0,1 out=1 in=4 dst=0,1 src=0,1")
    assert m.acc[:5, 0, 0].tolist() == [1, 3, 6, 10, 15]


def test_alu_reads_before_a_later_step_writes(machine: NewMachine) -> None:
    m = machine()
    m.acc[:5] = np.arange(1, 6).reshape(5, 1, 1)
    m.uop[0] = encode_uops(0, 1)
    run(m, "alu.add uop=0,1 out=1 in=4 dst=0,1 src=0,1")
    assert m.acc[:5, 0, 0].tolist() == [3, 5, 7, 9, 5]


@pytest.mark.parametrize(
    ("text", "code", "found"),
    [
        ("load.inp sram=0x7ff y=1 x=2", "V201", "2047..2049"),
        ("load.inp sram=0x7fe y=1 x=1 pad=0,0,1,1", "V201", "2046..2049"),
        ("load.uop sram=0x2000 y=1 x=1", "V201", "8192..8193"),
        ("store.out sram=0x7ff y=1 x=2", "V201", "2047..2049"),
        ("load.inp dram=0x100 y=1 x=1", "V202", "4096..4112"),
        ("load.inp dram=0xff y=2 x=1 stride=1", "V202", "4080..4112"),
        ("load.acc_8bit dram=0xff y=1 x=2", "V202", "4080..4112"),
        ("load.wgt dram=0xffffffff y=1 x=1", "V202", "1099511627520..1099511627776"),
        ("store.out dram=0x100 y=1 x=1", "V202", "4096..4112"),
        ("gemm uop=8191,8193 out=1 in=1", "V203", "8191..8193"),
        ("gemm uop=0,1 out=2 in=2 dst=2046,2", "V204", "2048"),
        ("gemm uop=0,1 out=2 in=2 src=2046,2", "V204", "2048"),
        ("gemm uop=0,1 out=2 in=2 wgt=1022,2", "V204", "1024"),
        ("gemm.reset uop=0,1 out=2 in=2 dst=2046,2", "V204", "2048"),
        ("alu.add.imm uop=0,1 out=2 in=2 src=2046,2 imm=1", "V204", "2048"),
        ("load.out y=1 x=1", "V103", "memory_type 4"),
        ("load.mem7", "V103", "memory_type 7"),
        ("store.acc y=1 x=1", "V103", "memory_type 3"),
        ("store.out y=1 x=1 pad=0,0,0,1", "V105", "pads set"),
        ("alu.op5 uop=0,1", "V104", "alu_opcode 5"),
        ("load.inp {pop_prev}", "V106", "set"),
        ("load.wgt {push_prev}", "V106", "set"),
        ("store.out {pop_next}", "V106", "set"),
        ("store.uop {push_next}", "V106", "set"),
    ],
)
def test_refused_instructions(machine: NewMachine, text: str, code: str, found: str) -> None:
    m = machine()
    with pytest.raises(VTAError) as caught:
        run(m, f"load.uop\n{text}")
    assert caught.value.code == code
    assert caught.value.found.endswith(found)
    assert caught.value.where == f"instruction 1: {text}"
    assert not m.acc.any()


def test_last_legal_element_of_each_memory(machine: NewMachine) -> None:
    run(
        machine(),
        "load.inp sram=0x7ff dram=0xff y=1 x=1\nload.wgt sram=0x3ff dram=0xf y=1 x=1\n"
        "load.acc sram=0x7ff dram=0x3f y=1 x=1\nstore.out sram=0x7ff dram=0xff y=1 x=1\n"
        "gemm.reset uop=8191,8192 out=1 in=1",
    )


CHECKED = "load.uop y=1 x=1\nload.inp y=1 x=1\nload.wgt y=1 x=1\nload.acc_8bit y=1 x=1\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gemm uop=0,2 out=1 in=1", "UOP elements"),
        ("gemm uop=0,1 out=1 in=2 dst=0,1", "ACC elements"),
        ("gemm uop=0,1 out=1 in=2 src=0,1", "INP elements"),
        ("gemm uop=0,1 out=1 in=2 wgt=0,1", "WGT elements"),
        ("alu.add.imm uop=0,1 out=1 in=2 dst=0,1", "ACC elements"),
        ("alu.add uop=0,1 out=1 in=2 src=0,1", "ACC elements"),
        ("store.out y=1 x=2", "ACC elements"),
    ],
)
def test_check_refuses_unwritten_elements(machine: NewMachine, text: str, found: str) -> None:
    m = machine(check=True)
    with pytest.raises(VTAError, match=f"V205.*{found}") as caught:
        run(m, CHECKED + text)
    assert caught.value.found == "element 1 unwritten"
    assert caught.value.where == f"instruction 4: {text}"


def test_check_accepts_what_was_written(machine: NewMachine) -> None:
    text = (
        CHECKED + "gemm uop=0,1 out=1 in=1\ngemm.reset uop=0,1 out=1 in=3 dst=0,1\n"
        "alu.shr uop=0,1 out=1 in=3 dst=0,1 src=0,1\nstore.out y=1 x=3"
    )
    run(machine(check=True), text)


def test_check_refuses_undefined_shifts(machine: NewMachine) -> None:
    m = machine(check=True)
    with pytest.raises(VTAError, match=r"V206.*-31\.\.31, found 32"):
        run(m, CHECKED + "alu.shr.imm uop=0,1 out=1 in=1 imm=-32")
