"""Modules as text, and the arrays beside it."""

import contextlib
from io import StringIO

import ml_dtypes
import numpy as np
import pytest
from any_text import LETTERS
from hypothesis import example, given
from hypothesis import strategies as st
from xdsl.dialects.builtin import BytesAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.printer import Printer

from byocir.dialects.array import ArrayAttr, ArrayStore
from byocir.dialects.graph import ConstantOp
from byocir.dialects.locations import named, of_names
from byocir.dialects.text import ModulePrinter, parse_module, print_module
from byocir.dialects.weights import dump_weights, large_arrays, load_weights, save_arrays
from byocir.errors import ByocirError

DTYPES = [
    *(np.bool_, np.float16, np.float32, np.float64, ml_dtypes.bfloat16),
    *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
]


def large(dtype, size: int = 40) -> np.ndarray:
    return np.arange(size).astype(dtype)


def module_of(*arrays: np.ndarray) -> ModuleOp:
    return ModuleOp([ConstantOp.of(array) for array in arrays])


def test_printing_ends_in_a_newline_and_omits_unknown_locations():
    module = module_of(np.int8([1, 2]))
    line = "  %0 = graph.constant #graph.array<[1, 2] : tensor<2xi8>>"
    assert print_module(module) == f"builtin.module {{\n{line}\n}}\n"
    module.body.block.first_op.location = named("w")
    assert print_module(module) == f'builtin.module {{\n{line} loc("w")\n}}\n'
    assert print_module(module, debuginfo=False) == f"builtin.module {{\n{line}\n}}\n"


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_arrays_of_every_type_travel_beside_the_text(dtype, tmp_path):
    module = module_of(large(dtype), large(dtype).reshape(5, 2, 4))
    (tmp_path / "w.safetensors").write_bytes(dump_weights(module))
    store = ArrayStore()
    load_weights(tmp_path / "w.safetensors", store)
    again = parse_module(print_module(module), arrays=store)
    assert print_module(again) == print_module(module)
    for before, after in zip(module.ops, again.ops, strict=True):
        assert after.value.data.values().dtype == np.dtype(dtype)
        np.testing.assert_array_equal(after.value.data.values(), before.value.data.values())


def test_the_weights_file_depends_on_the_arrays_alone(tmp_path):
    arrays = [large("int8", n) for n in (20, 30, 40)] + [large("float32")]
    (tmp_path / "a").write_bytes(dump_weights(module_of(*arrays)))
    (tmp_path / "b").write_bytes(dump_weights(module_of(*reversed(arrays), *arrays)))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_arrays_inside_other_attributes_are_found():
    op = ConstantOp.of(np.int8([1]))
    hidden = ArrayAttr.of(large("int8"))
    op.attributes["note"] = DictionaryAttr({"deep": hidden})
    assert list(large_arrays(ModuleOp([op])).values()) == [hidden.data]


def test_absent_arrays_stay_absent(tmp_path):
    module = parse_module(print_module(module_of(large("int8"))))
    (tmp_path / "w").write_bytes(dump_weights(module))
    store = ArrayStore()
    load_weights(tmp_path / "w", store)
    again = parse_module(print_module(module), arrays=store)
    with pytest.raises(ByocirError, match=r"B107"):
        again.body.block.first_op.value.data.values()


def test_weights_that_were_changed_are_refused(tmp_path):
    arrays = large_arrays(module_of(large("int8")))
    (digest,) = arrays
    other = ArrayAttr.of(large("int8") + np.int8(1)).data
    save_arrays({digest: other}, tmp_path / "w")
    with pytest.raises(ByocirError, match=f"B108.*expected an array with digest {digest}"):
        load_weights(tmp_path / "w", ArrayStore())


@pytest.mark.parametrize("content", [b"", b"not weights at all", b"\xff" * 64])
def test_files_that_are_no_weights_are_refused(content, tmp_path):
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(ByocirError, match=r"B122.*expected weights in the safetensors format"):
        load_weights(tmp_path / "w", ArrayStore())


