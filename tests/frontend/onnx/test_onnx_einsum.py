"""Einsum as graph ops: random equations against numpy, and which ops the usual ones become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from onnx import helper
from onnx_models import assert_equal, check, main_of, one_node, run_byocir, run_ort
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.graph import ConstantOp, ForeignOp, TransposeOp
from byocir.dialects.graph.base import int_tuple
from byocir.errors import ByocirError
from byocir.frontend.onnx import export_onnx, import_onnx

DTYPES = [np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64]
LETTERS = "abcdXY"


def numbers(seed: int, shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
    """Small integers, whose sums are exact in all types."""
    low = 0 if np.dtype(dtype).kind == "u" else -4
    return np.random.default_rng(seed).integers(low, 5, shape).astype(dtype)


def einsum_model(
    equation: str, arrays: Sequence[np.ndarray], constants: int = 0
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """An Einsum and what it is fed; its last inputs are constants."""
    feeds = {f"x{index}": array for index, array in enumerate(arrays)}
    names = list(feeds)[len(feeds) - constants :]
    weights = {name: feeds.pop(name) for name in names}
    return one_node("Einsum", feeds, weights, equation=equation), feeds


def ops(module: ModuleOp) -> list[str]:
    """The names of the graph ops of `main`, constants apart."""
    found = [op for op in main_of(module).body.walk() if op.name.startswith("graph.")]
    return [op.name.removeprefix("graph.") for op in found if not isinstance(op, ConstantOp)]


def becomes(equation: str, *shapes: Sequence[int], constants: int = 0) -> list[str]:
    arrays = [numbers(index, shape) for index, shape in enumerate(shapes)]
    model, feeds = einsum_model(equation, arrays, constants)
    return ops(check(model, feeds, exact=True))


@st.composite
def problems(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    """An equation and the shapes of its operands; sizes of 0 and of 1 that broadcast included."""
    sizes = {x: draw(st.sampled_from([2, 3, 3, 1, 4, 0])) for x in LETTERS}
    hidden = draw(st.lists(st.sampled_from([1, 2, 3]), max_size=2))
    terms: list[str] = []
    shapes: list[tuple[int, ...]] = []
    for _ in range(draw(st.integers(1, 3))):
        letters = draw(st.lists(st.sampled_from(LETTERS), max_size=4))
        assume(max(map(letters.count, letters), default=0) <= 3)
        stretched = {x: draw(st.sampled_from([sizes[x], sizes[x], sizes[x], 1])) for x in letters}
        at = draw(st.integers(0, len(letters))) if draw(st.booleans()) else None
        whole = tuple(stretched[x] for x in letters)
        if at is not None:
            terms.append("".join(letters[:at]) + "..." + "".join(letters[at:]))
            own = tuple(draw(st.sampled_from([size, 1])) for size in hidden)
            shapes.append(whole[:at] + own + whole[at:])
        else:
            terms.append("".join(letters))
            shapes.append(whole)
    equation = draw(st.sampled_from([",", " , "])).join(terms)
    if draw(st.booleans()):
        return equation, shapes
    seen = sorted({x for term in terms for x in term if x != "."})
    kept = draw(st.permutations(seen))[: draw(st.integers(0, len(seen)))]
    if "..." in equation:
        kept.insert(draw(st.integers(0, len(kept))), "...")
    return equation + draw(st.sampled_from(["->", " -> "])) + "".join(kept), shapes


@given(problems(), st.integers(0, 2**32 - 1), st.sampled_from(DTYPES), st.integers(0, 2))
@example(("abc,cd,de->", [(2, 3, 4), (4, 2), (2, 3)]), 0, np.float32, 0)
@example(("aab,bXa->Xb", [(2, 2, 3), (1, 4, 2)]), 0, np.int64, 0)
@example(("...ab,...bc", [(2, 1, 3, 2), (1, 3, 2, 4)]), 0, np.float64, 1)
def test_random_equations(
    problem: tuple[str, list[tuple[int, ...]]], seed: int, dtype: Any, constants: int
) -> None:
    equation, shapes = problem
    arrays = [numbers(seed + index, shape, dtype) for index, shape in enumerate(shapes)]
    expected = [np.asarray(np.einsum(equation, *arrays))]
    model, feeds = einsum_model(equation, arrays, min(constants, len(arrays) - 1))
    module = import_onnx(model)
    module.verify()
    assert "foreign" not in ops(module)
    assert_equal(run_byocir(module, feeds), expected)
    exported = export_onnx(module)
    onnx.checker.check_model(exported, full_check=True)
    # ONNX Runtime sums no unsigned integers, and leaves memory as it was in sums of no elements.
    if np.dtype(dtype).kind != "u" and all(array.size for array in arrays):
        assert_equal(run_ort(exported, feeds), expected)


# -- no more ops than needed

PLAIN: Mapping[str, tuple[list[str], Sequence[Sequence[int]]]] = {
    "bij,bjk->bik": (["matmul"], [(2, 3, 4), (2, 4, 5)]),
    "bij,jk->bik": (["matmul"], [(2, 3, 4), (4, 5)]),
    "ij,bjk->bik": (["matmul"], [(3, 4), (2, 4, 5)]),
    "...ij,...jk": (["matmul"], [(2, 3, 4), (1, 4, 5)]),
    "bhij,bhjd->bhid": (["matmul"], [(2, 3, 4, 5), (2, 3, 5, 6)]),
    "bhid,bhjd->bhij": (["transpose", "matmul"], [(2, 3, 4, 5), (2, 3, 6, 5)]),
    "bqhd,bkhd->bhqk": (["transpose", "transpose", "matmul"], [(2, 4, 3, 5), (2, 6, 3, 5)]),
    "bhqk,bkhd->bqhd": (["transpose", "matmul", "transpose"], [(2, 3, 4, 6), (2, 6, 3, 5)]),
    "bld,hdk->bhlk": (["reshape", "matmul"], [(2, 3, 4), (5, 4, 6)]),
    "ij,j->i": (["matmul"], [(3, 4), (4,)]),
    "j,j->": (["matmul"], [(4,), (4,)]),
    "id,jd->ji": (["transpose", "matmul"], [(3, 4), (5, 4)]),
    "ij,ij->ij": (["mul"], [(3, 4), (3, 4)]),
    "bi,i->bi": (["mul"], [(3, 4), (4,)]),
    "i,j->ij": (["reshape", "mul"], [(3,), (4,)]),
    ",ij->ij": (["mul"], [(), (3, 4)]),
    "ij->ij": ([], [(3, 4)]),
    "ij->ji": (["transpose"], [(3, 4)]),
    "ij->j": (["reduce_sum"], [(3, 4)]),
    "ij->ji ": (["reshape"], [(1, 4)]),
    "ij->i": (["reshape"], [(3, 1)]),
    "ii->i": (["reshape", "slice"], [(3, 3)]),
    "ik,jl->ij": (["reduce_sum", "reduce_sum", "reshape", "mul"], [(3, 4), (5, 2)]),
    "ab,bc,cd->ad": (["matmul", "matmul"], [(2, 3), (3, 4), (4, 5)]),
}
"""By equation: the ops, and the shapes of the operands."""


@pytest.mark.parametrize("equation", PLAIN)
def test_no_more_ops_than_needed(equation: str) -> None:
    expected, shapes = PLAIN[equation]
    assert becomes(equation, *shapes) == expected


@pytest.mark.parametrize(
    ("equation", "x", "w", "expected"),
    [
        ("btd,dhk->bthk", (2, 3, 4), (4, 5, 6), ["matmul", "reshape"]),
        ("bthd,hdm->btm", (2, 3, 4, 5), (4, 5, 6), ["reshape", "matmul"]),
        ("bi,oi->bo", (2, 3), (4, 3), ["matmul"]),
    ],
)
def test_constants_are_moved_at_import(
    equation: str, x: tuple[int, ...], w: tuple[int, ...], expected: list[str]
) -> None:
    assert becomes(equation, x, w, constants=1) == expected


def test_the_keys_alone_are_transposed() -> None:
    model, _ = einsum_model("bhid,bhjd->bhij", [numbers(0, (2, 3, 4, 5)), numbers(1, (2, 3, 6, 5))])
    block = main_of(import_onnx(model)).body.block
    (transpose,) = [op for op in block.ops if isinstance(op, TransposeOp)]
    assert transpose.input is block.args[1]
    assert int_tuple(transpose.perm) == (0, 1, 3, 2)


def test_multiply_accumulates_are_counted() -> None:
    model, _ = einsum_model("bij,bjk->bik", [numbers(0, (2, 3, 4)), numbers(1, (2, 4, 5))])
    assert byocir.compile(model, targets=[]).report.macs == {"host": 2 * 3 * 4 * 5}


# -- what stays foreign


def reason(equation: str, *arrays: np.ndarray) -> str:
    """Why a node that only passes the checker is no graph op."""
    values = [
        helper.make_tensor_value_info(
            f"x{i}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for i, array in enumerate(arrays)
    ]
    names = [value.name for value in values]
    node = helper.make_node("Einsum", names, ["y"], equation=equation)
    output = onnx.ValueInfoProto(name="y")
    output.type.tensor_type.elem_type = values[0].type.tensor_type.elem_type
    graph = helper.make_graph([node], "test", values, [output])
    opset = helper.make_opsetid("", 21)
    try:
        module = import_onnx(helper.make_model(graph, opset_imports=[opset], ir_version=10))
    except ByocirError as error:
        return error.message
    (op,) = [op for op in main_of(module).body.walk() if isinstance(op, ForeignOp)]
    return op.reason.data


def test_small_integers_multiply_but_do_not_sum() -> None:
    x, y = numbers(0, (2, 3), np.int16), numbers(1, (2, 3), np.int16)
    found = reason("ij,kj->ik", x, y)
    assert found == "expected sums of f32, f64, f16, bf16, i32, i64, ui32, ui64, found i16"
    assert reason("ij->i", x) == found
    model, feeds = einsum_model("ij,ij->ji", [x, y])
    assert_equal(run_byocir(import_onnx(model), feeds), [(x * y).T])


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk", [(2, 3)], "expected a term for each of 1 inputs, found 2"),
        ("ijk", [(2, 3)], "expected a letter for each of 2 dimensions, found 'ijk'"),
        ("...ijk", [(2, 3)], "expected a letter for each of 2 dimensions, found '...ijk'"),
        ("i$", [(2, 3)], "expected letters and at most one ellipsis, found 'i$'"),
        ("......", [(2, 3)], "expected letters and at most one ellipsis, found '......'"),
        ("i.j", [(2, 3)], "expected letters and at most one ellipsis, found 'i.j'"),
        ("ij->...i...", [(2, 3)], "expected letters and at most one ellipsis, found '...i...'"),
        ("ij->iij", [(2, 3)], "each once"),
        ("ij->ik", [(2, 3)], "letters of the inputs"),
        ("...i->i", [(2, 3)], "all that an ellipsis stands for, found 'i'"),
        ("...,...", [(2, 3), (3,)], "an ellipsis of one number of dimensions, found several"),
        ("ii", [(1, 3)], "expected one size of 'i', found 1 and 3"),
        ("ij,jk", [(2, 3), (4, 2)], "expected one size of 'j', found [3, 4]"),
    ],
)
def test_wrong_equations_are_told(
    equation: str, shapes: list[tuple[int, ...]], expected: str
) -> None:
    assert expected in reason(equation, *(numbers(0, shape) for shape in shapes))
