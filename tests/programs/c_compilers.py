"""The C compilers and processors of this machine, for tests of C that is written for vectors."""

import importlib.util
import shutil
import sys

import pytest

from byocir.runtime.native import made_for
from byocir.toolchain import x86_64_features, x86_64_level
from byocir.toolchain.calling import FLAGS
from byocir.toolchain.cpu import CPUS

COMPILERS = ("gcc", "clang")
LEVELS = [name for name, cpu in CPUS.items() if cpu.runs_on(x86_64_level(), x86_64_features())]
"""The processors of the table whose code this machine runs."""
VECTORS = [name for name in LEVELS if CPUS[name].vector > 16 and not CPUS[name].features]
"""Those with vectors that compilers mask: AVX and AVX-512."""

VECTOR = "x86-64-v3" if "x86-64-v3" in LEVELS else LEVELS[-1]
"""The processor whose code tests run that run one."""


def use(compiler, monkeypatch):
    """Makes the toolchain build with this compiler; skips the test where there is none. Clang may
    be the one of the ziglang wheel."""
    command = shutil.which(compiler)
    if command is None and compiler == "clang" and importlib.util.find_spec("ziglang"):
        command = f"{sys.executable} -m ziglang cc"
    if command is None:
        pytest.skip(f"there is no {compiler}; pip install 'byocir[zig]' brings a clang")
    monkeypatch.setenv("CC", command)


def flags_for(host):
    """How the package builds code for a processor."""
    return (*made_for(host), *FLAGS)
