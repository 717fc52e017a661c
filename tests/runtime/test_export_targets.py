"""Projects with regions of several targets: devices, C of graph ops, C of blocks, the host's C."""

import shutil
import subprocess
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from projects import build, check, run, tools_alone, write

import byocir
from byocir.dialects.byoc import CompositeOp
from byocir.dialects.types import f32, i8, shape_of
from byocir.errors import ByocirError
from byocir.evaluate.module import random_feeds
from byocir.patterns import block, composite, op, wildcard
from byocir.patterns.policy import RegionPolicy
from byocir.runtime.export import export_project
from byocir.runtime.project_regions import expect_device
from byocir.targets.base import Target
from byocir.targets.c import ARRAYS, CTarget
from byocir.targets.device import Device
from byocir.targets.vta import Vta
from byocir.vendor.user_code import import_file

DIGITS = "examples/digits/digits_int8.onnx"
SHAPES = {"image": (1, 1, 8, 8)}
ONE_BY_ONE = RegionPolicy(merge="none")


@pytest.fixture
def alone(tmp_path):
    return tools_alone(tmp_path)


@composite("dsp.max_pool")
def max_pool():
    return op("graph.max_pool", wildcard("x", dtype=i8), dilations=(1, 1)) @ "pool"


@dataclass(frozen=True)
class Dsp(CTarget):
    """Maxima over windows, from graph ops."""

    name = "dsp"
    patterns = (max_pool,)
    region_policy = ONE_BY_ONE
    library: ClassVar = {
        "util.h": "#include <stdint.h>\nint8_t dsp_larger(int8_t x, int8_t y);\n",
        "util.c": '#include "util.h"\n'
        "static int8_t helper(int8_t x, int8_t y) { return x > y ? x : y; }\n"
        "int8_t dsp_larger(int8_t x, int8_t y) { return helper(x, y); }\n",
    }
    preamble = '#include "util.h"'

    def define(self, function, name):
        (pool,) = (each for each in function.walk() if each.name == "graph.max_pool")
        (_, channels, high, wide) = shape_of(pool.operands[0].type)
        (_, _, rows, columns) = shape_of(pool.results[0].type)
        (r, s), (sh, sw) = pool.kernel_shape.get_values(), pool.strides.get_values()
        top, left, *_ = pool.pads.get_values()
        return f"""int {name}({ARRAYS})
{{
    const int8_t *x = inputs[0];
    int8_t *y = outputs[0];
    for (int c = 0; c < {channels}; c++)
        for (int i = 0; i < {rows}; i++)
            for (int j = 0; j < {columns}; j++) {{
                int8_t most = -128;
                for (int a = i * {sh} - {top}; a < i * {sh} - {top} + {r}; a++)
                    for (int b = j * {sw} - {left}; b < j * {sw} - {left} + {s}; b++)
                        if (a >= 0 && a < {high} && b >= 0 && b < {wide})
                            most = dsp_larger(most, x[(c * {high} + a) * {wide} + b]);
                y[(c * {rows} + i) * {columns} + j] = most;
            }}
    return 0;
}}"""


@composite("back_end.scale")
def scale():
    x, factor = wildcard("x", dtype=i8), wildcard("factor", dtype=f32)
    return block("*i", x["*i"], factor[""], lambda acc, v, by: v.to(f32) * by)


@dataclass(frozen=True)
class BackEnd(CTarget):
    """Integers to floats, from blocks. Its files are called as those of the other."""

    name = "back_end"
    patterns = (scale,)
    codegen_level = "tensor"
    library: ClassVar = {
        "util.h": "void back_end_scale(const signed char *, float, float *, int);\n",
        "util.c": '#include "util.h"\n'
        "static float helper(signed char x, float by) { return (float)x * by; }\n"
        "void back_end_scale(const signed char *x, float by, float *y, int count)\n"
        "{\n    for (int i = 0; i < count; i++) y[i] = helper(x[i], by);\n}\n",
    }
    preamble = '#include "util.h"'

    def define(self, function, name):
        (taken,) = (each for each in function.walk() if isinstance(each, CompositeOp))
        block = next(each for each in taken.walk() if each.name == "tir.block")
        (_, factor) = block.ins
        # The factor is a constant of the region, or comes in beside x.
        value = "*(const float *)inputs[1]"
        for each in function.walk():
            if each.name == "tir.constant" and shape_of(each.results[0].type) == ():
                value = float(each.value.data.numpy()).hex() + "f"
        assert shape_of(factor.type) == ()
        return f"""int {name}({ARRAYS})
{{
    back_end_scale(inputs[0], {value}, outputs[0], {prod(block.extents)});
    return 0;
}}"""