@pytest.mark.parametrize("dtype", ["F8_E4M3", "C64", "NONSENSE"])
def test_weights_of_types_without_a_name_here_are_refused(dtype, tmp_path):
    size = 8 if dtype == "C64" else 1
    header = b'{"d":{"dtype":"%s","shape":[1],"data_offsets":[0,%d]}}' % (dtype.encode(), size)
    header += b" " * (-len(header) % 8)
    (tmp_path / "w").write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))
    with pytest.raises(ByocirError, match=r"B122"):
        load_weights(tmp_path / "w", ArrayStore())


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ByocirError, match=r"B101.*\n  at    .*nothing\.safetensors"):
        load_weights(tmp_path / "nothing.safetensors", ArrayStore())


TEXT_ERRORS = {
    "unknown op": (
        "func.func @f() {\n  %0 = graph.reluu %x\n}",
        ["error[B120]: operation graph.reluu is not registered", "m.mlir:2:3", "did you mean"],
    ),
    "unknown dialect": ("grahp.relu", ["operation grahp.relu", "did you mean 'graph'?"]),
    "stray character": ("\n\n   ?", ["error[B120]", "m.mlir:3:4\n       ?\n       ^"]),
    "nothing": ("", ["error[B120]", "m.mlir:1:1"]),
    "op that breaks a rule": (
        "func.func @f(%x: tensor<3xi8>) {\n"
        "  %y = graph.relu %x : (tensor<3xi8>) -> tensor<4xi8>\n  func.return\n}",
        ["error[B121]: expected result type tensor<3xi8>", "m.mlir:2:3\n      %y = graph"],
    ),
    "type that breaks a rule": (
        "func.func @f(%x: i8) {\n  %y = graph.relu %x : (i8) -> i8\n  func.return\n}",
        ["error[B121]", "m.mlir:2:3"],
    ),
    "element type without numbers": (
        "%0 = graph.constant #graph.array<[1] : tensor<1xindex>>",
        ["error[B120]", "m.mlir:1:"],
    ),
    "use before definition": (
        'func.func @f(%x: i8) {\n  %a = "graph.relu"(%b) : (tensor<1xi8>) -> tensor<1xi8>\n'
        '  %b = "graph.relu"(%a) : (tensor<1xi8>) -> tensor<1xi8>\n  func.return\n}',
        ["error[B121]: expected operand 0 of graph.relu to be defined before", "m.mlir:2:3"],
    ),
    "string without an end": (
        f'#a = "{"x" * 200} // "\n// " "\nbuiltin.module {{\n  %0 = x.y "{"y" * 200}\n}}',
        ["error[B120]: expected a valid string that ends on its line", "m.mlir:4:12"],
    ),
    "a node of two parts": (
        'builtin.module attributes {n = #byoc.node<"q", "Relu">} {}',
        ["error[B120]: expected a node's name, op type, ", "found 2 parts", "m.mlir:1:"],
    ),
    "a node of five parts": (
        'builtin.module attributes {n = #byoc.node<"q", "Relu", #builtin.int<0>, "c", "d">} {}',
        ["error[B120]: expected a node's name, op type, ", "found 5 parts", "m.mlir:1:"],
    ),
    "endless nesting": ("builtin.module {" * 5000, ["error[B120]", "nesting"]),
}


@pytest.mark.parametrize("name", TEXT_ERRORS)
def test_errors_in_text_say_where(name):
    text, expected = TEXT_ERRORS[name]
    with pytest.raises(ByocirError) as caught:
        parse_module(text, file="m.mlir")
    for part in expected:
        assert part in str(caught.value)


def test_long_lines_are_cut_around_the_error():
    with pytest.raises(ByocirError) as caught:
        parse_module(f"%0 = graph.constant #graph.array<[{'1, ' * 300}?] : tensor<1xi8>>")
    position, line, caret = caught.value.where.splitlines()
    assert position == "input:1:935"
    assert len(line) <= 100
    assert line[caret.index("^")] == "?"


