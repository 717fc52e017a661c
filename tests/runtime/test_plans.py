"""Saved packages that run by plans of the cache, without their modules."""

import hashlib
import json
import subprocess
import sys
import zipfile
from functools import cache as once
from pathlib import Path

import numpy as np
import pytest

import byocir
from byocir.runtime import cached_plan, module_members
from byocir.targets.vta_loader import VtaLoader

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
SHAPES = {"image": (1, 1, 8, 8)}
IMAGE = {"image": np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder for plans that these tests share."""
    return tmp_path_factory.mktemp("plans")


@pytest.fixture
def cache(monkeypatch, folder: Path) -> Path:
    """An empty folder for plans; libraries stay where they are built once."""
    for plan in folder.glob("plan-*"):
        plan.unlink()
    monkeypatch.setattr(cached_plan, "cache_folder", lambda: folder)
    return folder


@once
def compiled(name: str, *targets: str) -> byocir.Package:
    return byocir.compile(DIGITS / f"{name}.onnx", shapes=SHAPES, host="c", targets=targets)


def saved(folder: Path, name: str, *targets: str) -> tuple[Path, np.ndarray]:
    """A package that ran once from its file, and its outputs."""
    path = folder / f"{name}.bpkg"
    compiled(name, *targets).save(path)
    return path, byocir.load(path).run(IMAGE)["logits"]


@pytest.fixture
def never_parses(monkeypatch):
    """Raises where the text of a module is read."""

    def parsed(*_):
        raise AssertionError("a module was read")

    return lambda: monkeypatch.setattr(module_members, "parse_module", parsed)


def test_loading_and_running_imports_no_compiler(cache: Path, tmp_path: Path):
    path, expected = saved(tmp_path, "digits_f32")
    outputs, modules = run_apart(cache, path)
    assert outputs == expected.tobytes()
    rooms = {name.split(".")[1] for name in modules if name.startswith("byocir.")}
    assert rooms <= {
        *("arguments", "dialects", "errors", "evaluate", "files", "lazy", "memory", "runtime"),
        "toolchain",
    }
    assert not {"xdsl", "onnx", "byocir.dialects.graph"} & modules


def run_apart(cache: Path, path: Path) -> tuple[bytes, set[str]]:
    """The outputs of a package in a process of its own, and the modules that this imports."""
    script = (
        "import sys, pathlib, numpy as np, byocir; from byocir.runtime import cached_plan; "
        f"cached_plan.cache_folder = lambda: pathlib.Path({str(cache)!r}); "
        f"package = byocir.load({str(path)!r}); "
        "image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8); "
        "outputs = package.run({'image': image})['logits']; "
        "print(outputs.tobytes().hex()); print(*sorted(sys.modules))"
    )
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    outputs, modules = result.stdout.splitlines()
    return bytes.fromhex(outputs), set(modules.split())


def test_loading_imports_neither_compiler_nor_toolchain(tmp_path: Path):
    """Nor do the inputs, whose types are texts in the manifest."""
    path, _ = saved(tmp_path, "digits_f32")
    script = (
        f"import sys, byocir; package = byocir.load({str(path)!r}); "
        "print(*package.inputs.values(), *(t.shape for t in package.outputs.values()), sep=';'); "
        "print(*sys.modules)"
    )
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    types, modules = result.stdout.splitlines()
    assert types == "tensor<1x1x8x8xf32>;(1, 10)"
    rooms = {name.split(".")[1] for name in modules.split() if name.startswith("byocir.")}
    assert rooms <= {"arguments", "dialects", "errors", "files", "memory", "runtime"}
    assert not {"xdsl", "onnx", "safetensors", "ml_dtypes"} & {*modules.split()}


NEEDED = {
    *("arguments", "dialects", "errors", "evaluate", "files", "isolation", "lazy"),
    *("machine_sim", "memory"),
    *("runtime", "targets", "toolchain", "vendor", "vta_sim"),
}
"""The rooms that running a package with regions may enter: none of them reads or makes modules."""


@pytest.mark.parametrize(
    ("name", "target"),
    [("digits_int8", "vta"), ("digits_f32", "dnnl"), ("digits_f32", "ort{optimise=true}")],
)
def test_regions_run_without_compiler(cache: Path, tmp_path: Path, name: str, target: str):
    path, expected = saved(tmp_path, name, target)
    outputs, modules = run_apart(cache, path)
    assert outputs == expected.tobytes()
    assert {name.split(".")[1] for name in modules if name.startswith("byocir.")} <= NEEDED
    compiler = {"byocir.targets.base", "byocir.runtime.native", "byocir.runtime.module_members"}
    assert not {"xdsl", "onnx", "byocir.dialects.graph", *compiler} & modules


def test_regions_are_called_from_a_plan(cache: Path, tmp_path: Path, never_parses):
    path, expected = saved(tmp_path, "digits_int8", "vta")
    never_parses()
    again = byocir.load(path)
    np.testing.assert_array_equal(again.run(IMAGE)["logits"], expected)
    np.testing.assert_array_equal(again.run(IMAGE)["logits"], expected)


def test_other_feeds_go_through_the_module(cache: Path, tmp_path: Path):
    path, expected = saved(tmp_path, "digits_f32")
    package = byocir.load(path)
    lists = package.run({"image": IMAGE["image"].tolist()} | IMAGE)["logits"]
    np.testing.assert_array_equal(lists, expected)
    wrong = {"image": np.zeros((1, 1, 8, 9), np.float32)}
    with pytest.raises(byocir.ByocirError, match=r"B310.*tensor<1x1x8x8xf32>"):
        package.run(wrong)
    np.testing.assert_array_equal(package.run(IMAGE)["logits"], expected)


def test_a_module_that_may_have_changed_has_no_plan(cache: Path, tmp_path: Path):
    compiled("digits_f32").save(tmp_path / "digits.bpkg")
    again = byocir.load(tmp_path / "digits.bpkg")
    assert again.module
    again.run(IMAGE)
    assert not list(cache.glob("plan-*"))


def test_a_plan_that_is_damaged_is_made_again(cache: Path, tmp_path: Path):
    path, expected = saved(tmp_path, "digits_f32")
    (plan,) = cache.glob("plan-*")
    whole = plan.read_bytes()
    first = json.loads(whole.partition(b"\n")[2])
    first["constants"][0]["type"]["shape"] = [1]  # of other weights
    other = json.dumps(first).encode()
    arena = whole.replace(b'"arena": ', b'"arena": 1')
    digest = hashlib.sha256(other).hexdigest().encode()
    for damaged in (b"", b"{", whole[:-9], arena, digest + b"\n" + other):
        plan.write_bytes(damaged)
        np.testing.assert_array_equal(byocir.load(path).run(IMAGE)["logits"], expected)
        assert plan.read_bytes() == whole


@pytest.mark.parametrize("is_planned", [False, True])
def test_weights_that_are_none_are_refused(cache: Path, tmp_path: Path, is_planned: bool):
    path, _ = saved(tmp_path, "digits_f32")
    if not is_planned:
        next(cache.glob("plan-*")).unlink()
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    members["weights.safetensors"] = junk = b"no weights"
    entry = {"sha256": hashlib.sha256(junk).hexdigest(), "size": len(junk)}
    manifest["members"]["weights.safetensors"] = entry
    members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(byocir.ByocirError, match="B122"):
        byocir.load(path).run(IMAGE)


def test_code_that_gives_other_results_than_planned_is_told(
    cache: Path, tmp_path: Path, monkeypatch
):
    path, _ = saved(tmp_path, "digits_int8", "vta")
    monkeypatch.setattr(VtaLoader, "load", lambda *_: lambda symbol, inputs: [np.zeros(3)])
    with pytest.raises(byocir.ByocirError, match=r"B311.*region vta_0, found 3 of"):
        byocir.load(path).run(IMAGE)
