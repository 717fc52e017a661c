"""Random element by element operators: import, evaluation and export against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx_models import check, make_model, one_node

FLOATS = [np.float32, np.float32, np.float64]
INTS = [np.int32, np.int64]
NUMBERS = [*FLOATS, *INTS]

UNARY: dict[str, tuple[list[Any], tuple[float, float], bool]] = {
    "Abs": ([*NUMBERS, np.int8, np.uint8], (-9, 9), True),
    "Acos": ([np.float32], (-1, 1), False),
    "Acosh": ([np.float32], (1, 9), False),
    "Asin": ([np.float32], (-1, 1), False),
    "Asinh": ([np.float32], (-9, 9), False),
    "Atan": ([np.float32], (-9, 9), False),
    "Atanh": ([np.float32], (-0.9, 0.9), False),
    "Ceil": (FLOATS, (-9, 9), True),
    "Cos": (FLOATS, (-9, 9), False),
    "Cosh": ([np.float32], (-4, 4), False),
    "Erf": ([np.float32], (-4, 4), False),
    "Exp": (FLOATS, (-9, 9), False),
    "Floor": (FLOATS, (-9, 9), True),
    "HardSwish": ([np.float32], (-5, 5), False),
    "Log": (FLOATS, (0.01, 9), False),
    "Mish": ([np.float32], (-20, 30), False),
    "Neg": ([*NUMBERS, np.int8], (-9, 9), True),
    "Reciprocal": (FLOATS, (0.1, 9), False),
    "Relu": ([*FLOATS, np.int8, np.int32], (-9, 9), True),
    "Round": (FLOATS, (-9, 9), True),
    "Sigmoid": (FLOATS, (-30, 30), False),
    "Sign": ([*NUMBERS, np.int8, np.uint8], (-3, 3), True),
    "Sin": (FLOATS, (-9, 9), False),
    "Sinh": ([np.float32], (-4, 4), False),
    "Softplus": ([np.float32], (-30, 30), False),
    "Softsign": ([np.float32], (-9, 9), False),
    "Sqrt": (FLOATS, (0, 9), True),
    "Tan": ([np.float32], (-1.5, 1.5), False),
    "Tanh": (FLOATS, (-9, 9), False),
}
"""Operator: dtypes that ONNX Runtime has it for, range of the input, whether it is exact."""

ACTIVATIONS: dict[str, dict[str, tuple[float, float]]] = {
    "Celu": {"alpha": (0.125, 2)},
    "Elu": {"alpha": (0.125, 2)},
    "HardSigmoid": {"alpha": (0.125, 2), "beta": (0, 1)},
    "LeakyRelu": {"alpha": (0.015625, 2)},
    "Selu": {"alpha": (0.125, 2), "gamma": (0.125, 2)},
    "Shrink": {"bias": (-1, 1), "lambd": (0, 2)},
    "ThresholdedRelu": {"alpha": (0, 2)},
}
"""Operator: ranges of its attributes, each of which may be absent."""

FEW = max(settings.default.max_examples // 10, 1)
"""How many examples for each operator of a family."""

shapes = st.lists(st.integers(0, 4), max_size=3)


@st.composite
def arrays(
    draw: st.DrawFn, shape: list[int], dtype: Any, low: float = -9, high: float = 9
) -> np.ndarray:
    """Numbers in a range; floats are halves here and there, the rest anything."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = rng.uniform(low, high, shape)
    if draw(st.booleans()):
        values = np.clip(np.round(values * 2) / 2, low, high)
    if np.dtype(dtype).kind == "b":
        return np.asarray(values > (low + high) / 2)
    if np.dtype(dtype).kind == "u":
        return np.asarray(np.abs(values), dtype)
    return np.asarray(values, dtype)


@st.composite
def broadcasting(draw: st.DrawFn, dtypes: list[Any], count: int = 2) -> list[np.ndarray]:
    """Arrays whose shapes broadcast to a common one."""
    shape = draw(st.lists(st.integers(1, 4), max_size=3))
    found: list[np.ndarray] = []
    for dtype in dtypes[:count]:
        own = [draw(st.sampled_from([size, 1])) for size in shape]
        found.append(draw(arrays(own[draw(st.integers(0, len(own))) :], dtype)))
    return found


