"""A partitioned module, saved as text and weights, compiles later where its target is given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import byocir
from byocir.compiler import generate, partition
from byocir.dialects.text import print_module
from byocir.dialects.weights import save_weights

ROOT = Path(__file__).parents[2]
TOY = ROOT / "examples" / "toy_npu.py"
DIGITS = ROOT / "examples" / "digits"
IMAGE = np.linspace(-2, 2, 64, dtype=np.float32).reshape(1, 1, 8, 8)

LATER = """
import sys
from pathlib import Path

import numpy as np

from byocir.compiler import generate
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.dialects.weights import load_weights
from byocir.errors import ByocirError
from byocir.runtime.report import report_of
from byocir.targets.files import load_target

folder, given = Path(sys.argv[1]), sys.argv[2:]
for path in given:
    load_target(Path(path))
context = load_context()
load_weights(folder / "module.safetensors", context.arrays)
module = parse_module((folder / "module.mlir").read_text(), context)
try:
    package = generate(module, report_of(module))
except ByocirError as error:
    print(error)
    sys.exit(1)
package.save(folder / "later.bpkg")
"""


def later(folder: Path, *given: Path) -> subprocess.CompletedProcess[str]:
    """Compiles in a fresh process, which knows the files and these targets, nothing else."""
    command = [sys.executable, "-c", LATER, str(folder), *map(str, given)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("target", "model", "given"),
    [
        (str(TOY), "digits_f32.onnx", [TOY]),
        ("json{ops=conv,relu}", "digits_f32.onnx", []),
        ("vta{rounding=half_even}", "digits_int8.onnx", []),
    ],
)
def test_a_saved_module_compiles_later_to_the_same_package(
    target: str, model: str, given: list[Path], tmp_path: Path
):
    module = byocir.import_onnx(DIGITS / model, shapes={"image": (1, 1, 8, 8)})
    report = partition(module, target)
    (tmp_path / "module.mlir").write_text(print_module(module))
    save_weights(module, tmp_path / "module.safetensors")
    run = later(tmp_path, *given)
    assert run.returncode == 0, run.stdout + run.stderr
    now = generate(module, report)
    now.save(tmp_path / "now.bpkg")
    assert (tmp_path / "later.bpkg").read_bytes() == (tmp_path / "now.bpkg").read_bytes()
    loaded = byocir.load(tmp_path / "later.bpkg", targets=[str(path) for path in given])
    feeds = {"image": IMAGE}
    assert np.array_equal(loaded.run(feeds)["logits"], now.run(feeds)["logits"])


def test_without_its_target_it_is_one_message(tmp_path: Path):
    module = byocir.import_onnx(DIGITS / "digits_f32.onnx", shapes={"image": (1, 1, 8, 8)})
    partition(module, str(TOY))
    (tmp_path / "module.mlir").write_text(print_module(module))
    save_weights(module, tmp_path / "module.safetensors")
    run = later(tmp_path)
    assert (run.returncode, run.stderr) == (1, "")
    assert run.stdout.startswith("error[B210]: unknown target 'npu'")