VALID = """builtin.module attributes {a.b = #byoc.target<"vta", {rounding = "half_up"}>} {
  func.func @main(%x: tensor<1x4x8x8xi8>) -> tensor<1x6x6x6xi8> {
    %w = graph.constant #graph.array<"00112233445566778899aabbccddeeff" : tensor<6x4x3x3xi8>>
    %s = graph.constant #graph.array<[3, -1] : tensor<2xi32>> loc(fused["a", "b"])
    %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, \
dilations = array<i64: 1, 1>, group = 1 : i64} : \
(tensor<1x4x8x8xi8>, tensor<6x4x3x3xi8>) -> tensor<1x6x6x6xi32> loc("Conv_0")
    %1 = byoc.composite "p" at "graph" (%a = %0 : tensor<1x6x6x6xi32>) -> tensor<1x6x6x6xi32> {
      %2 = graph.relu %a : (tensor<1x6x6x6xi32>) -> tensor<1x6x6x6xi32>
      byoc.yield %2 : tensor<1x6x6x6xi32>
    }
    %3 = byoc.call @f(%1) : (tensor<1x6x6x6xi32>) -> tensor<1x6x6x6xi8>
    func.return %3 : tensor<1x6x6x6xi8>
  }
  func.func private @f(tensor<1x6x6x6xi32>) -> tensor<1x6x6x6xi8>
}
"""


def test_the_valid_text_is_valid():
    text = print_module(parse_module(VALID))
    assert print_module(parse_module(text)) == text


@given(
    start=st.integers(0, len(VALID)),
    length=st.integers(0, 12),
    junk=st.text(st.sampled_from(' -10x"<>[]{}()%@#!'), max_size=2),
)
def test_damaged_text_is_a_user_error_if_any(start, length, junk):
    with contextlib.suppress(ByocirError):
        parse_module(VALID[:start] + junk + VALID[start + length :])


@given(st.text(LETTERS), st.binary())
@example('"größe" …', b"\xff")
def test_strings_of_any_letters_are_read_back(text: str, data: bytes):
    module = ModuleOp([ConstantOp.of(np.int8([1]))], {"text": StringAttr(text)})
    module.body.block.first_op.location = named(text)
    (again,) = parse_module(print_module(module)).ops
    assert again.location == named(text)
    assert again.parent_op().attributes == module.attributes
    module.attributes["data"] = BytesAttr(data)
    read = parse_module(print_module(module)).attributes["data"]
    assert (read.data if isinstance(read, BytesAttr) else read.data.encode()) == data


def test_locations_inside_others_read_back():
    """A fused location stands in `loc(…)` alone, and without it in the location of a call."""
    text = """builtin.module {
  %0 = arith.constant 1 : i32 loc(callsite(fused["a", "b"] at "tile"))
  %1 = arith.constant 2 : i32 loc(fused["a", "b"])
  %2 = arith.constant 3 : i32 loc(callsite(fused["a", "b"] at "tile"))
}
"""
    assert print_module(parse_module(text)) == text


@pytest.mark.parametrize("location", ['fused["a", "b c"]', '"a"'])
@pytest.mark.parametrize(
    "made",
    ['alloc : memref<2x3xi8, "npu.sp">', "alloc : memref<4xf32>", "empty : tensor<2xi8>"],
)
def test_types_and_locations_that_come_again_are_one_object(location: str, made: str):
    """A program of a machine has tens of thousands of ops, and few types and layers."""
    ops = "".join(f"  %{n} = tir.{made} loc({location})\n" for n in range(2))
    module = parse_module(f"builtin.module {{\n{ops}}}\n")
    assert print_module(module) == f"builtin.module {{\n{ops}}}\n"
    one, other = module.ops
    assert one.results[0].type is other.results[0].type
    assert one.location is other.location


@given(st.lists(st.text(LETTERS), min_size=2, max_size=3, unique=True))
def test_fused_locations_of_any_names_are_read_back(nodes: list[str]):
    module = module_of(np.int8([1]), np.int8([2]))
    for op in module.ops:
        op.location = of_names(nodes)
    read = parse_module(print_module(module))
    assert [op.location for op in read.ops] == [of_names(nodes)] * 2


def test_literals_are_escaped_as_xdsl_escapes_them():
    texts = []
    for kind in (Printer, ModulePrinter):
        stream = StringIO()
        kind(stream=stream).print_bytes_literal(bytes(range(256)))
        texts.append(stream.getvalue())
    assert texts[0] == texts[1]
