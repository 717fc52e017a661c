"""The first reason that is told for a layer which a description does not take is the mistake in it:
each case has one, made by changing the text of a description that takes the layer.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import pytest
import small_npu
from qdq_models import Model

import byocir
from byocir.errors import ByocirError
from byocir.runtime.report_text import explain

SOURCE = Path(small_npu.__file__).read_text()


@cache
def layer(*, per_channel: bool = True) -> onnx.ModelProto:
    """A convolution with padding, a scale (for each channel), a bias and a ReLU."""
    model = Model((1, 16, 4, 4), 1)
    model.first = model.shape
    weights, scale = model.weights((24, 16, 3, 3), per_channel=per_channel, axis=0)
    bias = model.bias(24, scale, per_channel=per_channel)
    model.value = model.node("Conv", [model.value, weights, bias], pads=[1] * 4)
    model.value = model.node("Relu", [model.value])
    model.shape = (1, 24, 4, 4)
    model.value = model.requantize(model.value, 0.5)
    return model.build()


def told(*changes: tuple[str, str], per_channel: bool = True) -> str:
    """The lines that `explain` has on the convolution, or the error."""
    text = SOURCE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    module: Any = ModuleType("changed")
    try:
        exec(compile(text, "changed_npu.py", "exec"), vars(module))
        report = byocir.partition(
            byocir.import_onnx(layer(per_channel=per_channel)), [module.Npu()]
        )
    except ByocirError as error:
        return str(error)
    (conv,) = [node.name for node in report.nodes if node.op_type == "Conv"]
    lines = explain(report).splitlines()
    about = lines[next(i for i, line in enumerate(lines) if line.startswith(conv)) :]
    end = next((i for i, line in enumerate(about[1:], 1) if not line.startswith(" ")), len(about))
    return "\n".join(about[:end])


def test_the_description_takes_the_layer() -> None:
    assert "npu_0 (tensor level, npu.conv" in told()


def test_it_is_told_that_the_host_copies_pads_where_no_load_sets_them() -> None:
    report = byocir.partition(byocir.import_onnx(layer()), [small_npu.Npu()])
    (conv,) = [node.name for node in report.nodes if node.op_type == "Conv"]
    assert "  on the host: copy with pads" in explain(report, conv).splitlines()


PRODUCT = 'near("a")["m k"], near("w")["k n"]'
STORED = 'wildcard("scale", dtype=f32)["lanes"]\n    return block("rows lanes", x, scale, '
RELU = f"{STORED}rectified)"
NO_BIAS = 'block("rows lanes", wildcard("bias", dtype=i32)["lanes"], lambda _, x: x)'
BODY = "(y.max(0).to(f32) * x).roundeven().max(-128.0).min(127.0).to(i8)"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(
            (RELU, RELU.replace('["lanes"]', '[""]')),
            "npu.store_relu: expected indices [rows lanes], [] for [rows lanes], found [i3, i1], "
            "[i1, 0] for [i3, i1]; scale differs; the pattern takes a single number there; see "
            "changed_npu.py:",
            id="one scale in an instruction for one of each channel",
        ),
        pytest.param(
            (RELU, RELU.replace('["lanes"]', '["rows"]')),
            "npu.store_relu: expected indices [rows lanes], [rows] for [rows lanes], found "
            "[i3, i1], [i1] for [i3, i1]; scale differs; see changed_npu.py:",
            id="a scale for each row",
        ),
        pytest.param(
            ('constant("scale")["~o"]', 'constant("scale")[""]'),
            "expected indices [*i *o], [] for [*i *o], found [i0, i2, i3, i1], [i1, 0, 0] for "
            "[i0, i2, i3, i1]; scale differs; the pattern takes a single number there",
            id="one scale in a composite for one of each channel",
        ),
        pytest.param(
            (RELU, f"{STORED}scaled)"),
            f"that does {BODY}, found none; none does x.max(0) of i32",
            id="no ReLU",
        ),
        pytest.param(
            (RELU, RELU.replace("rectified", "lambda _, x, s: rectified(_, x, s + 1.0)")),
            "found none; none does x.max(0) of i32",
            id="another scale",
        ),
        pytest.param(
            ("return (x.to(f32) * s).roundeven()", "return (x.to(f32) * s)"),
            "expected body (x.to(f32) * s).max(-128).min(127).to(i8), found (x.to(f32) * s)"
            ".roundeven().max(-128.0).min(127.0).to(i8)",
            id="another rounding in both",
        ),
        pytest.param(
            ("return acc + x.to(i32) * w.to(i32)", "return acc + (x * w).to(i32)"),
            "expected body acc + (x * w).to(i32), found acc + (x.to(i32) * w.to(i32))",
            id="narrow products in both",
        ),
        pytest.param(
            (NO_BIAS, NO_BIAS.replace("lambda _, x: x", "lambda _, x: x + 1")),
            'none does x + y of i32; constants = "bind" in the target\'s class',
            id="no load of a bias",
        ),
        pytest.param(
            (PRODUCT, PRODUCT.replace('"k n"', '"n k"')),
            "npu.product: expected indices [m k], [n k] for [m n], found [w, c], [c, o] for "
            "[w, o]; w differs; see changed_npu.py:",
            id="weights transposed",
        ),
        pytest.param(
            (PRODUCT, PRODUCT.replace('"m k"', '"k m"')),
            "; a differs; see changed_npu.py:",
            id="image transposed",
        ),
        pytest.param(
            ('"near", i8', '"near", i16'),
            "npu.product: expected a of i16, found i8; see changed_npu.py:",
            id="another element type",
        ),
        pytest.param(
            ("m=up_to(16), n=up_to(16)", "m=up_to(16), n=exactly(32)"),
            "npu.product: expected n exactly 32, found 24; see changed_npu.py:",
            id="a size that the layer has not",
        ),
        pytest.param(
            ('multiply_add, init=sums("c"))', "multiply_add)"),
            "npu.product: expected a form that adds to what is there, by init, or calls over all ",
            id="no sums that go on",
        ),
        pytest.param(
            ("rows=1024", "rows=16, granule=16"),
            "expected npu.near to hold the smallest tile",
            id="a memory too small",
        ),
        pytest.param(
            ("signed_bytes = channels_last = True", "signed_bytes = True"),
            "found [n, c, h + r - 1, w + s - 1], [o, c, r, s] for [n, o, h, w]",
            id="channels first",
        ),
        pytest.param(
            ('["r s c o"]', '["o r s c"]'),
            "[o r s c] for [n h w o], found [n, h + r, w + s, c], [r, s, c, o] for [n, h, w, o]; "
            "w differs",
            id="another layout of weights",
        ),
        pytest.param(
            ('    fixed_point = "float_scale_last"\n', ""),
            "expected a block of 2 inputs, found 3 in ((x.to(f32) * y) / z).roundeven()",
            id="scales divided",
        ),
        pytest.param(
            ('y = optional(y, lambda v: block("*i", v["*i"], lambda _, x: x.max(0)))', ""),
            "expected a block of 2 inputs, found 1 in x.max(0)",
            id="no ReLU in the composite",
        ),
    ],
)
def test_the_first_reason_is_the_mistake(change: tuple[str, str], why: str) -> None:
    names = ("MAIN, Counted", "MAIN, Counted, exactly"), ("f32, i8", "f32, i8, i16")
    assert why in told(change, *names)


def test_what_nothing_brings_or_takes_away_is_told_first() -> None:
    """An instruction does the block, but its operand, start or result is elsewhere."""
    far = 'far = npu.memory("far", i8, row=(16,), rows=64)\nnpu.order(Counted())'
    moved = 'npu.copy("load", MAIN, near, **runs)', 'npu.copy("load", far, near, **runs)'
    filled = """
