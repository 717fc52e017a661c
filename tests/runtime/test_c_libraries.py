"""C targets that link an installed library: where it is found, in process and in projects."""

import ctypes
import gc
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from onnx import TensorProto, helper
from projects import build, run, tools_alone, write

import byocir
from byocir.dialects.graph import LeakyReluOp
from byocir.dialects.types import f32, shape_of
from byocir.errors import ByocirError
from byocir.patterns import RegionPolicy, composite, op, wildcard
from byocir.runtime.export import export_project
from byocir.targets.c import ARRAYS, CTarget
from byocir.toolchain import build_shared

HEADER = """
typedef struct acme acme;
acme *acme_open(float slope);
void acme_leak(const acme *a, const float *x, float *y, int count);
void acme_close(acme *a);
int acme_alive(void);
"""
SOURCE = """
#include <stdlib.h>
#include "acme.h"
struct acme { float slope; };
static int alive;
int acme_alive(void) { return alive; }
acme *acme_open(float slope)
{
    acme *a = malloc(sizeof *a);
    a->slope = slope;
    alive++;
    return a;
}
void acme_leak(const acme *a, const float *x, float *y, int count)
{
    for (int i = 0; i < count; i++) y[i] = x[i] < 0 ? a->slope * x[i] : x[i];
}
void acme_close(acme *a)
{
    alive--;
    free(a);
}
"""


@composite("acme.leaky_relu")
def leaky_relu() -> Any:
    """A leaky relu of any shape."""
    return op("graph.leaky_relu", wildcard("x", dtype=f32)) @ "it"


@dataclass(frozen=True)
class Acme(CTarget):
    """Calls a library that is installed somewhere, with a state for each region."""

    name = "acme"
    patterns = (leaky_relu,)
    region_policy = RegionPolicy(merge="none")
    headers = ("acme/acme.h",)
    libraries = ("acme",)
    stateful = True

    def data(self, function):
        (taken,) = (each for each in function.walk() if isinstance(each, LeakyReluOp))
        return np.float32(taken.alpha.value.data).tobytes()

    def define(self, function, name):
        count = int(np.prod(shape_of(function.function_type.outputs.data[0])))
        return f"""int {name}_open(void **state, const void *data)
{{
    *state = acme_open(*(const float *)data);
    return *state == NULL;
}}
int {name}(void *state, {ARRAYS})
{{
    acme_leak(state, inputs[0], outputs[0], {count});
    return 0;
}}
void {name}_close(void *state)
{{
    acme_close(state);
}}"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The library in a folder, as vendors install it; no compiler looks there."""
    monkeypatch.delenv("ACME_ROOT", raising=False)
    prefix = tmp_path / "prefix"
    write({"include/acme/acme.h": HEADER.encode()}, prefix)
    (prefix / "lib").mkdir()
    built = build_shared("acme", {"acme.h": HEADER, "acme.c": SOURCE})
    (prefix / "lib" / "libacme.so").write_bytes(built.read_bytes())
    return prefix


def model():
    nodes = [
        helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.25),
        helper.make_node("LeakyRelu", ["y"], ["z"], alpha=0.5),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xz"]
    return helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:]))


FEEDS = {"x": np.array([[-4, 2, -1], [0, -8, 1]], np.float32)}
EXPECTED = np.array([[-0.5, 2, -0.125], [0, -1, 1]], np.float32)


def looking_in(*places):
    @dataclass(frozen=True)
    class Elsewhere(Acme):
        search: ClassVar = places

    return byocir.compile(model(), targets=[Elsewhere()], host="c{cpu=generic}")


def by_pkg_config(prefix, monkeypatch):
    text = f"Name: acme\nDescription: acme\nVersion: 1\nCflags: -I{prefix}/include\n"
    (prefix / "acme.pc").write_text(f"{text}Libs: -L{prefix}/lib -lacme\n")
    monkeypatch.setenv("PKG_CONFIG_PATH", str(prefix))
    return "pkg-config:acme"