def compiled(*targets, **options):
    return byocir.compile(
        DIGITS, shapes=SHAPES, targets=[*targets], host="c{cpu=generic}", **options
    )


@pytest.fixture(scope="module")
def several():
    """The digits, compiled for a device and for C at both levels."""
    return compiled(Dsp(), Vta(), BackEnd())


def taken(package):
    return {(region.target, region.level) for region in package.report.regions}


ALL = {("vta", "graph"), ("dsp", "graph"), ("back_end", "tensor")}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_device_and_c_at_both_levels(compiler, several, tmp_path, alone):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    assert taken(several) == ALL
    assert several.report.host == ["image_QuantizeLinear"]
    expected = byocir.compile(DIGITS, shapes=SHAPES)
    feeds = random_feeds(several.module, 7)
    np.testing.assert_array_equal(several.run(feeds)["logits"], expected.run(feeds)["logits"])
    check(several, tmp_path / "project", alone, compiler=compiler, flags="-O0 -Werror")


def test_each_target_has_its_own_folder(several, tmp_path):
    files = export_project(several)
    assert files["dsp/util.c"] != files["back_end/util.c"]
    assert {"vta/device.h", "vta/device_vta.c", "regions_vta.c", "dsp/regions.c"} <= {*files}
    path = tmp_path / "several.bpkg"
    several.save(path)
    targets = [Dsp(), Vta(), BackEnd()]
    assert export_project(byocir.load(path, targets=targets)) == files


def test_cmake_builds_several_targets(several, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    write(export_project(several, weights="c"), tmp_path / "source")
    for command in (
        [
            "cmake",
            "-S",
            "source",
            "-B",
            "built",
            "-DCMAKE_C_FLAGS=-Werror",
            "-DCMAKE_BUILD_TYPE=Debug",
        ],
        ["cmake", "--build", "built"],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    feeds = random_feeds(several.module, 7)
    found = run(several, tmp_path / "built", feeds)
    np.testing.assert_array_equal(found["logits"], several.run(feeds)["logits"])


@dataclass(frozen=True)
class Second(Vta):
    """Another accelerator of the same kind."""

    name = "second"
    block: int = 8


@dataclass(frozen=True)
class Other(Vta):
    """An accelerator whose device is other C, with functions of its own under other names."""

    name = "other"

    def device(self, blobs):
        made = super().device(blobs)
        files = {
            name: data.replace(b"vta_", b"own_").replace(b"VTA_", b"OWN_")
            for name, data in made.files.items()
        }
        return Device(made.regions, {name.replace("vta_", "own_"): d for name, d in files.items()})


def test_devices_of_one_kind_share_files_others_have_their_own(tmp_path, alone):
    places = {"/block1/.*": "second", "/block2/.*": "other"}
    package = compiled(Vta(), Second(), Other(), placement=places)
    assert {target for target, _ in taken(package)} == {"vta", "second", "other"}
    files = export_project(package)
    found = [path for path in files if path.endswith("device_vta.c")]
    assert found == ["other/device_vta.c", "vta/device_vta.c"]
    assert {"regions_vta.c", "regions_second.c", "regions_other.c"} <= {*files}
    check(package, tmp_path / "project", alone, flags="-O0 -Werror")


TWO_MODELS = """
#include "npy.h"
#include "first.h"
#include "first_blob.h"
#include "first_regions.h"
#include "model.h"
#include "blob.h"
#include "regions.h"

static unsigned char arena[FIRST_ARENA_BYTES + MODEL_ARENA_BYTES + FIRST_ALIGN];
static _Alignas(FIRST_ALIGN) float image[64], once[10], twice[10];

int main(void)
{
    static const size_t flat[] = {1, 1, 8, 8}, row[] = {1, 10};
    const npy_type in = {"image", "<f4", 4, flat, sizeof image};
    const npy_type out = {"y", "<f4", 2, row, sizeof once};
    void *const bytes = arena + (FIRST_ALIGN - (size_t)arena % FIRST_ALIGN) % FIRST_ALIGN;
    first_regions r;
    regions s;
    if (npy_read("in0.npy", &in, image)) return 1;
    if (first_regions_open(&r, first_bytes) || regions_open(&s, model_bytes)) return 2;
    const struct first_inputs a = {image};
    const struct first_outputs b = {once};
    if (first_run(&a, &b, first_bytes, bytes, first_regions_run, &r)) return 3;
    const struct model_inputs c = {image};
    const struct model_outputs d = {twice};
    if (model_run(&c, &d, model_bytes, bytes, regions_run, &s)) return 4;
    first_regions_close(&r);
    regions_close(&s);
    for (int i = 0; i < 10; i++) once[i] -= twice[i];
    return npy_write("out0.npy", &out, once);
}
"""


def test_two_models_on_the_same_targets_in_one_program(several, tmp_path, alone):
    own = {"project.h", "main.c", "Makefile", "CMakeLists.txt"}
    both = export_project(several, weights="c") | export_project(several, weights="c", name="first")
    files = {path: data for path, data in both.items() if path not in own}
    files["main.c"] = TWO_MODELS.encode()
    sources = " ".join(sorted(path for path in files if path.endswith(".c")))
    files["Makefile"] = f"model:\n\t$(CC) -std=c11 $(CFLAGS) -o $@ {sources} -lm\n".encode()
    build(files, tmp_path / "project", alone, flags="-O0 -Wall -Werror")
    feeds = random_feeds(several.module, 7)
    assert not run(several, tmp_path / "project", feeds)["logits"].any()


@dataclass(frozen=True)
class Failing(Dsp):
    """Code that fails where it runs, or gives something else where it is exported."""

    mistake: str = ""

    def define(self, function, name):
        if self.mistake == "code":
            return f"int {name}({ARRAYS})\n{{\n    (void)inputs, (void)outputs;\n    return 7;\n}}"
        return super().define(function, name)

    def device(self, blobs):
        made = super().device(blobs)
        if self.mistake == "other":
            return "regions.c"
        if self.mistake == "file":
            return type(made)(made.functions, made.source, {"../evil.c": b""})
        return type(made)({}, made.source) if self.mistake == "none" else made


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("other", r"B351.*of target 'dsp' a Device or CFunctions from `device`, found str"),
        ("file", r"B351.*of target 'dsp' files of plain names.*found '\.\./evil\.c'"),
        ("none", r"B351.*of target 'dsp' each of its regions from `device`, found no dsp_0"),
    ],
)
def test_mistakes_of_targets(mistake, message):
    package = compiled(Failing(mistake=mistake))
    with pytest.raises(ByocirError, match=message):
        export_project(package)