@npu.instruction(into=far, **runs)
def fill() -> Pattern:
    return block("rows lanes", lambda _: 0)


def multiply_add("""
    told_first = told(("npu.order(Counted())", far), moved, ("def multiply_add(", filled))
    assert (
        "npu.product: expected a in npu.near, found it in main memory and no copies" in told_first
    )


def test_a_start_that_nothing_sets_is_told_first() -> None:
    begins = '    return added | block("m n | k", a, w, multiply_add)', "    return added"
    loaded = NO_BIAS, NO_BIAS.replace('"bias", dtype=i32)["lanes"]', '"bias", dtype=i32)["rows"]')
    assert "npu.product: nothing sets elements of npu.sums to 0" in told(begins, loaded)


def test_a_step_whose_operand_nothing_brings_is_told_so() -> None:
    """An instruction rectifies, but in a memory that sums do not get to."""
    elsewhere = """regs = npu.memory("regs", i32, row=(16,), rows=64)
npu.copy("load_regs", MAIN, regs, **runs)
npu.copy("back", regs, sums, **runs)


@npu.instruction(**runs)
def relu() -> Pattern:
    return block("rows lanes", lambda x: x.max(0), init=regs("x"))


@composite("npu.conv")"""
    said = told((RELU, f"{STORED}scaled)"), ('@composite("npu.conv")', elsewhere))
    reads = "npu.relu: expected what it reads in npu.regs, found nothing that brings it there"
    assert f"found none; {reads}" in said


def test_a_rule_is_told_of_what_reads_a_number_as_a_row() -> None:
    """An instruction reads a row of one repeated number, but for its rule."""
    rule = """@store_relu.rule
def few_rows(m):
    \"""At most 0 rows are stored.\"""
    seen = m["work"].extents["rows"]
    return seen <= 0, seen


@composite("npu.conv")"""
    said = told(('@composite("npu.conv")', rule), per_channel=False)
    assert "found none; npu.store_relu: At most 0 rows are stored, found 1; see changed_npu" in said
