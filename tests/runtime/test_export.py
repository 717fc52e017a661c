"""Exported projects: built and run in an empty folder, with no Python to be found."""

import shutil
import subprocess
from hashlib import sha256

import numpy as np
import onnx
import pytest
from host_models import attention, depthwise_net, model_of, recurrent
from onnx import helper
from projects import SANITIZE, build, check, run, tools_alone
from qdq_models import small_net

import byocir
from byocir.cli.export import check_folder, write_project
from byocir.cli.main import main
from byocir.errors import ByocirError
from byocir.evaluate.module import random_feeds
from byocir.patterns import composite, op, wildcard
from byocir.runtime.export import export_project
from byocir.targets.base import Target
from byocir.targets.device import Device, DeviceRegion
from byocir.toolchain import x86_64_level
from byocir.vta_sim import VTAConfig

DIGITS = "examples/digits/digits_int8.onnx"
SHAPES = {"image": (1, 1, 8, 8)}


@pytest.fixture
def alone(tmp_path):
    return tools_alone(tmp_path)


@pytest.fixture(scope="module")
def digits():
    return byocir.compile(DIGITS, shapes=SHAPES, host="c{cpu=generic}")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_digits_on_vta(compiler, digits, tmp_path, alone):
    """With the warnings that only an optimiser gives."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    assert digits.report.regions
    check(digits, tmp_path / "project", alone, compiler=compiler, flags="-O1 -Werror")


def test_sanitizers_find_nothing(digits, tmp_path, alone):
    check(digits, tmp_path / "vta", alone, flags=SANITIZE)
    # Its tiles are larger; it fuses nothing, so results do not depend on how it is built.
    cpu = "x86-64-v2" if x86_64_level() >= 2 else "generic"
    host = byocir.compile(depthwise_net(), targets=[], host=f"c{{cpu={cpu},threads=2}}")
    check(host, tmp_path / "host", alone, flags=SANITIZE)


def test_a_model_without_regions(tmp_path, alone):
    package = byocir.compile(attention(), targets=[], host="c{cpu=generic}")
    assert "regions.c" not in export_project(package)
    check(package, tmp_path / "project", alone)


def test_several_inputs_and_outputs(tmp_path, alone):
    nodes = [
        helper.make_node("Add", ["x y", "int"], ["s"]),
        helper.make_node("ArgMax", ["s"], ["at"], axis=1),
        helper.make_node("Greater", ["s", "int"], ["more"]),
    ]
    model = model_of(nodes, {"x y": (2, 3), "int": (3,)}, ["s", "at", "more"])
    check(byocir.compile(model, targets=[], host="c{cpu=generic}"), tmp_path / "project", alone)


def test_files_that_do_not_fit_are_refused(tmp_path, alone):
    nodes = [helper.make_node("Add", ["image", "w"], ["y"])]
    weights = {"w": np.ones((8, 8), np.float32)}
    model = model_of(nodes, {"image": (1, 1, 8, 8)}, ["y"], weights)
    folder = tmp_path / "project"
    package = byocir.compile(model, targets=[], host="c{cpu=generic}")
    build(export_project(package), folder, alone)

    def error(array):
        np.save(folder / "in.npy", array)
        command = ["./model", "in.npy", "out.npy"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 1
        assert not (folder / "out.npy").exists()
        return done.stderr

    image = np.zeros((1, 1, 8, 8), np.float32)
    assert "expected <f4 of shape (1, 1, 8, 8) for image, found another type" in error(
        image.astype(np.float64)
    )
    assert "found another shape" in error(image[0])
    assert "found column-major order" in error(np.asfortranarray(np.zeros((1, 1, 8, 8), "<f4")))
    (folder / "model.bin").write_bytes(b"short")
    assert "model.bin: expected" in error(image)
    done = subprocess.run(["./model"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, "usage: ./model image.npy" in done.stderr) == (2, True)


def test_a_device_of_another_configuration_refuses_a_region(digits, tmp_path, alone):
    folder = tmp_path / "project"
    numbers = ",".join(map(str, VTAConfig(log_batch=1).device_numbers))
    build(export_project(digits), folder, alone, flags=f"-O0 -DDEVICE_VTA_CONFIG={numbers}")
    np.save(folder / "in.npy", np.zeros((1, 1, 8, 8), np.float32))
    command = ["./model", "in.npy", "out.npy"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error[V208]: expected a region for VTA 1, 4, 13, 10, 10, 10, 1, 1, found one for 0, 4, "
    )


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_loops_routines_and_halves(compiler, tmp_path, alone):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    flags = "-O1 -Werror" if compiler == "clang" else SANITIZE
    package = byocir.compile(recurrent(), targets=[], host="c{cpu=generic}")
    check(package, tmp_path / "project", alone, compiler=compiler, flags=flags)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_routine_alone_and_a_constant_without_elements(compiler, tmp_path, alone):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    nodes = [
        helper.make_node("NonZero", ["x"], ["found"]),
        helper.make_node("Concat", ["found", "none"], ["places"], axis=1),
        helper.make_node("Add", ["x", "b"], ["y"]),
    ]
    constants = {"none": np.zeros((2, 0), np.int64), "b": np.float32([10, 20, 30])}
    model = model_of(nodes, {"x": (2, 3)}, ["places", "y"], constants)
    package = byocir.compile(model, targets=[], host="c{cpu=generic}")
    flags = "-O1 -Werror" if compiler == "clang" else SANITIZE
    check(package, tmp_path / "project", alone, compiler=compiler, flags=flags)


def test_what_has_no_c_is_refused():
    nodes = [helper.make_node("Det", ["x"], ["d"], name="volume")]
    model = model_of(nodes, {"x": (3, 3)}, ["d"])
    with pytest.raises(ByocirError, match=r"B350.*found Det: it stays an ONNX .*\n.*volume"):
        export_project(byocir.compile(model, targets=[], host="c{cpu=generic}"))


def test_the_command_line(tmp_path, capsys):
    model, package, folder = (tmp_path / name for name in ("m.onnx", "m.bpkg", "project"))
    onnx.save(small_net(), model)
    assert main(["compile", str(model), "-o", str(package)]) == 0
    assert main(["export", str(package), "-o", str(folder)]) == 0
    assert "make, then ./model" in capsys.readouterr().out


@pytest.mark.parametrize("target", ["json", "examples/vta_machine.py"])
def test_a_target_without_a_device_is_refused_before_there_is_code(
    target, small, tmp_path, monkeypatch, capsys
):
    """A model of which it takes nothing needs none."""
    words = ["export", "-o", str(tmp_path / "p"), "--target", target]
    if target != "json":
        floats = str(tmp_path / "floats.onnx")
        onnx.save(model_of([helper.make_node("Tanh", ["x"], ["y"])], {"x": (2, 3)}, ["y"]), floats)
        assert main([*words, floats]) == 0
    monkeypatch.setattr("byocir.cli.steps.generate", None)
    assert main([*words, small]) == 1
    assert "error[B351]: expected a target with a device" in capsys.readouterr().err


def test_a_project_is_replaced_where_nobody_else_wrote(tmp_path):
    first = {"main.c": b"int main", "old/a.c": b"a", "model.bin": b"1"}
    write_project(tmp_path, first)
    (tmp_path / "model").write_bytes(b"built by make")
    (tmp_path / "model.bin").unlink()
    check_folder(tmp_path)
    write_project(tmp_path, {"main.c": b"2", "new/b.c": b"b"})
    kept = {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*.*")}
    assert kept.pop("manifest.json")
    assert kept == {"main.c": b"2", "new/b.c": b"b"}
    assert (tmp_path / "model").exists()
    with pytest.raises(ByocirError, match=r"B112.*found model, which it did not write"):
        write_project(tmp_path, {"model": b""})
    (tmp_path / "main.c").write_bytes(b"by hand")
    with pytest.raises(ByocirError, match=r"B112.*found main.c, which was changed since"):
        check_folder(tmp_path)
    check_folder(tmp_path, force=True)
    write_project(tmp_path, {"main.c": b"3", "model": b""}, force=True)
    check_folder(tmp_path)


@pytest.mark.parametrize("name", ["/etc/passwd", "../../else.c"])
def test_a_list_of_files_elsewhere_is_no_list(name, tmp_path):
    write_project(tmp_path, {"main.c": b""})
    manifest = tmp_path / "manifest.json"
    manifest.write_text(manifest.read_text().replace("main.c", name))
    with pytest.raises(ByocirError, match=r"B112.*found other files"):
        check_folder(tmp_path)


def test_the_same_model_gives_the_same_bytes():
    one, other = (byocir.compile(small_net(), host="c{cpu=generic}") for _ in range(2))
    assert export_project(one) == export_project(other)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_weights_can_be_compiled_in(compiler, tmp_path, alone):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    package = byocir.compile(attention(), targets=[], host="c{cpu=generic}")
    files = export_project(package, weights="c")
    assert "model.bin" not in files
    flags = SANITIZE if compiler == "gcc" else "-O1 -Werror"
    build(files, tmp_path / "project", alone, compiler=compiler, flags=flags)
    feeds = random_feeds(package.module, 7)
    for name, array in package.run(feeds).items():
        np.testing.assert_array_equal(run(package, tmp_path / "project", feeds)[name], array)
    with pytest.raises(ByocirError, match=r"B353.*'C'\n.*did you mean 'c'"):
        export_project(package, weights="C")


def test_large_weights_lie_on_the_heap_and_in_no_c(tmp_path, alone, monkeypatch):
    package = byocir.compile(attention(), targets=[], host="c{cpu=generic}")
    check(package, tmp_path / "project", alone, flags=f"{SANITIZE} -DPROJECT_LARGE=0")
    monkeypatch.setattr("byocir.runtime.export.MOST_IN_C", 99)
    with pytest.raises(ByocirError, match=r"B353.*at most 99 bytes as C"):
        export_project(package, weights="c")


def test_weights_of_another_model_are_refused(tmp_path, alone):
    package = byocir.compile(attention(), targets=[], host="c{cpu=generic}")
    files = export_project(package)
    folder = tmp_path / "project"
    build(files, folder, alone, flags="-O0 -Werror")
    wrong = bytearray(files["model.bin"])
    wrong[len(wrong) // 2] ^= 1
    (folder / "model.bin").write_bytes(wrong)
    arguments = ["./model", *["x.npy"] * (len(package.inputs) + len(package.outputs))]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    digests = [sha256(data).hexdigest()[:16] for data in (files["model.bin"], wrong)]
    assert done.returncode == 1
    assert done.stderr == (
        "./model.bin: expected the file that was exported with this program, "
        f"digest {digests[0]}, found {digests[1]}\n"
    )


def test_an_arena_that_is_too_small_does_not_compile(tmp_path, alone):
    package = byocir.compile(attention(), targets=[], host="c{cpu=generic}")
    files = export_project(package)
    size = package.report.memory["arena"]
    text = files["model.h"].decode()
    assert f"#define MODEL_ARENA_BYTES {size}\n" in text
    smaller = text.replace(f"ARENA_BYTES {size}", f"ARENA_BYTES {size // 2}")
    with pytest.raises(AssertionError, match="model_arena_holds_all"):
        build({**files, "model.h": smaller.encode()}, tmp_path / "project", alone)


@composite("own.add")
def add():
    """A sum."""
    return op("graph.add", wildcard("x"), wildcard("y"))


class Own(Target):
    """Adds floats; what it gives for a device is the length of the arrays."""

    name = "own"
    patterns = (add,)

    def emit(self, module, symbols):
        return {"code": ",".join(symbols).encode()}

    def load(self, blobs):
        return lambda symbol, inputs: [inputs[0] + inputs[1]]

    def device(self, blobs):
        size = 4 * 6
        regions = {
            symbol: DeviceRegion(
                b"+", b"", 3 * size, [(0, size), (size, size)], [(2 * size, size)], [6]
            )
            for symbol in blobs["code"].decode().split(",")
        }
        return Device(regions, {})


OWN_DEVICE = b"""#include <stdlib.h>
#include <string.h>

