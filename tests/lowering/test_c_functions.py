"""exp, erf and tanh in C are within two units of the last place, for any number."""

import ctypes
import math

import numpy as np
import pytest

from byocir.lowering.tir_to_c.functions import FUNCTIONS
from byocir.toolchain import build_shared, load_shared

FLAGS = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-lm")
FLAGS += ("-fsanitize=undefined", "-fno-sanitize-recover")
HEAD = "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n"
EXACT = {"exp": np.exp, "erf": np.vectorize(math.erf, otypes=[float]), "tanh": np.tanh}
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 88.7228, 88.7229, -87.4, -103.9, -104, 3e38]


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_a_function_is_near(name):
    parts = "".join(text for _, text in sorted(FUNCTIONS[name].items()))
    loop = f"for (ptrdiff_t i = 0; i < n; i++) y[i] = {name}_f32(x[i]);"
    main = f"void all(const float *x, float *y, ptrdiff_t n)\n{{\n    {loop}\n}}\n"
    library = load_shared(build_shared(name, {f"{name}.c": HEAD + parts + main}, FLAGS))
    small = np.geomspace(1e-42, 1, 2000)
    x = np.concatenate([np.linspace(-110, 95, 20001), small, -small, SPECIAL]).astype(np.float32)
    found = np.empty_like(x)
    library.all(*(ctypes.c_void_p(a.ctypes.data) for a in (x, found)), ctypes.c_ssize_t(len(x)))
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64))
        nearest = exact.astype(np.float32)
    finite = np.isfinite(nearest)
    np.testing.assert_array_equal(found[~finite], nearest[~finite])
    units = np.abs(found[finite] - exact[finite]) / np.spacing(np.abs(nearest[finite]))
    assert units.max() < 2
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(nearest[finite]))