def test_code_that_fails(tmp_path, alone):
    package = compiled(Failing(mistake="code"))
    feeds = random_feeds(package.module, 7)
    with pytest.raises(ByocirError, match=r"B219.*'dsp' failed in run.*the code of dsp_0 gave 7"):
        package.run(feeds)
    build(export_project(package), tmp_path / "project", alone)
    np.save(tmp_path / "project" / "in.npy", feeds["image"])
    command = ["./model", "in.npy", "out.npy"]
    done = subprocess.run(command, cwd=tmp_path / "project", capture_output=True, text=True)
    assert (done.returncode, "code 7" in done.stderr) == (1, True)


def test_a_target_without_c_is_refused():
    class Plain(Target):
        name = "plain"
        patterns = (max_pool.renamed("pool"),)

    with pytest.raises(ByocirError, match=r"B351.*device or functions in C, found plain") as error:
        export_project(compiled(Vta(), Plain(), placement={"/max_pool/MaxPool": "plain"}))
    assert "issue" not in error.value.help


def test_a_device_that_gives_nothing_is_told_so():
    """To define `device`, or a machine's `issue`, would not help."""

    class Silent(Target):
        name = "silent"
        patterns = (max_pool.renamed("pool"),)

        def device(self, blobs):
            return None

    with pytest.raises(ByocirError, match=r"B351.*functions in C, found silent") as error:
        export_project(compiled(Silent(), placement={"/max_pool/MaxPool": "silent"}))
    assert "`device` of its class gave None" in error.value.help


@pytest.mark.parametrize("example", ["counted_engine:Engine", "vta_machine:Vta16"])
def test_a_described_machine_is_told_what_its_description_lacks(example: str) -> None:
    """Files that a machine assembles are no entries that `issue` could take."""
    file, _, name = example.partition(":")
    found = import_file(Path(__file__).parents[2] / "examples" / f"{file}.py", "B217")
    with pytest.raises(ByocirError, match="B351") as error:
        expect_device(getattr(found, name)())
    assert ("`issue` of machine engine" in error.value.help) == (name == "Engine")


def test_a_library_keeps_off_names_that_are_taken():
    @dataclass(frozen=True)
    class Taken(Dsp):
        library: ClassVar = {"regions.c": ""}

    with pytest.raises(ByocirError, match=r"B218.*without a file regions\.c"):
        compiled(Taken())


def test_a_model_is_not_called_as_a_target(several):
    for name in ("vta", "back_end", "device_vta", "regions_dsp"):
        with pytest.raises(ByocirError, match=r"B354.*"):
            export_project(several, name=name)