#include "device.h"

struct device {
    const device_region *region;
    unsigned char memory[4096];
};

static device only;

device *device_open(void) { return &only; }

int device_load(device *d, int index, const device_region *region)
{
    d->region = region;
    return index != 0 || region->memory_bytes > sizeof d->memory || region->code[0] != '+';
}

int device_run(device *d, int index, const void *const *inputs)
{
    for (size_t i = 0; i < d->region->input_count; i++)
        memcpy(d->memory + d->region->inputs[i].address, inputs[i], d->region->inputs[i].bytes);
    return index;
}

int device_wait(device *d, int index, void *const *outputs)
{
    float x[6], y[6];
    const device_port *port = d->region->outputs;
    memcpy(x, d->memory + d->region->inputs[0].address, sizeof x);
    memcpy(y, d->memory + d->region->inputs[1].address, sizeof y);
    for (uint32_t i = 0; i < d->region->config[0]; i++) x[i] += y[i];
    memcpy(d->memory + port->address, x, port->bytes);
    memcpy(outputs[index], d->memory + port->address, port->bytes);
    return 0;
}

void device_close(device *d) { d->region = NULL; }
"""


def test_a_device_of_ones_own_is_five_functions_in_c(tmp_path, alone):
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("Add", ["t", "y"], ["s"]),
        helper.make_node("Relu", ["s"], ["z"]),
    ]
    model = model_of(nodes, {"x": (2, 3), "y": (2, 3)}, ["z"])
    package = byocir.compile(model, targets=[Own()], host="c{cpu=generic}")
    assert [region.target for region in package.report.regions] == ["own"]
    files = export_project(package)
    makefile = files["Makefile"].decode().replace("SOURCES = ", "SOURCES = own/device_own.c ")
    files |= {"own/device_own.c": OWN_DEVICE, "Makefile": makefile.encode()}
    build(files, tmp_path / "project", alone, flags=SANITIZE)
    feeds = random_feeds(package.module, 7)
    found = run(package, tmp_path / "project", feeds)
    np.testing.assert_allclose(found["z"], package.run(feeds)["z"], rtol=1e-6)


TWO_MODELS = """
#include <string.h>
#include "npy.h"
#include "first.h"
#include "first_blob.h"
#include "first_regions.h"
#include "second.h"
#include "second_blob.h"

