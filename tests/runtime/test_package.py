"""Packages: what is in the file, and what is refused."""

import copy
import gc
import hashlib
import json
import os
import pickle
import struct
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from xdsl.dialects.builtin import TensorType, UnitAttr

import byocir
from byocir.dialects.types import DTYPES, DYNAMIC
from byocir.isolation import Limits, isolated
from byocir.patterns import composite, op, wildcard
from byocir.runtime import module_members
from byocir.runtime.interface import ValueType

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
SHAPES = {"image": (1, 1, 8, 8)}


@pytest.fixture(scope="module")
def package() -> byocir.Package:
    return byocir.compile(DIGITS / "digits_int8.onnx", shapes=SHAPES)


@pytest.fixture
def saved(package: byocir.Package, tmp_path: Path) -> Path:
    package.save(tmp_path / "digits.bpkg")
    return tmp_path / "digits.bpkg"


def image() -> dict[str, np.ndarray]:
    with np.load(DIGITS / "digits_test.npz") as data:
        return {"image": data["image"][:1]}


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path: Path, contents: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)


def refused(path: Path, code: str) -> str:
    with pytest.raises(byocir.ByocirError) as error:
        byocir.load(path)
    assert error.value.code == code
    return error.value.message


def test_a_loaded_package_runs_as_the_compiled_one(package: byocir.Package, saved: Path):
    again = byocir.load(saved)
    assert np.array_equal(again.run(image())["logits"], package.run(image())["logits"])
    assert again.report.to_json() == package.report.to_json()
    assert list(again.inputs) == ["image"]
    assert list(again.outputs) == ["logits"]


@pytest.mark.parametrize("host", ["reference", "c"])
def test_a_package_that_has_run_can_be_copied_and_pickled(
    host: str, package: byocir.Package, tmp_path: Path
):
    """What it holds to run is made anew; the copy is as far from it as one from a file."""
    if host == "c":
        path = DIGITS / "digits_int8.onnx"
        package = byocir.compile(path, targets=[], shapes=SHAPES, host=host)
    expected = package.run(image())["logits"]
    package.save(tmp_path / "first.bpkg")
    for made in (copy.deepcopy(package), pickle.loads(pickle.dumps(package))):
        made.save(tmp_path / "again.bpkg")
        assert (tmp_path / "again.bpkg").read_bytes() == (tmp_path / "first.bpkg").read_bytes()
        assert np.array_equal(made.run(image())["logits"], expected)
        assert made.module is not package.module


def test_a_copy_keeps_the_targets_it_was_given():
    """Though another class of the name is known by then."""

    def own(sign: int) -> byocir.Target:
        @composite("relu")
        def relu():
            return op("graph.relu", wildcard("x"))

        @dataclass(frozen=True)
        class Copied(byocir.Target):
            name, patterns = "copied", (relu,)

            def emit(self, module, symbols):
                return {"code": b"x"}

            def load(self, blobs):
                return lambda symbol, inputs: [sign * inputs[0]]

        return Copied()

    node = helper.make_node("Relu", ["x"], ["y"])
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    package = byocir.compile(model, targets=[own(3)])
    byocir.compile(model, targets=[own(-1)])
    made = copy.deepcopy(package)
    assert made.run({"x": np.float32([1, 2])})["y"].tolist() == [3, 6]


def test_it_is_short_where_it_is_shown(package: byocir.Package):
    assert repr(package) == "<Package of 70 nodes, 1 regions of ['vta']>"


def test_saving_a_loaded_package_gives_the_same_bytes(saved: Path, tmp_path: Path):
    byocir.load(saved).save(tmp_path / "again.bpkg")
    assert (tmp_path / "again.bpkg").read_bytes() == saved.read_bytes()


def test_members_are_stored_with_fixed_times_in_fixed_order(saved: Path):
    with zipfile.ZipFile(saved) as archive:
        infos = archive.infolist()
    assert [info.filename for info in infos][:4] == [
        "manifest.json",
        "module.mlir",
        "weights.safetensors",
        "report.json",
    ]
    assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
    assert {info.compress_type for info in infos} == {zipfile.ZIP_STORED}


def changed(saved: Path, member: str) -> Path:
    """The package with another last byte of a member."""
    contents = members(saved)
    contents[member] = contents[member][:-1] + b"?"
    rewrite(saved, contents)
    return saved


