"""`import byocir` is quick: it imports nothing heavy. Measured in modules, not in seconds."""

import subprocess
import sys
from pathlib import Path

import pytest

import byocir

HEAVY = ("numpy", "onnx", "onnxruntime", "rich", "safetensors", "xdsl")


def modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after running this."""
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(result.stdout.splitlines()[-1].split())


def test_the_package_imports_nothing_heavy():
    assert not modules_after("import byocir; dir(byocir)") & set(HEAVY)


@pytest.mark.parametrize("code", ["import byocir.universe", "import byocir.cli.opt"])
def test_what_knows_every_pass_imports_none(code):
    loaded = modules_after(code)
    assert not [name for name in loaded if name.startswith(("byocir.lowering", "byocir.targets"))]
    assert "onnx" not in loaded


def test_an_interrupt_is_handled_before_anything_is_imported():
    """What is imported before `entry` can be interrupted with a traceback."""
    home = str(Path(byocir.__file__).parents[1])
    code = (
        f"import sys; sys.path.append({home!r}); before = {{*sys.modules}}; "
        "import byocir.cli.entry; print(*{*sys.modules} - before)"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert {*loaded} == {"byocir", "byocir.cli", "byocir.cli.entry"}


def test_help_needs_nothing_heavy():
    assert not modules_after("from byocir.cli.main import build_parser as b; b()") & set(HEAVY)


def test_targets_are_listed_without_what_runs_them():
    loaded = modules_after("from byocir.cli.main import main; main(['targets'])")
    heavy = {"onnx", "byocir.compiler", "byocir.evaluate.graph_ops", "byocir.vta_sim.simulation"}
    heavy |= {
        "byocir.machine_sim",
        "byocir.vta_sim.token_order",
        "byocir.lowering.tir_to_vta.legalise",
    }
    heavy |= {"byocir.machine", "byocir.rewrites.schedule", "byocir.rewrites.machine"}
    heavy |= {"byocir.dialects.vta", "byocir.toolchain.build", "byocir.targets.ort_session"}
    assert not loaded & heavy


def test_formats_of_ops_are_parsed_with_the_first_text():
    code = """
from xdsl.irdl.declarative_assembly_format import FormatProgram
parse, parsed = FormatProgram.from_str, []
FormatProgram.from_str = lambda text, op: parsed.append(op.name) or parse(text, op)
from byocir.dialects import byoc, graph, tir, vta
print(*(name for name in parsed if name.split(".")[0] in ("byoc", "graph", "tir", "vta")))
from xdsl.dialects.builtin import f32
from byocir.dialects.types import tensor
from xdsl.ir import Block
print(graph.ReluOp.make(Block(arg_types=[tensor(f32, (2, 3))]).args[0]))
print(*parsed[-1:])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    before, op, after = result.stdout.splitlines()
    assert before == ""
    assert "graph.relu" in op
    assert after == "graph.relu"


def test_the_simulator_needs_no_compiler_framework():
    assert not modules_after("import byocir.vta_sim") & {"xdsl", "onnx"}
