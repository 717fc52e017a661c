"""Regions that are C functions are called from the host's C at once; all others, and calls that
fail, by Python."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import byocir
from byocir.dialects.types import shape_of
from byocir.errors import ByocirError
from byocir.patterns import composite, op, wildcard
from byocir.targets.base import Target
from byocir.targets.c import ARRAYS, CTarget
from byocir.targets.c_loader import CCode


@composite("inc.negation")
def negation() -> Any:
    """A negation of any shape."""
    return op("graph.neg", wildcard("x"))


@composite("py.absolute")
def absolute() -> Any:
    """An absolute value of any shape."""
    return op("graph.abs", wildcard("x"))


@dataclass(frozen=True)
class Inc(CTarget):
    """Negates in C, and fails on numbers above 100."""

    name = "inc"
    patterns = (negation,)

    def define(self, function, name):
        count = int(np.prod(shape_of(function.function_type.outputs.data[0])))
        return f"""int {name}({ARRAYS})
{{
    const float *x = inputs[0];
    float *y = outputs[0];
    for (int i = 0; i < {count}; i++) {{
        if (x[i] > 100) return 3;
        y[i] = -x[i];
    }}
    return 0;
}}"""


@dataclass(frozen=True)
class Py(Target):
    """Computes in Python."""

    name = "py"
    patterns = (absolute,)

    def emit(self, module, symbols):
        return {"none": b""}

    def load(self, blobs):
        return lambda symbol, inputs: [np.abs(inputs[0])]


def compiled() -> byocir.Package:
    """-|-(x · 2)| on the two targets, with the product on the host."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Abs", ["b"], ["c"]),
        helper.make_node("Neg", ["c"], ["d"]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xd"]
    model = helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:]))
    return byocir.compile(model, targets=[Inc(), Py()], host="c{cpu=generic}")


def as_it_is(package: byocir.Package, _: Any) -> byocir.Package:
    return package


def saved(package: byocir.Package, folder: Any) -> byocir.Package:
    """One that was saved, and has run, so that the next process has its plan."""
    package.save(folder / "net.bpkg")
    targets = [Inc(), Py()]
    byocir.load(folder / "net.bpkg", targets=targets).run({"x": np.zeros((2, 3), np.float32)})
    return byocir.load(folder / "net.bpkg", targets=targets)


@pytest.mark.parametrize("how", [as_it_is, saved])
def test_c_calls_c_and_python_the_rest(
    how: Callable[..., byocir.Package], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = how(compiled(), tmp_path)
    assert [region.target for region in package.report.regions] == ["inc", "py", "inc"]
    x = np.array([[-4, 2, -1], [0, -8, 1]], np.float32)

    def called(*_: Any) -> None:
        raise AssertionError("Python called it")

    with monkeypatch.context() as patch:
        patch.setattr(CCode, "__call__", called)
        for sign in (1, -1):
            np.testing.assert_array_equal(package.run({"x": sign * x})["d"], -np.abs(2 * x))
    with pytest.raises(ByocirError, match=r"B\d+.*inc_\d gave 3") as error:
        package.run({"x": -100 * x})
    assert error.value.code == "B219"
    np.testing.assert_array_equal(package.run({"x": x})["d"], -np.abs(2 * x))


class Runner:
    """Runs regions, and gives a number in the place of a C function."""

    def __call__(self, symbol: str, inputs: Any) -> list[Any]:
        return [np.abs(inputs[0])]

    def c_entry(self, symbol: str) -> int:
        return 5


def test_what_is_no_c_function_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Py, "load", lambda self, blobs: Runner())
    with pytest.raises(ByocirError, match=r"c_entry of target 'py' .* or None, found int") as error:
        compiled().run({"x": np.zeros((2, 3), np.float32)})
    assert error.value.code == "B228"


class Unready(Runner):
    """Its C function cannot be made ready."""

    def c_entry(self, symbol: str) -> int:
        raise ByocirError("B405", "expected another processor")


@pytest.mark.parametrize("how", [as_it_is, saved])
def test_a_function_that_cannot_be_made_ready_is_told_with_its_nodes(
    how: Callable[..., byocir.Package], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = how(compiled(), tmp_path)
    monkeypatch.setattr(Py, "load", lambda self, blobs: Unready())
    with pytest.raises(ByocirError, match=r"another processor\n  at    Abs_2") as error:
        package.run({"x": np.zeros((2, 3), np.float32)})
    assert error.value.code == "B405"