@pytest.mark.parametrize("operator", UNARY)
def test_unary(operator: str) -> None:
    dtypes, (low, high), exact = UNARY[operator]

    @settings(max_examples=FEW)
    @given(st.data(), shapes, st.sampled_from(dtypes))
    def run(data: st.DataObject, shape: list[int], dtype: Any) -> None:
        feeds = {"x": data.draw(arrays(shape, dtype, low, high))}
        check(one_node(operator, feeds), feeds, exact)

    run()


@pytest.mark.parametrize("operator", ACTIVATIONS)
def test_activation(operator: str) -> None:
    @settings(max_examples=FEW)
    @given(st.data(), shapes)
    def run(data: st.DataObject, shape: list[int]) -> None:
        attributes = {
            name: data.draw(st.floats(*limits, width=32, allow_subnormal=False))
            for name, limits in ACTIVATIONS[operator].items()
            if data.draw(st.booleans())
        }
        feeds = {"x": data.draw(arrays(shape, np.float32, -4, 4))}
        check(one_node(operator, feeds, **attributes), feeds)

    run()


@given(st.data(), shapes, st.sampled_from(["none", "tanh"]))
def test_gelu(data: st.DataObject, shape: list[int], approximate: str) -> None:
    feeds = {"x": data.draw(arrays(shape, np.float32, -4, 4))}
    check(one_node("Gelu", feeds, approximate=approximate), feeds)


@given(st.data(), st.sampled_from([(4,), (3, 4), (3, 1), (1,), ()]))
def test_prelu(data: st.DataObject, slope: tuple[int, ...]) -> None:
    feeds = {"x": data.draw(arrays([2, 3, 4], np.float32))}
    check(one_node("PRelu", feeds, {"s": data.draw(arrays(list(slope), np.float32))}), feeds)


ARITHMETIC: dict[str, list[Any]] = {
    "Max": [*NUMBERS, np.int8, np.uint8],
    "Min": [*NUMBERS, np.int8, np.uint8],
    "Sum": FLOATS,
    "Mean": [np.float32],
    "Equal": [*NUMBERS, np.bool_],
    "Less": NUMBERS,
    "LessOrEqual": NUMBERS,
    "Greater": NUMBERS,
    "GreaterOrEqual": NUMBERS,
    "And": [np.bool_],
    "Or": [np.bool_],
    "Xor": [np.bool_],
    "BitwiseAnd": [*INTS, np.int8, np.uint16],
    "BitwiseOr": [*INTS, np.int8, np.uint16],
    "BitwiseXor": [*INTS, np.int8, np.uint16],
}
"""Operator: dtypes that ONNX Runtime has it for."""


@pytest.mark.parametrize("operator", ARITHMETIC)
def test_binary(operator: str) -> None:
    @settings(max_examples=FEW)
    @given(st.data(), st.sampled_from(ARITHMETIC[operator]), st.integers(1, 3))
    def run(data: st.DataObject, dtype: Any, count: int) -> None:
        count = count if operator in ("Max", "Min", "Sum", "Mean") else 2
        operands = data.draw(broadcasting([dtype] * count, count))
        feeds = {f"x{index}": array for index, array in enumerate(operands)}
        check(one_node(operator, feeds), feeds, exact=operator != "Mean")

    run()


@given(st.data(), st.sampled_from(INTS), st.booleans())
def test_mod(data: st.DataObject, dtype: Any, fmod: bool) -> None:
    dtype = np.float32 if fmod and data.draw(st.booleans()) else dtype
    x, y = data.draw(broadcasting([dtype] * 2))
    feeds = {"a": x, "b": np.asarray(np.where(y == 0, 1, y), dtype)}
    check(one_node("Mod", feeds, fmod=int(fmod)), feeds, exact=True)


@given(st.data(), st.sampled_from([np.uint8, np.uint32]), st.sampled_from(["LEFT", "RIGHT"]))
def test_bit_shift(data: st.DataObject, dtype: Any, direction: str) -> None:
    x, y = data.draw(broadcasting([dtype] * 2))
    feeds = {"a": np.asarray(x * dtype(13)), "b": np.asarray(y % dtype(8))}
    check(one_node("BitShift", feeds, direction=direction), feeds, exact=True)