def by_wheels(prefix, monkeypatch):
    """Two wheels; the library's file has no name that linkers look for."""
    (prefix / "lib" / "libacme.so").rename(prefix / "lib" / "libacme.so.3")
    for wheel, file in (("acme", "lib/libacme.so.3"), ("acme_devel", "include/acme/acme.h")):
        info = prefix / "site" / f"{wheel}-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {wheel}\nVersion: 1\n")
        (info / "RECORD").write_text(f"../{file},,\n")
    monkeypatch.syspath_prepend(str(prefix / "site"))
    return "wheels:acme acme-devel"


def by_variable(prefix, monkeypatch):
    monkeypatch.setenv("ACME_ROOT", str(prefix))
    return "/nowhere"


def by_folder(prefix, monkeypatch):
    return str(prefix)


@pytest.mark.parametrize("found", [by_pkg_config, by_wheels, by_variable, by_folder])
def test_places(found, installed, monkeypatch):
    package = looking_in("/neither", found(installed, monkeypatch))
    assert {region.target for region in package.report.regions} == {"acme"}
    np.testing.assert_array_equal(package.run(FEEDS)["z"], EXPECTED)


def test_no_place_has_it(monkeypatch):
    monkeypatch.delenv("ACME_ROOT", raising=False)
    package = looking_in("pkg-config:acme-toy", "wheels:acme-toy acme-toy-devel")
    with pytest.raises(ByocirError, match=r"B407.*'acme'.*\(acme, acme/acme.h\)") as error:
        package.run(FEEDS)
    assert "pip install acme-toy acme-toy-devel, or set ACME_ROOT" in error.value.help
    monkeypatch.setenv("ACME_ROOT", "/nowhere")
    with pytest.raises(ByocirError, match=r"B407.*none of: \$ACME_ROOT=/nowhere"):
        package.run(FEEDS)


@pytest.mark.parametrize("place", ["wheel:acme", "pkgconfig:acme", "brew:acme acme-devel"])
def test_a_place_of_no_known_kind_is_told(place, installed, monkeypatch):
    """Though another place has the library."""
    told = f"B228.*search of target 'acme' to give places .*found '{place}'"
    with pytest.raises(ByocirError, match=told) as error:
        looking_in(place, str(installed))
    assert error.value.help == "write 'pkg-config:NAME', 'wheels:NAME NAME' or a folder"


def test_states_are_made_once_and_closed(installed):
    gc.collect(0)  # what is new: all that tests made before takes a second
    package = looking_in(str(installed))
    library = ctypes.CDLL(installed / "lib" / "libacme.so")
    for _ in range(2):
        package.run(FEEDS)
        assert library.acme_alive() == 2
    del package
    gc.collect(0)
    assert library.acme_alive() == 0


def test_projects_link_it(installed, tmp_path):
    package = looking_in(str(installed))
    files = export_project(package)
    assert not any(str(installed).encode() in data for data in files.values())
    env = {**tools_alone(tmp_path), "ACME_ROOT": str(installed)}
    flags = "-g -O1 -Wall -Werror -fsanitize=address,undefined"  # leaks are told, too
    build(files, tmp_path / "made", env, flags=flags)
    np.testing.assert_array_equal(run(package, tmp_path / "made", FEEDS)["z"], EXPECTED)


def test_cmake_links_it(installed, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    package = looking_in()
    write(export_project(package), tmp_path / "source")
    configure = ["cmake", "-S", "source", "-B", "built"]
    done = subprocess.run(configure, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "set ACME_ROOT to a folder" in done.stderr
    for command in ([*configure, f"-DACME_ROOT={installed}"], ["cmake", "--build", "built"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    np.testing.assert_array_equal(run(package, tmp_path / "built", FEEDS)["z"], EXPECTED)
