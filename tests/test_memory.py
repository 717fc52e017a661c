"""The limit on memory: where it comes from, and that it is asked before anything large is made."""

import os
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from xdsl.ir import Block

import byocir
from byocir import memory
from byocir.cli.main import main
from byocir.cli.opt import run_opt
from byocir.dialects.types import f32
from byocir.errors import ByocirError
from byocir.evaluate.memory_needs import Held
from byocir.evaluate.module import evaluate
from byocir.files import read_all, read_whole
from byocir.memory import VARIABLE, expect_memory, max_bytes, read_bytes


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def test_the_limit_is_half_of_the_memory_unless_somebody_says_otherwise(monkeypatch):
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < max_bytes() <= total // 2
    monkeypatch.setenv(VARIABLE, "3G")
    assert max_bytes() == 3 * 2**30
    with byocir.limit_memory(1000):
        assert max_bytes() == 1000
        with byocir.limit_memory("2k"):
            assert max_bytes() == 2048
        assert max_bytes() == 1000
    assert max_bytes() == 3 * 2**30


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5G", "G", "9" * 5000, "1e9", "\u0661", "1\0"])
def test_what_is_no_number_of_bytes(text, capsys):
    with pytest.raises(ByocirError, match="B141"):
        read_bytes(text)
    assert main(["targets", f"--max-bytes={text}"]) == 1
    assert "error[B141]" in capsys.readouterr().err


def test_numbers_beyond_all_memory_are_no_limit():
    with byocir.limit_memory("999999999999999999T"):
        expect_memory(2**61, "a thing")


def test_sizes_of_any_number_of_digits_are_told():
    with pytest.raises(ByocirError, match=r"B140.*found more than any machine has"):
        expect_memory(10**9000, "a thing")


def with_node(op_type: str, *inputs: str, sizes: list[int], **attributes) -> onnx.ModelProto:
    """A model of one node, named big, whose sizes only a run tells."""
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["a", "b"]),
        helper.make_tensor_value_info("s", TensorProto.INT64, [len(sizes)]),
    ]
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [helper.make_node(op_type, [*inputs], ["y"], name="big", **attributes)]
    return helper.make_model(
        helper.make_graph(nodes, "g", ports, [made]), opset_imports=[helper.make_opsetid("", 21)]
    )


OPEN = {
    "Expand": (["x", "s"], [2**40, 1]),
    "Tile": (["x", "s"], [2**20, 2**20]),
    "ConstantOfShape": (["s"], [2**20, 2**20]),
    "Pad": (["x", "s"], [0, 0, 2**20, 2**20]),
    "Resize": (["x", "", "", "s"], [2**20, 2**20]),
}


@pytest.mark.parametrize("op_type", OPEN)
def test_sizes_that_only_a_run_tells_are_asked_for(op_type):
    inputs, sizes = OPEN[op_type]
    package = byocir.compile(with_node(op_type, *inputs, sizes=sizes), targets=[])
    x = np.ones((1, 1), np.float32)
    with pytest.raises(ByocirError, match=f"B140.*what {op_type} makes(.|\n)*node 'big'"):
        package.run({"x": x, "s": np.array(sizes)})
    few = np.minimum(sizes, 3)
    with byocir.limit_memory(1000):
        assert package.run({"x": x, "s": few})["y"].size <= 16
    with byocir.limit_memory(8), pytest.raises(ByocirError, match=r"B140"):
        package.run({"x": x, "s": few + 1})


def test_a_file_is_not_begun_that_is_too_large(tmp_path):
    path = tmp_path / "sparse.onnx"
    with path.open("wb") as file:
        file.truncate(2**40)
    for read in (read_whole, byocir.import_onnx):
        with pytest.raises(ByocirError, match=r"B140.*found 1,099,511,627,776"):
            read(path)


def test_a_device_without_an_end_is_read_to_the_limit(monkeypatch):
    monkeypatch.setattr("byocir.files.CHUNK", 2**10)
    refused = pytest.raises(ByocirError, match=r"B140.*what is read, found 17,408")
    with byocir.limit_memory("16K"), open("/dev/zero", "rb") as file, refused:
        read_all(file, "/dev/zero")


