"""Lifting weights out of a file changes nothing but what it costs."""

from io import BytesIO

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from byocir.dialects.weights import dump_weights
from byocir.errors import ByocirError
from byocir.frontend.onnx import import_onnx, load
from byocir.frontend.onnx.protobuf_weights import split_weights


def tensors() -> list[TensorProto]:
    """Weights in every form that a file can have them in."""
    floats = np.arange(400, dtype=np.float32)
    halves = numpy_helper.from_array(floats.astype(np.float16).reshape(20, 20), "halves")
    halves.doc_string = "a comment"
    listed = helper.make_tensor("listed", TensorProto.FLOAT, [400], floats)
    packed = helper.make_tensor("packed", TensorProto.INT4, [4000], bytes(2000), raw=True)
    small = numpy_helper.from_array(floats[:4], "small")
    return [small, halves, listed, packed, numpy_helper.from_array(floats.reshape(2, 200), "plain")]


def content(initializers: list[TensorProto]) -> bytes:
    nodes = [helper.make_node("Identity", [t.name], [f"{t.name}_out"]) for t in initializers]
    outputs = [
        helper.make_tensor_value_info(f"{t.name}_out", t.data_type, list(t.dims))
        for t in initializers
    ]
    graph = helper.make_graph(nodes, "g", [], outputs, initializers, doc_string="d" * 3000)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString()


def outcome(model: bytes) -> tuple[str, bytes | str]:
    try:
        module = import_onnx(model)
    except ByocirError as error:
        return error.code, error.message
    return str(module), dump_weights(module)


def outcome_by_protobuf(model: bytes) -> tuple[str, bytes | str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "split_weights", lambda file, size: None)
        return outcome(model)


WHOLE = content(tensors())


def test_large_raw_weights_leave_the_bytes():
    lifted = split_weights(BytesIO(WHOLE), len(WHOLE))
    assert lifted is not None
    assert sorted(lifted.raw) == [3, 4]
    assert len(lifted.content) < len(WHOLE) - 3000
    assert not any(array.flags.writeable for array in lifted.raw.values())
    left, model = onnx.ModelProto.FromString(lifted.content), onnx.ModelProto.FromString(WHOLE)
    for index, raw in lifted.raw.items():
        assert left.graph.initializer[index].raw_data == b""
        left.graph.initializer[index].raw_data = raw.tobytes()
    assert left == model
    assert outcome(WHOLE) == outcome_by_protobuf(WHOLE)


@pytest.mark.parametrize("unusual", [WHOLE + WHOLE, WHOLE[:-1], WHOLE + b"\x3b", b"\xff" * 11, b""])
def test_unusual_bytes_are_left_to_protobuf(unusual):
    assert split_weights(BytesIO(unusual), len(unusual)) is None


def test_a_number_that_its_message_cuts_off_is_left_to_protobuf():
    """It would go on behind the graph, whose length told otherwise."""
    graph = onnx.ModelProto.FromString(WHOLE).graph.SerializeToString() + b"\x60\x80"
    length = bytes([len(graph) & 0x7F | 0x80, len(graph) >> 7 & 0x7F | 0x80, len(graph) >> 14])
    model = b"\x08\x08\x3a" + length + graph + b"\x01\x42\x04\x0a\x00\x10\x0d"
    assert split_weights(BytesIO(model), len(model)) is None


@given(st.data())
def test_bytes_that_were_changed_mean_what_they_mean_to_protobuf(data):
    changed = bytearray(WHOLE)
    heads = st.integers(0, len(changed) - 1) | st.integers(0, 120)
    for at in data.draw(st.lists(heads, min_size=1, max_size=3)):
        changed[at] = data.draw(st.integers(0, 255))
    model = bytes(changed[: data.draw(st.just(len(changed)) | st.integers(0, len(changed)))])
    assert outcome(model) == outcome_by_protobuf(model)


@pytest.mark.parametrize("data_type", [TensorProto.STRING, TensorProto.UNDEFINED, 99])
@pytest.mark.parametrize("dims", [[4, 128], [-4, -128], [3], [2**62, 2**62]])
def test_weights_that_are_not_what_they_say_are_told_alike(data_type, dims):
    for kind in (data_type, TensorProto.FLOAT):
        model = content([TensorProto(name="w", data_type=kind, dims=dims, raw_data=bytes(2048))])
        assert outcome(model) == outcome_by_protobuf(model)


def test_weights_given_twice_are_told_alike():
    twice = numpy_helper.from_array(np.arange(400, dtype=np.float32), "w")
    twice.float_data.extend([1.0] * 400)
    model = content([twice])
    assert outcome(model) == outcome_by_protobuf(model)
