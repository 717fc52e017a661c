"""Arguments of other types, of every function of the public API: one message with a code each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import byocir
from byocir.errors import ByocirError
from byocir.rewrites.reproducer import ByocirInternalError

PORTS = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
GRAPH = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", PORTS[:1], PORTS[1:])
MODEL = helper.make_model(GRAPH, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

WRONG: tuple[Any, ...] = (
    *(None, 5, 1.5, float("nan"), True, "", "?", b"x", (), [], [1], [None], ["?"], {}, {1: 2}),
    *({"?": 5}, {"x": "ab"}, {"x": (1, "?")}, {"x": None}, {5: (1,)}, object(), int, Exception),
    *(byocir.Vta, lambda: 1, np.zeros(3), np.zeros(()), range(2)),
)


CALLBACKS = ("options", "runner", "after_pass", "on_step", "tell")
"""Parameters that are left as they are: what a caller's own function raises is the caller's."""


def refusal(call: Callable[[], object]) -> ByocirError | None:
    """The error that a call ends with, if it does; others than a user's go on."""
    try:
        call()
    except ByocirInternalError:
        raise
    except ByocirError as error:
        return error
    return None


def functions(folder: Path) -> dict[str, tuple[Callable[..., object], dict[str, Any]]]:
    """What the API has, with arguments that are right."""
    module = byocir.import_onnx(MODEL)
    package = byocir.compile(MODEL, targets=())
    path, file = folder / "net.bpkg", folder / "net.onnx"
    package.save(path)
    onnx.save(MODEL, file)
    return {
        "compile": (byocir.compile, {"model": MODEL, "targets": ()}),
        "export_onnx": (byocir.export_onnx, {"module": module}),
        "import_onnx": (byocir.import_onnx, {"model": MODEL}),
        "load": (byocir.load, {"path": path}),
        "partition": (
            lambda module, targets, **options: byocir.partition(module, targets, **options),
            {"module": module.clone(), "targets": ()},
        ),
        "quantise": (byocir.quantise, {"model": file, "data": {"x": np.zeros(2, np.float32)}}),
        "sweep": (byocir.sweep, {"model": MODEL, "vary": {"block": [16]}}),
        "tune": (byocir.tune, {"model": MODEL, "targets": ()}),
        "run": (package.run, {"feeds": {"x": np.zeros(2, np.float32)}}),
        "run_region": (package.run_region, {"symbol": "none", "inputs": []}),
        "save": (package.save, {"path": path}),
        "target": (package.target, {"name": "vta"}),
        "Vta": (byocir.Vta, {}),
    }


def parameters(name: str, call: Callable[..., object]) -> list[str]:
    function = byocir.partition if name == "partition" else call
    names = list(inspect.signature(function).parameters)
    return [each for each in names if each not in CALLBACKS]


@pytest.mark.parametrize(
    "name",
    [
        *("compile", "export_onnx", "import_onnx", "load", "partition", "quantise", "sweep"),
        "tune",
        *("run", "run_region", "save", "target", "Vta"),
    ],
)
def test_arguments_of_other_types_are_refused(name: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, right = functions(tmp_path)[name]
    for parameter in parameters(name, call):
        for value in WRONG:
            error = refusal(lambda p=parameter, v=value: call(**{**right, p: v}))
            assert error is None or re.fullmatch(r"B\d{3}", error.code)
            assert error is None or len(str(error)) < 2000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"costs": 5}, "a table of costs or the path of its file as argument 'costs', found 5"),
        ({"costs": True}, "argument 'costs', found True"),
        ({"host_ops": [1]}, "a list of strings as argument 'host_ops', found a list with 1 in it"),
        ({"host_ops": "Conv"}, "a list of strings as argument 'host_ops', found 'Conv'"),
        ({"levels": "graph"}, "a list of levels as argument 'levels', found 'graph'"),
        ({"placement": {"a": 1}}, "a mapping of names to targets as argument 'placement'"),
        ({"shapes": [("x", (2,))]}, "a mapping of names to shapes as argument 'shapes'"),
        ({"objective": None}, "a string as argument 'objective', found None"),
        ({"host": 3}, "a string as argument 'host', found 3"),
        ({"after_pass": 3}, "a function as argument 'after_pass', found 3"),
    ],
)
def test_a_message_names_the_argument(arguments: dict[str, Any], message: str):
    with pytest.raises(ByocirError, match=re.escape(message)) as caught:
        byocir.compile(MODEL, targets=(), **arguments)
    assert caught.value.code == "B142"


def test_what_is_no_module_is_refused():
    with pytest.raises(ByocirError, match=r"B142.*a module.*'module', found None"):
        byocir.export_onnx(None)
    with pytest.raises(ByocirError, match=r"B216.*found 5"):
        byocir.export_onnx(byocir.import_onnx(MODEL), targets=[5])
