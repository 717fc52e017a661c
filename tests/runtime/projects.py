"""Exported projects, built and run in a folder of their own where there is no Python."""

import shutil
import subprocess

import numpy as np

from byocir.evaluate.module import random_feeds
from byocir.runtime.export import export_project

FINDING = "-Werror -fsanitize=address,undefined -fno-sanitize-recover"
SANITIZE = f"-O0 {FINDING}"
"""Flags for sanitizers, from which no optimiser takes what they look for, in a third of the
time."""
TOOLS = ("make", "sh", "gcc", "clang", "as", "ld")


def tools_alone(folder):
    """An environment of the programs that build projects, in which there is no Python."""
    tools = folder / "tools"
    tools.mkdir()
    for tool in TOOLS:
        path = shutil.which(tool)
        if path is not None:
            (tools / tool).symlink_to(path)
    return {"PATH": str(tools)}


def write(files, folder):
    """A project's files in a new folder."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def build(files, folder, env, compiler="gcc", flags="-O0 -Werror"):
    write(files, folder)
    command = ["make", f"CC={compiler}", f"CFLAGS={flags}"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def run(package, folder, feeds):
    """The program's outputs for inputs by name."""
    inputs = [f"in{i}.npy" for i in range(len(package.inputs))]
    outputs = [f"out{i}.npy" for i in range(len(package.outputs))]
    for path, name in zip(inputs, package.inputs, strict=True):
        np.save(folder / path, feeds[name])
    command = ["./model", *inputs, *outputs]
    done = subprocess.run(command, cwd=folder, env={"PATH": ""}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    arrays = [np.load(folder / path) for path in outputs]
    return dict(zip(package.outputs, arrays, strict=True))


def check(package, folder, env, **options):
    build(export_project(package), folder, env, **options)
    feeds = random_feeds(package.module, 7)
    expected, found = package.run(feeds), run(package, folder, feeds)
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)