@given(st.data(), shapes, st.sampled_from([("Not", np.bool_), ("BitwiseNot", np.int32)]))
def test_not(data: st.DataObject, shape: list[int], form: tuple[str, Any]) -> None:
    feeds = {"x": data.draw(arrays(shape, form[1]))}
    check(one_node(form[0], feeds), feeds, exact=True)


@given(st.data(), st.sampled_from([*FLOATS, *INTS]), st.sampled_from([*FLOATS, *INTS]))
def test_pow(data: st.DataObject, base: Any, exponent: Any) -> None:
    x, y = data.draw(broadcasting([base, exponent]))
    least = 0 if np.dtype(base).kind == "i" else -3
    y = np.asarray(np.clip(np.trunc(y), least, 4), exponent)
    feeds = {"a": np.asarray(np.where(x == 0, 1, x), base), "b": y}
    check(one_node("Pow", feeds), feeds)


@given(st.data(), st.sampled_from([np.float32, np.int64, np.int32, np.uint8]))
def test_where(data: st.DataObject, dtype: Any) -> None:
    c, x, y = data.draw(broadcasting([np.bool_, dtype, dtype], 3))
    feeds = {"c": c, "a": x, "b": y}
    check(one_node("Where", feeds), feeds, exact=True)


CASTS = [np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.bool_]


@given(st.data(), shapes, st.sampled_from(CASTS), st.sampled_from(CASTS))
def test_cast(data: st.DataObject, shape: list[int], source: Any, target: Any) -> None:
    low = 0 if np.dtype(target).kind == "u" else -9
    feeds = {"x": data.draw(arrays(shape, source, low))}
    to = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    check(one_node("Cast", feeds, to=to), feeds, exact=True)
    like = {**feeds, "like": np.ones(1, target)}
    check(one_node("CastLike", like), like, exact=True)


@given(st.data(), shapes, st.sampled_from([{}, {"detect_negative": 0}, {"detect_positive": 0}]))
def test_classification(data: st.DataObject, shape: list[int], flags: dict[str, int]) -> None:
    x = data.draw(arrays(shape, np.float32))
    with np.errstate(all="ignore"):
        feeds = {"x": np.asarray(np.where(np.abs(x) < 2, x * np.inf, x), np.float32)}
    check(one_node("IsInf", feeds, **flags), feeds, exact=True)
    check(one_node("IsNaN", feeds), feeds, exact=True)


@given(st.data(), st.booleans(), st.booleans())
def test_computed_bounds(data: st.DataObject, has_min: bool, has_max: bool) -> None:
    feeds = {"x": data.draw(arrays([3, 4], np.float32))}
    names = ["x"]
    for present, name, value in ((has_min, "lo", -2), (has_max, "hi", 3)):
        names.append(name if present else "")
        if present:
            feeds[name] = np.array(value, np.float32)
    check(make_model([helper.make_node("Clip", names, ["y"])], feeds), feeds, exact=True)


def test_numbers_that_do_not_fit_saturate() -> None:
    """ONNX leaves it open; ONNX Runtime gives what the processor does."""
    from onnx_models import run_byocir

    from byocir.frontend.onnx import import_onnx

    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 300.7, -300.7, -0.9], np.float32)
    for to, dtype in ((TensorProto.INT8, np.int8), (TensorProto.INT64, np.int64)):
        (found,) = run_byocir(import_onnx(one_node("Cast", {"x": x}, to=to)), {"x": x})
        info = np.iinfo(dtype)
        near = [info.max, info.min] if dtype is np.int8 else [300, -300]
        assert found.tolist() == [0, info.max, info.min, info.max, info.min, *near, 0]


def test_integers_to_negative_powers() -> None:
    from onnx_models import run_byocir

    from byocir.frontend.onnx import import_onnx

    feeds = {"a": np.array([-2, -1, -1, 0, 1, 2], np.int32)}
    feeds["b"] = np.array([-1, -2, -3, -1, -5, -1], np.int32)
    (found,) = run_byocir(import_onnx(one_node("Pow", feeds)), feeds)
    assert found.tolist() == [0, 1, -1, 0, 1, 0]