def test_a_changed_report_is_refused(saved: Path):
    assert "report.json" in refused(changed(saved, "report.json"), "B134")


@pytest.mark.parametrize(
    ("member", "use"),
    [
        ("module.mlir", lambda p: p.run(image())),
        ("module.mlir", lambda p: p.module),
        ("weights.safetensors", lambda p: p.run(image())),
        ("weights.safetensors", lambda p: p.save(os.devnull)),
        ("blobs/vta/vta_0.insns", lambda p: p.run(image())),
        ("blobs/vta/vta_0.insns", lambda p: p.profile()),
        ("blobs/vta/vta_0.insns", lambda p: copy.deepcopy(p)),
    ],
)
def test_a_changed_member_is_refused_before_it_is_used(saved: Path, member: str, use):
    package = byocir.load(changed(saved, member))
    assert package.inputs
    assert package.report.regions
    for _ in range(2):
        with pytest.raises(byocir.ByocirError, match=f"B134.*{member}"):
            use(package)


def test_a_flipped_byte_anywhere_is_refused_or_changes_nothing(saved: Path):
    whole = saved.read_bytes()
    expected = byocir.load(saved).run(image())["logits"]
    step = len(whole) // 40
    for place in [*range(0, len(whole), step), len(whole) - 1]:
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        with suppress(byocir.ByocirError):
            assert np.array_equal(byocir.load(saved).run(image())["logits"], expected)


def test_loading_reads_the_manifest_and_the_report_alone(saved: Path, monkeypatch):
    size, read = len(members(saved)["report.json"]), list[int]()
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *args: (read.append(args[1]), pread(*args))[1])
    package = byocir.load(saved)
    assert sum(read) == size + 30 * len(members(saved)) - 30
    read.clear()
    package.run(image())
    assert len(read) == len(set(read)) == len(package.blobs["vta"]) + 2
    package.run(image())
    assert len(read) == len(package.blobs["vta"]) + 2  # each once


@pytest.mark.parametrize("has_pread", [True, False])
def test_threads_and_forks_read_members_at_once(saved: Path, monkeypatch, has_pread: bool):
    if not has_pread:
        monkeypatch.delattr(os, "pread")
    contents, package = members(saved), byocir.load(saved)
    blobs = package.blobs["vta"]
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(blobs.get, blobs)] == [contents[f"blobs/vta/{name}"] for name in blobs]
    again = byocir.load(saved)
    if has_pread:
        assert isolated(lambda: len(again.blobs["vta"]["vta_0.insns"]), Limits())
        assert again.blobs["vta"]["vta_0.insns"] == contents["blobs/vta/vta_0.insns"]


def test_a_loaded_package_is_that_of_its_file_when_another_takes_its_place(
    package: byocir.Package, saved: Path, tmp_path: Path
):
    again = byocir.load(saved)
    expected = package.run(image())["logits"]
    byocir.compile(DIGITS / "digits_f32.onnx", targets=[], shapes=SHAPES).save(saved)
    np.testing.assert_array_equal(again.run(image())["logits"], expected)
    other = byocir.load(saved)
    saved.unlink()
    other.save(tmp_path / "other.bpkg")


def test_files_of_packages_are_closed(saved: Path):
    gc.collect(0)  # what is new: all that tests made before takes a second
    before = len(os.listdir("/dev/fd"))
    packages = [byocir.load(saved) for _ in range(3)]
    assert len(os.listdir("/dev/fd")) == before + 3
    del packages
    gc.collect(0)
    assert len(os.listdir("/dev/fd")) == before


def test_a_file_cut_short_after_loading_is_told(saved: Path):
    package = byocir.load(saved)
    os.truncate(saved, 2000)
    with pytest.raises(byocir.ByocirError, match="B134"):
        package.run(image())


def test_inputs_and_outputs_tell_shapes_and_dtypes_as_numpy_does():
    for element, dtype in DTYPES.items():
        found = ValueType(str(TensorType(element, [2, DYNAMIC])))
        assert (found.shape, found.dtype) == ((2, None), dtype)
    assert ValueType("tensor<f32>").shape == ()
    for text in ("tensor<*xf32>", "!graph.sequence<tensor<1xf32>>", "!graph.unknown"):
        assert ValueType(text).shape is None
    for text in ("!graph.string", "tensor<3x!graph.string>"):
        assert ValueType(text).dtype is None


