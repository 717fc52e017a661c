"""For plain lit: `lit tests/filecheck`. The same files run in one process under pytest."""

import os
import sys

import lit.formats

config.name = "byocir"  # noqa: F821
config.test_format = lit.formats.ShTest()  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.environment["PATH"] = os.pathsep.join(  # noqa: F821
    [os.path.dirname(sys.executable), os.environ.get("PATH", "")]
)