static unsigned char arena[FIRST_ARENA_BYTES + SECOND_ARENA_BYTES + FIRST_ALIGN];
static _Alignas(FIRST_ALIGN) float image[64], logits[10], doubled[10];

int main(void)
{
    static const size_t flat[] = {1, 1, 8, 8}, row[] = {1, 10};
    const npy_type in = {"image", "<f4", 4, flat, sizeof image};
    const npy_type out = {"y", "<f4", 2, row, sizeof doubled};
    void *const bytes = arena + (FIRST_ALIGN - (size_t)arena % FIRST_ALIGN) % FIRST_ALIGN;
    first_regions r;
    if (npy_read("in0.npy", &in, image) || first_regions_open(&r, first_bytes)) return 1;
    const struct first_inputs a = {image};
    const struct first_outputs b = {logits};
    if (first_run(&a, &b, first_bytes, bytes, first_regions_run, &r)) return 2;
    const struct second_inputs c = {logits};
    const struct second_outputs d = {doubled};
    if (second_run(&c, &d, second_bytes, bytes, NULL, NULL)) return 3;
    first_regions_close(&r);
    return npy_write("out0.npy", &out, doubled);
}
"""


def test_two_models_in_one_program(digits, tmp_path, alone):
    """One with regions, one without, and no name twice (apache/tvm#8014)."""
    nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
    second = byocir.compile(model_of(nodes, {"x": (1, 10)}, ["y"]), targets=[])
    with pytest.raises(ByocirError, match=r"B354.*found 'device_vta'"):
        export_project(digits, name="device_vta")
    files = export_project(digits, weights="c", name="first")
    more = export_project(second, weights="c", name="second")
    own = {"project.h", "main.c", "Makefile", "CMakeLists.txt"}
    shared = {*files} & {*more} - own
    assert all(files[name] == more[name] for name in shared)
    assert shared == {"device.h", "npy.c", "npy.h", "sha256.c", "sha256.h"}
    both = {name: data for name, data in {**more, **files}.items() if name not in own}
    both["main.c"] = TWO_MODELS.encode()
    sources = " ".join(sorted(name for name in both if name.endswith(".c")))
    both["Makefile"] = f"model:\n\t$(CC) -std=c11 $(CFLAGS) -o $@ {sources} -lm\n".encode()
    folder = tmp_path / "project"
    build(both, folder, alone, flags="-O0 -Wall -Werror")
    feeds = random_feeds(digits.module, 7)
    np.save(folder / "in0.npy", feeds["image"])
    done = subprocess.run(["./model"], cwd=folder, env={"PATH": ""}, capture_output=True)
    assert done.returncode == 0
    np.testing.assert_array_equal(np.load(folder / "out0.npy"), digits.run(feeds)["logits"] * 2)


def test_a_named_project_runs_under_its_name(tmp_path, alone):
    package = byocir.compile(attention(), targets=[], host="c{cpu=generic}")
    files = export_project(package, name="detector")
    assert "detector.bin" in files
    assert b"model_" not in files["detector.h"] + files["project.h"]
    folder = tmp_path / "project"
    build(files, folder, alone)
    (folder / "detector").rename(folder / "model")
    feeds = random_feeds(package.module, 7)
    for name, array in run(package, folder, feeds).items():
        np.testing.assert_array_equal(array, package.run(feeds)[name])


def test_names_that_a_project_cannot_have():
    nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
    package = byocir.compile(model_of(nodes, {"x": (1, 10)}, ["y"]), targets=[])
    for name in ("", "main", "a b", "1a", "Upper", "é", "../x", "a" * 99):
        with pytest.raises(ByocirError, match=r"B354.*expected a name of small letters"):
            export_project(package, name=name)