@pytest.mark.parametrize("size", [0, 10, 1000, -30])
def test_a_truncated_file_is_refused(saved: Path, size: int):
    saved.write_bytes(saved.read_bytes()[:size])
    refused(saved, "B131")


def test_a_file_that_is_no_package_is_refused(tmp_path: Path):
    (tmp_path / "x.bpkg").write_text("hello")
    refused(tmp_path / "x.bpkg", "B131")
    refused(tmp_path / "none.bpkg", "B130")
    rewrite(tmp_path / "x.bpkg", {})
    refused(tmp_path / "x.bpkg", "B131")
    refused(Path(os.devnull), "B131")
    for path in (None, 3):
        refused(path, "B130")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["../evil", "blobs/../../evil", "/etc/x", "blobs/vta/..", "extra"])
def test_a_member_that_leaves_the_package_is_refused(saved: Path, name: str):
    rewrite(saved, {**members(saved), name: b"x"})
    refused(saved, "B133")


def test_compressed_members_are_refused(saved: Path):
    rewrite(saved, members(saved), zipfile.ZIP_DEFLATED)
    refused(saved, "B133")


def test_a_missing_member_is_refused(saved: Path):
    contents = members(saved)
    del contents["module.mlir"]
    rewrite(saved, contents)
    refused(saved, "B133")


def test_another_version_is_refused(saved: Path):
    contents = members(saved)
    manifest = json.loads(contents["manifest.json"])
    contents["manifest.json"] = json.dumps({**manifest, "schema_version": 99}).encode()
    rewrite(saved, contents)
    assert "99" in refused(saved, "B132")


def test_a_size_that_lies_is_refused(saved: Path):
    raw = bytearray(saved.read_bytes())
    directory = raw.rindex(b"PK\x01\x02")
    raw[directory + 24 : directory + 28] = struct.pack("<I", 1 << 30)
    saved.write_bytes(bytes(raw))
    with pytest.raises(byocir.ByocirError):
        byocir.load(saved)


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({}, "expected a feed for input 'image'"),
        ({"imgae": np.zeros((1, 1, 8, 8), np.float32)}, "imgae"),
        ({"image": np.zeros((1, 1, 8, 9), np.float32)}, "1x1x8x9"),
        ({"image": np.zeros((1, 1, 8, 8), np.float64)}, "float64"),
    ],
)
def test_feeds_that_do_not_fit_are_one_message(
    package: byocir.Package, feeds: dict[str, np.ndarray], words: str
):
    with pytest.raises(byocir.ByocirError) as error:
        package.run(feeds)
    assert error.value.code == "B310"
    assert words in error.value.render()


def test_running_changes_no_feed(package: byocir.Package):
    feeds = image()
    before = feeds["image"].copy()
    feeds["image"].flags.writeable = False
    package.run(feeds)
    assert np.array_equal(before, feeds["image"])


def forged(saved: Path, member: str, data: bytes) -> None:
    """A package with another member and digests that fit it."""
    contents = members(saved)
    contents[member] = data
    manifest = json.loads(contents["manifest.json"])
    manifest["members"][member] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    contents["manifest.json"] = json.dumps(manifest).encode()
    rewrite(saved, contents)


@pytest.mark.parametrize(
    ("member", "data"),
    [
        ("report.json", b"xx"),
        ("report.json", b"{}"),
        ("report.json", b"[]"),
    ],
)
def test_members_that_hold_something_else_are_refused(saved: Path, member: str, data: bytes):
    forged(saved, member, data)
    refused(saved, "B135")


@pytest.mark.parametrize(
    "change",
    [
        {"dram": 10**13},
        {"dram": -3},
        {"dram": 3},
        {"inputs": [{"address": 10**9, "shape": [1, 1, 8, 8, 16], "dtype": "int8"}]},
        {"inputs": [{"address": 0, "shape": [1], "dtype": "O"}]},
        {"config": {}},
        {"spans": 3},
    ],
)
def test_programs_that_hold_something_else_are_refused(saved: Path, change: dict[str, object]):
    program = json.loads(members(saved)["blobs/vta/vta_0.json"])
    forged(saved, "blobs/vta/vta_0.json", json.dumps(program | change).encode())
    with pytest.raises(byocir.ByocirError, match="B330"):
        byocir.load(saved).run(image())