def test_both_tools_have_the_option(tmp_path: Path, capsys):
    path = tmp_path / "m.mlir"
    path.write_text("builtin.module {}\n" + "// \n" * 100)
    assert run_opt([str(path), "--max-bytes", "100"]) == 1
    assert "B140" in capsys.readouterr().err
    assert run_opt([str(path), "--max-bytes", "1K"]) == 0
    assert main(["vta", "asm", str(path), "--max-bytes", "100"]) == 1
    assert "expected at most 100 bytes for a file, found 418" in capsys.readouterr().err


def test_the_memory_of_the_hosts_c_is_asked_for():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 64])
    nodes = [helper.make_node("MatMul", [*given], [made]) for *given, made in ("xxa", "axb", "aby")]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]))
    with byocir.limit_memory("20K"), pytest.raises(ByocirError, match=r"B140.*in which the host"):
        byocir.compile(model, targets=[], host="c")


MEGA = 2**20


def chain(count: int, *, outputs: int = 1, size: object = 256) -> onnx.ModelProto:
    """A model of one node after the other, each of which gives one mega byte; the last ones are
    outputs."""
    x = helper.make_tensor_value_info("v0", TensorProto.FLOAT, [size, 1024])
    nodes = [helper.make_node("Sin", [f"v{i}"], [f"v{i + 1}"], name=f"n{i}") for i in range(count)]
    made = [f"v{i}" for i in range(count + 1 - outputs, count + 1)]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in made]
    return helper.make_model(
        helper.make_graph(nodes, "g", [x], ports), opset_imports=[helper.make_opsetid("", 21)]
    )


@pytest.mark.parametrize("host", ["reference", "c"])
def test_what_is_held_at_once_counts(host):
    """The input, and nine outputs beside it."""
    model, x = chain(9, outputs=9), np.ones((256, 1024), np.float32)
    with byocir.limit_memory(10 * MEGA):
        assert len(byocir.compile(model, targets=[], host=host).run({"v0": x})) == 9
    refused = pytest.raises(ByocirError, match=r"B140.*held beside it, found 10,485,760(.|\n)*'n8'")
    with byocir.limit_memory(10 * MEGA - 1), refused:
        byocir.compile(model, targets=[], host=host)


@pytest.mark.parametrize("size", [256, "n"])
def test_what_nothing_needs_any_more_does_not_count(size):
    package, x = byocir.compile(chain(40, size=size), targets=[]), np.ones((256, 1024), np.float32)
    with byocir.limit_memory(3 * MEGA):
        assert package.run({"v0": x})["v40"].nbytes == MEGA


def test_what_is_held_at_once_counts_where_only_a_run_tells_it():
    """Each node's own part would fit."""
    module = byocir.import_onnx(chain(9, outputs=9, size="n"))
    x = np.ones((256, 1024), np.float32)
    with byocir.limit_memory(10 * MEGA):
        evaluate(module, {"v0": x})
    with byocir.limit_memory(9 * MEGA), pytest.raises(ByocirError, match=r"B140(.|\n)*'n8'"):
        evaluate(module, {"v0": x})


def test_views_take_what_they_are_of_once():
    held, x = Held(), np.zeros(1024)
    first, second = Block(arg_types=[f32, f32]).args
    held.keep(first, [x[1:], x[:5].reshape(5, 1)])
    held.keep(second, x.T)
    assert held.total == x.nbytes
    held.keep(first, np.zeros(1))
    assert held.total == x.nbytes + 8
    held.free(second)
    held.free(second)
    assert held.total == 8


@pytest.mark.parametrize("verb", ["compile", "explain"])
def test_a_batch_of_any_size_is_asked_for_before_it_is_compiled(verb, capsys):
    given = ["examples/digits/digits_int8.onnx", "--target", "vta", "--max-bytes", "1G"]
    assert main([verb, *given, "--shape", "image=2000000,1,8,8"]) == 1
    assert "makes and what is held beside it" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "CONTAINER", (str(tmp_path / "memory.max"), str(tmp_path / "no")))
    memory.half_of_memory.cache_clear()
    try:
        (tmp_path / "memory.max").write_text("1000000\n")
        assert max_bytes() == 500000
        (tmp_path / "memory.max").write_text("max\n")
        memory.half_of_memory.cache_clear()
        assert max_bytes() > 500000
    finally:
        memory.half_of_memory.cache_clear()
