"""Interrupts outside of what the tools do: during their imports, and in native code."""

import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

INTERRUPTED_BY_AN_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            {interrupt}

    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from byocir.cli.entry import {tool}
sys.argv = ["{tool}", *{words}]
sys.exit({tool}())
"""


@pytest.mark.parametrize(
    ("tool", "words", "module"),
    [
        ("byocir", ["--help"], "argparse"),
        ("byocir_opt", ["--help"], "argparse"),
        ("byocir", ["targets"], "byocir.cli.interrupts"),  # the first that it imports
        ("byocir", ["targets"], "threading"),
        ("byocir", ["run", "m.onnx"], "numpy.exceptions"),  # asked for by C, which drops it
        ("byocir_opt", ["m.onnx"], "ml_dtypes._finfo"),
    ],
)
def test_an_import_can_be_interrupted(tool: str, words: list[str], module: str):
    assert interrupted(tool, words, module) == (130, "", "interrupted\n")


def test_a_class_of_a_module_can_be_interrupted():
    """Python 3.11 makes an error of its own of it."""
    found = interrupted("byocir", ["targets"], "argparse", 'type("", (), {"field": self})')
    assert found == (130, "", "interrupted\n")


def interrupted(
    tool: str, words: list[str], module: str, by: str = "os.kill(os.getpid(), signal.SIGINT)"
) -> tuple[int, str, str]:
    """The exit code and what is told by a tool that is interrupted where a module is imported."""
    code = INTERRUPTED_BY_AN_IMPORT.format(tool=tool, words=words, module=module, interrupt=by)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


ENDLESS = """
import ctypes, sys
from byocir.cli import entry, interrupts, main

def endless():
    mutex = ctypes.create_string_buffer(64)
    print("begun", flush=True)
    while True:
        ctypes.CDLL(None).pthread_mutex_lock(mutex)  # its own: the second time never ends

main.main, interrupts.GRACE = endless, 0.1
sys.exit(entry.byocir())
"""


def test_native_code_that_does_not_end_can_be_interrupted():
    command = [sys.executable, "-c", ENDLESS]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        time.sleep(0.2)  # until it is locked
        program.send_signal(signal.SIGINT)
        _, told = program.communicate(timeout=60)
        assert (program.returncode, told) == (130, "interrupted\n")


def test_the_tools_begin_there():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    begins = project["project"]["scripts"].values()
    assert list(begins) == ["byocir.cli.entry:byocir", "byocir.cli.entry:byocir_opt"]
