"""Compilations that must leave nothing on the host, or nothing but some types of operators."""

import re
import shlex
from pathlib import Path

import pytest

import byocir
from byocir.cli.main import main
from byocir.errors import ByocirError, CheckFailed

DIGITS = "examples/digits/digits_int8.onnx"
FLOATS = "examples/digits/digits_f32.onnx"
SHAPES = {"image": (1, 1, 8, 8)}


def compiled(host_ops, model=DIGITS, **options):
    return byocir.compile(model, shapes=SHAPES, host_ops=host_ops, **options)


def test_what_may_stay_may_be_written_in_any_letters():
    package = compiled(["quantizelinear", "DequantizeLinear", "Reshape"])
    assert package.report.host == ["image_QuantizeLinear", "logits_DequantizeLinear"]


def test_each_operator_that_stays_is_named_with_the_closest_miss():
    with pytest.raises(CheckFailed) as caught:
        compiled([], FLOATS, targets=["examples/toy_npu.py"])
    lines = caught.value.where.splitlines()
    report = byocir.compile(FLOATS, shapes=SHAPES, targets=["examples/toy_npu.py"]).report
    assert caught.value.message.endswith("found 9 of 18")
    assert all(any(name in line for line in lines) for name in report.host)
    (conv,) = (line for line in lines if "/stem/conv/Conv" in line)
    assert "rule fails: Input channels are a multiple of 8 seen 1; to fix it: pad" in conv
    # Two of one type that stay for one reason share a line.
    assert any(line.strip().startswith("/block1/Add, /block2/Add (Add): ") for line in lines)


def test_what_was_placed_there_says_so():
    allowed = ["QuantizeLinear", "DequantizeLinear"]
    with pytest.raises(CheckFailed, match=r"/max_pool/MaxPool \(MaxPool\): .*is placed on host"):
        compiled(allowed, placement={"/max_pool/MaxPool": "host"})


def test_what_stays_in_part_counts():
    from byocir.patterns import block, composite, wildcard

    @composite("npu.product")
    def product():
        a, b = wildcard("a"), wildcard("b")
        return block("*m n | k", a["*m k"], b["n k"], lambda acc, x, w: acc + x * w)

    class Npu(byocir.Target):
        name, patterns = "npu", (product,)

    others = ["Conv", "Relu", "Add", "MaxPool", "AveragePool", "GlobalAveragePool", "Flatten"]
    with pytest.raises(CheckFailed, match=r"/classifier/Gemm \(Gemm, partly\): "):
        compiled(others, FLOATS, targets=[Npu()])
    compiled([*others, "Gemm"], FLOATS, targets=[Npu()])


def test_a_type_that_nobody_knows_is_refused():
    with pytest.raises(ByocirError, match=r"B248.*'reshap'\n.*did you mean 'Reshape'"):
        compiled(["reshap"])


def test_the_command_line(tmp_path, capsys):
    out = str(tmp_path / "out.bpkg")
    model = [DIGITS, "--shape", "image=1,1,8,8"]
    allowed = ["--host-ops", "QuantizeLinear, DequantizeLinear"]
    assert main(["compile", *model, "-o", out, *allowed]) == 0
    assert main(["run", out, "--host-ops", "none"]) == 1
    assert "B114" in capsys.readouterr().err
    for verb in (["compile", "-o", f"{out}2"], ["export", "-o", f"{out}3"]):
        assert main([*verb, *model, "--host-ops", "none"]) == 3
        assert "B247" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["out.bpkg"]


def test_the_page_shows_what_is_printed(tmp_path, capsys):
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    (section,) = re.findall(r"^## Nothing on the host\n(.*?)^## ", page, re.M | re.S)
    (command,) = re.findall(r"```sh\nbyocir (.*?)\n```", section)
    (said,) = re.findall(r"<!-- output -->\n```\n(.*?)```", section, re.S)
    assert main([*shlex.split(command), "-o", str(tmp_path / "out.bpkg")]) == 3
    assert said in capsys.readouterr().err
