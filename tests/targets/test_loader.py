"""Loaders: the parts of targets that run their code, without the compiler."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import byocir
from byocir.targets.loader import installed_loader
from byocir.targets.ort_loader import OrtLoader
from byocir.targets.vta_loader import VtaLoader
from byocir.vendor import registry

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits_f32.onnx"
IMAGE = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)

LOADER = """
from dataclasses import dataclass
import numpy as np
from byocir.targets.loader import Loader

@dataclass(frozen=True)
class AcmeLoader(Loader):
    name = "acme"
    least: float = 0.0

    def load(self, blobs):
        return lambda symbol, inputs: [np.maximum(inputs[0], np.float32(self.least))]
"""
TARGET = """
from dataclasses import dataclass
from acme_npu.loader import AcmeLoader
from byocir import Target
from byocir.patterns import composite, op, wildcard
from byocir.patterns.policy import RegionPolicy

@composite("acme.relu")
def relu():
    return op("graph.relu", wildcard("x"))

@dataclass(frozen=True)
class Acme(AcmeLoader, Target):
    patterns = (relu,)
    size: int = 4

    @property
    def region_policy(self):
        return RegionPolicy(merge="none")

    def emit(self, module, symbols):
        return {"code": b"relu"}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a vendor's package and a compiled model, and what that gives."""
    folder = tmp_path_factory.mktemp("acme")
    (folder / "acme_npu").mkdir()
    for name, text in (("__init__", ""), ("loader", LOADER), ("target", TARGET)):
        (folder / "acme_npu" / f"{name}.py").write_text(text)
    program = (
        "import byocir, numpy as np, sys; from acme_npu.target import Acme; "
        f"image = np.array({IMAGE.tolist()}, np.float32); "
        f"package = byocir.compile({str(DIGITS)!r}, shapes={{'image': (1, 1, 8, 8)}}, host='c', "
        "targets=[Acme(size=8)]); package.save('digits.bpkg'); "
        "package = byocir.load('digits.bpkg'); "
        "assert package.report.targets, package; "
        "np.save('logits.npy', package.run({'image': image})['logits'])"
    )
    apart(folder, program)
    return folder


def apart(folder: Path, program: str) -> str:
    """What a program prints in a process of its own."""
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_vendors_loader_runs_a_package_without_the_compiler(folder: Path):
    run = (
        "import byocir, numpy as np, sys; from acme_npu.loader import AcmeLoader; "
        f"image = np.array({IMAGE.tolist()}, np.float32); "
        "package = byocir.load('digits.bpkg', targets=[AcmeLoader()]); "
        "logits = package.run({'image': image})['logits']; "
        "assert (logits == np.load('logits.npy')).all(); "
        "assert len(package.report.regions) > 1; print(*sys.modules)"
    )
    modules = {*apart(folder, run).split()}
    assert "acme_npu.loader" in modules
    assert not {"xdsl", "onnx", "acme_npu.target", "byocir.targets.base"} & modules


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("AcmeLoader(least=1.0)", "B213]: expected target 'acme' with the options of the package"),
        (
            "VtaLoader()",
            "B210]: expected the loader of a target of the package, found one of 'vta'",
        ),
    ],
)
def test_loaders_of_other_packages_are_refused(folder: Path, given: str, message: str):
    run = (
        "import byocir; from acme_npu.loader import AcmeLoader; "
        "from byocir.targets.vta_loader import VtaLoader\n"
        f"try: byocir.load('digits.bpkg', targets={given})\n"
        "except byocir.ByocirError as error: print(error)"
    )
    assert message in apart(folder, run)


def test_a_loader_has_the_options_that_it_knows():
    found = installed_loader("ort", {"optimise": True, "threads": 2, "other": 3})
    assert found == OrtLoader(optimise=True, threads=2)
    assert installed_loader("ort", {"threads": "2"}) is None
    assert installed_loader("ort", {"threads": 0}) is None
    assert installed_loader("acme", {}) is None


def test_a_target_that_is_given_runs_its_code_itself():
    with registry.forgetting(afresh=True):  # what fixtures of other tests gave
        assert installed_loader("vta", {}) == VtaLoader()
        registry.give("vta", byocir.Vta)
        assert installed_loader("vta", {}) is None