def test_the_manifest_tells_the_interface(saved: Path):
    manifest = json.loads(members(saved)["manifest.json"])
    assert manifest["inputs"] == {"image": "tensor<1x1x8x8xf32>"}
    assert manifest["outputs"] == {"logits": "tensor<1x10xf32>"}
    (target,) = manifest["targets"]
    assert target["name"] == "vta"
    assert target["options"] == {
        "rounding": "floor",
        "block": 16,
        "config": "",
        "gather": True,
    }


def test_loading_reads_no_module(package: byocir.Package, saved: Path, monkeypatch, tmp_path: Path):
    read: list[str] = []
    parse = module_members.parse_module
    monkeypatch.setattr(
        module_members, "parse_module", lambda *args: (read.append("read"), parse(*args))[1]
    )
    again = byocir.load(saved, targets=["vta"])
    assert again.inputs == package.inputs
    assert again.outputs == package.outputs
    assert again.targets == package.targets
    assert again.report.to_json() == package.report.to_json()
    copy.deepcopy(again).save(tmp_path / "again.bpkg")
    assert not read
    assert again.module is again.module
    again.run(image())
    assert read == ["read"]


def test_what_was_changed_in_a_loaded_module_is_saved(saved: Path, tmp_path: Path):
    again = byocir.load(saved)
    again.module.attributes["byoc.changed"] = UnitAttr()
    again.save(tmp_path / "again.bpkg")
    assert "byoc.changed" in byocir.load(tmp_path / "again.bpkg").module.attributes


def described(saved: Path, change: dict[str, object]) -> None:
    """A package whose manifest tells something else of the module."""
    contents = members(saved)
    manifest = json.loads(contents["manifest.json"]) | change
    rewrite(saved, contents | {"manifest.json": json.dumps(manifest).encode()})


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": {"image": "tensor<1x1x8x9xf32>"}},
        {"inputs": {"picture": "tensor<1x1x8x8xf32>"}},
        {"targets": []},
        {"targets": [{"name": "vta", "options": {"rounding": "half_even", "block": 16}}]},
    ],
)
def test_a_module_that_the_manifest_describes_otherwise_is_refused(
    saved: Path, change: dict[str, object]
):
    described(saved, change)
    package = byocir.load(saved)
    with pytest.raises(byocir.ByocirError, match="B135"):
        package.run(image())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"inputs": {"image": "tensor<"}}, "B120"),
        ({"inputs": {"image": "tensor<" * 9999}}, "B120"),
        ({"inputs": {"image": 3}}, "B135"),
        ({"inputs": None}, "B135"),
        ({"targets": [{"name": "vta"}]}, "B135"),
        ({"targets": [{"name": "vta", "options": {"block": {}}}]}, "B135"),
        ({"targets": [{"name": "vta", "options": {"block": 10**30}}]}, "B135"),
    ],
)
def test_a_manifest_that_describes_nothing_is_refused(
    saved: Path, change: dict[str, object], code: str
):
    described(saved, change)
    with pytest.raises(byocir.ByocirError, match=code):
        _ = byocir.load(saved).inputs, byocir.load(saved).targets


@pytest.mark.parametrize(("text", "code"), [(b"func.func @main(", "B120"), (b"\xff\xfe", "B135")])
def test_a_text_that_is_no_module_is_refused_when_it_is_read(saved: Path, text: bytes, code: str):
    forged(saved, "module.mlir", text)
    package = byocir.load(saved)
    with pytest.raises(byocir.ByocirError, match=code):
        package.run(image())


def test_wrong_targets_and_options_leave_no_trace(small: str):
    with pytest.raises(byocir.ByocirError, match="B216"):
        byocir.compile(DIGITS / "digits_int8.onnx", targets=[byocir.Vta], shapes=SHAPES)  # type: ignore[list-item]
    with pytest.raises(byocir.ByocirError, match="B213"):
        byocir.compile(DIGITS / "digits_int8.onnx", shapes=SHAPES, speed=3)
    package = byocir.compile(small, targets="vta", levels=["graph"], block=8)
    (target,) = package.targets
    assert target.options.data["block"].value.data == 8


def test_feeds_may_be_lists_and_must_be_named(package: byocir.Package):
    pixels = image()["image"]
    with pytest.raises(byocir.ByocirError, match="float64"):
        package.run({"image": pixels.tolist()})
    with pytest.raises(byocir.ByocirError, match="by name"):
        package.run(pixels)  # type: ignore[arg-type]
