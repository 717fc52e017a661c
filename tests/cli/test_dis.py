"""`byocir dis`: programs of described machines and of VTA, command by command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from quantised_nets import Net

import byocir
from byocir.cli.main import main
from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.machine import Machine
from byocir.targets.listing import hex_of, listings_of_machine

EXAMPLES = Path(__file__).parents[2] / "examples"
ENGINE = str(EXAMPLES / "counted_engine.py")
PRODUCT = """
func.func @main(%x: tensor<20x16xi8>, %w: tensor<16x16xi8>) -> tensor<20x16xi32> {
  %y = graph.matmul %x, %w : (tensor<20x16xi8>, tensor<16x16xi8>) -> tensor<20x16xi32>
  func.return %y : tensor<20x16xi32>
}
"""


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of a machine whose code is bytes."""
    path = tmp_path_factory.mktemp("products") / "products.bpkg"
    byocir.compile(parse_module(PRODUCT), targets=[ENGINE], levels=("tensor",)).save(path)
    return path


def convolutions() -> Any:
    net = Net((1, 16, 4, 4), per_channel=False)
    value = net.conv(net.conv(net.value, (16, 16), 1), (16, 16), 3)
    return byocir.import_onnx(net.of(value, (1, 16, 4, 4)))


def listed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[dict[str, Any]]:
    assert main(["dis", "--json", *map(str, arguments)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_commands_are_listed_with_their_code(
    products: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dis", str(products), "--target", ENGINE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "# function engine_0, engine, 7 commands",
        "#   engine.load           3 on dma, counted_engine.py:38",
        "#   engine.product        2 on core, counted_engine.py:52",
        "#   engine.store          2 on dma, counted_engine.py:42",
    ]
    assert lines[4:7] == [
        "# (no node)",
        "     0  engine.load rows=16 lanes=16 x=array0[0] out=engine.near[0]",
        "        01000000 ff000000 ff000000 10000000 10000000 00000000 10000000 01000000 00000000 "
        "01000000",
    ]
    commands = listed(capsys, products, "--target", ENGINE)
    (blob,) = (b for n, b in byocir.load(products).blobs["engine"].items() if n.endswith(".bin"))
    assert b"".join(bytes.fromhex(each["code"][0]) for each in commands) == blob
    product = next(each for each in commands if each["instruction"] == "engine.product")
    assert product["sizes"] == {"m": 10, "n": 16, "k": 16}
    assert product["operands"]["a"] == {"memory": "engine.near", "address": 0}
    assert product["where"].endswith("/counted_engine.py:52")


def test_registers_are_listed_before_the_commands_that_need_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, path = str(EXAMPLES / "gemmini.py"), tmp_path / "net.bpkg"
    package = byocir.compile(convolutions(), targets=[target], levels=("tensor",))
    package.save(path)
    commands = listed(capsys, path, "--target", target)
    for region in package.report.regions:
        code = json.loads(package.blobs["gemmini"][f"{region.symbol}.json"])
        own = [each["code"] for each in commands if each["function"] == region.symbol]
        assert [entry for part in own for entry in part] == hex_of(code)
        assert any(len(part) > 1 for part in own)


def test_vtas_programs_are_listed_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in ("vta", str(EXAMPLES / "vta_machine.py")):
        path = tmp_path / "net.bpkg"
        package = byocir.compile(convolutions(), targets=[target])
        package.save(path)
        own = [] if target == "vta" else ["--target", target]
        commands = listed(capsys, path, *own)
        (blobs,) = package.blobs.values()
        (words,) = (blob for name, blob in blobs.items() if name.endswith(".insns"))
        found = [int(word, 16) for each in commands for word in each["code"]]
        assert b"".join(word.to_bytes(8, "little") for word in found) == words
        assert commands[-1]["instruction"].startswith("finish")


def test_a_node_and_the_first_commands_are_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, path = str(EXAMPLES / "fused_npu.py"), tmp_path / "net.bpkg"
    package = byocir.compile(convolutions(), targets=[target], levels=("tensor",))
    package.save(path)
    second = [node.name for node in package.report.nodes if node.op_type == "Conv"][-1]
    chosen = (path, "--target", target, "--node", second)
    commands = listed(capsys, *chosen)
    assert [each["instruction"] for each in commands].count("fused.convolve") == 1
    assert all(second in each["nodes"] for each in commands)
    assert (
        listed(capsys, path, "--target", target, "--node", second, "--first", "2") == commands[:2]
    )
    assert main(["dis", str(path), "--target", target, "--node", "Con"]) == 1
    assert "error[B230]" in capsys.readouterr().err


def test_programs_that_are_not_there_are_told(
    products: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dis", str(products), "--target", ENGINE, "--function", "engine_1"]) == 1
    assert "error[B116]: expected a program of the package" in capsys.readouterr().err
    model = str(EXAMPLES / "digits" / "digits_int8.onnx")
    assert main(["dis", model, "--shape", "image=1,1,8,8", "--target", "host"]) == 1
    assert "error[B116]: expected programs of described mach" in capsys.readouterr().err


@pytest.mark.parametrize("change", [lambda b: b.replace(b"\2", b"\7"), lambda b: b + b"\0"])
def test_code_that_the_description_does_not_encode_is_told(
    products: Path, change: Callable[[bytes], bytes]
) -> None:
    package = byocir.load(products, targets=[ENGINE])
    machine, blobs = package.target("engine").machine, package.blobs["engine"]
    assert isinstance(machine, Machine)
    changed = {**blobs, "engine_0.bin": change(blobs["engine_0.bin"])}
    commands = listings_of_machine(machine, changed)["engine_0"]().commands
    with pytest.raises(ByocirError, match="of engine_0 that its machine encodes, found") as told:
        list(commands)
    assert told.value.code == "B330"
