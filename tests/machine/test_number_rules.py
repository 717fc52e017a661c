"""Numbers of a body: rules on them refuse a match before it is compiled, whatever its tiles, and
instructions have fields for them."""

from __future__ import annotations

import numpy as np
import pytest

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import i8, i32, i64
from byocir.machine import MAIN, Counted, Machine, up_to
from byocir.machine.cut_plans import plans_of
from byocir.patterns import block, composite, constant, number, wildcard

TEXT = """
func.func @main(%x: tensor<20x24xi8>, %w: tensor<24x32xi8>) -> tensor<20x32xi8> {
  %0 = graph.matmul %x, %w : (tensor<20x24xi8>, tensor<24x32xi8>) -> tensor<20x32xi32>
  %factor = graph.constant #graph.array<[FACTORS] : tensor<32xi32>>
  %1 = graph.requantize %0, %factor {rounding = #graph.fixed<shift = 12, half_up>} :
      (tensor<20x32xi32>, tensor<32xi32>) -> tensor<20x32xi8>
  func.return %1 : tensor<20x32xi8>
}
""".replace("FACTORS", ", ".join(map(str, range(30, 62))))


def multiply_add(acc, x, w):
    return acc + x.to(i32) * w.to(i32)


def shifted(_, x, factor):
    wide = x.to(i64) * factor.to(i64) + number("half")
    return (wide >> number("shift")).clamp(-128, 127).to(i8)


@composite("npu.gemm")
def gemm():
    a, b = wildcard("a", dtype=i8)["m k"], wildcard("b", dtype=i8)["k n"]
    return block("m n | k", a, b, multiply_add)


@composite("npu.dense")
def dense():
    return block("m n", gemm.patterns[0]["m n"], constant("factor")["n"], shifted)


def npu(most: int, looks_at_sizes: bool, divisor: int = 1) -> byocir.Target:
    """A machine whose store shifts by at most so much; its rule divides by a number."""
    described = Machine("npu")
    dma, core = described.unit("dma", queue=8), described.unit("core", queue=2)
    near = described.memory("near", i8, row=(16,), rows=1024)
    sums = described.memory("sums", i32, row=(16,), rows=256)
    described.order(Counted())
    tile = {"rows": up_to(16), "lanes": up_to(16), "cycles": lambda s: 20 + s["rows"]}
    described.copy("load", MAIN, near, unit=dma, opcode=1, **tile)
    described.copy("store", sums, MAIN, unit=dma, opcode=2, **tile)

    @described.instruction(
        core, into=sums, opcode=3, m=up_to(16), n=up_to(16), k=up_to(16), cycles=lambda s: s["m"]
    )
    def product():
        a, w = near("a")["m k"], near("w")["k n"]
        added = block("m n | k", a, w, multiply_add, init=sums("c"))
        return added | block("m n | k", a, w, multiply_add)

    @described.instruction(dma, opcode=4, **tile)
    def store_shifted():
        return block("rows lanes", sums("x")["rows lanes"], wildcard("factor")["lanes"], shifted)

    @store_shifted.rule
    def shifts_little(m):
        """The shift is small."""
        rows = m["x"].type.shape[0] if looks_at_sizes else 0
        return m["shift"] // divisor <= most and rows <= 16, m["shift"]

    class Npu(byocir.Target):
        name, machine, patterns = "npu", described, (dense, gemm)
        fixed_point = "half_up"

    return Npu()


@pytest.mark.parametrize(
    ("most", "looks_at_sizes", "taken"),
    [(10, False, "npu.gemm"), (12, False, "npu.dense"), (12, True, "npu.dense")],
)
def test_numbers_that_a_rule_refuses_are_declined(
    most: int, looks_at_sizes: bool, taken: str
) -> None:
    target = npu(most, looks_at_sizes)
    package = byocir.compile(parse_module(TEXT), targets=[target], levels=("tensor",))
    ((composite,),) = [region.composites for region in package.report.regions]
    assert composite.pattern == taken
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-128, 128, s).astype(np.int8) for s in ((20, 24), (24, 32)))
    (y,) = package.run({"arg0": x, "arg1": w}, check=True).values()
    wide = (x.astype(np.int64) @ w.astype(np.int64)) * np.arange(30, 62) + (1 << 11)
    assert (y == np.clip(wide >> 12, -128, 127)).all()


def test_a_rule_that_fails_on_numbers_is_told_before_sizes_are_known() -> None:
    """Plans of a pattern alone look at numbers; a rule that fails there is not taken to hold."""
    module = parse_module(TEXT)
    byocir.partition(module, [npu(12, False)], levels=("tensor",))
    (scaled,) = (op for op in module.walk() if isinstance(op, BlockOp) and not op.reductions)
    machine = npu(12, False, divisor=0).machine
    assert machine is not None
    with pytest.raises(byocir.ByocirError, match=r"shifts_little.*ZeroDivisionError") as error:
        plans_of(machine, scaled, scaled.extents, "pattern")
    assert error.value.code == "B202"


def test_a_factor_for_all_channels_is_a_field_of_the_instruction() -> None:
    machine_ = Machine("scaler")
    dma = machine_.unit("dma", queue=8)
    sums = machine_.memory("sums", i32, row=(16,), rows=256)
    machine_.order(Counted())
    told: list[dict[str, int]] = []
    tile = {"rows": up_to(16), "lanes": up_to(16), "cycles": lambda s: 20 + s["rows"]}
    machine_.copy("load", MAIN, sums, unit=dma, **tile)

    def encode(call):
        told.append(dict(call.numbers))
        return [4]

    @machine_.instruction(dma, opcode=4, encode=encode, **tile)
    def store_shifted():
        def body(_, x):
            wide = x.to(i64) * number("factor") + number("half")
            return (wide >> number("shift")).clamp(-128, 127).to(i8)

        return block("rows lanes", sums("x")["rows lanes"], body)

    @composite("scaler.scaled")
    def scaled():
        return block("*i", wildcard("x", dtype=i32)["*i"], constant("factor")[""], shifted)

    class Scaler(byocir.Target):
        name, machine, patterns = "scaler", machine_, (scaled,)
        fixed_point = "half_up"

    module = parse_module("""
func.func @main(%x: tensor<20x32xi32>) -> tensor<20x32xi8> {
  %factor = graph.constant #graph.array<[37] : tensor<i32>>
  %1 = graph.requantize %x, %factor {rounding = #graph.fixed<shift = 12, half_up>} :
      (tensor<20x32xi32>, tensor<i32>) -> tensor<20x32xi8>
  func.return %1 : tensor<20x32xi8>
}
""")
    package = byocir.compile(module, targets=[Scaler()], levels=("tensor",))
    x = np.random.default_rng(0).integers(-20000, 20000, (20, 32)).astype(np.int32)
    (y,) = package.run({"arg0": x}, check=True).values()
    assert (y == np.clip(x * 37 + (1 << 11) >> 12, -128, 127)).all()
    assert told[0] == {"factor": 37, "half": 1 << 11, "shift": 12}
