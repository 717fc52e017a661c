"""No op of the graph level takes a result it does not compute: each is held against wrong types.
What a foreign op gives, ONNX alone knows."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdsl.dialects.builtin import Float64Type, IntegerType, TensorType
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.context import load_context
from byocir.dialects.graph import ForeignOp, Graph
from byocir.dialects.text import parse_module

EXAMPLES = Path(__file__).parents[1] / "filecheck" / "dialects" / "graph"


def examples() -> dict[type[Operation], list[Operation]]:
    """The ops that the round trips of the dialect print, by class."""
    found: dict[type[Operation], list[Operation]] = {}
    for path in sorted(EXAMPLES.glob("*.mlir")):
        if path.name.startswith("invalid"):
            continue
        for part in re.split(r"^// -----$", path.read_text(), flags=re.MULTILINE):
            for op in parse_module(part, load_context()).walk():
                found.setdefault(type(op), []).append(op)
    return found


OPS = examples()
INFERRED = [op for op in Graph.operations if op is not ForeignOp]
"""All but those whose results only ONNX knows."""


def wrong(type_: TensorType) -> Iterator[TensorType]:
    """Another rank, another size, another element type."""
    element, shape = type_.element_type, list(type_.get_shape())
    yield TensorType(element, [*shape, 7])
    if shape:
        yield TensorType(element, [shape[0] + 1, *shape[1:]])
    other = IntegerType(4) if isinstance(element, Float64Type) else Float64Type()
    yield TensorType(other, shape)


@pytest.mark.parametrize("op", INFERRED)
def test_a_wrong_result_is_refused_in_one_sentence(op: type[Operation]):
    for example in OPS[op]:
        for position, result in enumerate(example.results):
            assert isinstance(result.type, TensorType)
            for type_ in wrong(result.type):
                types = [other.type for other in example.results]
                types[position] = type_
                changed = type(example).create(
                    operands=example.operands,
                    result_types=types,
                    properties=dict(example.properties),
                    attributes=dict(example.attributes),
                )
                try:
                    with pytest.raises(VerifyException) as caught:
                        changed.verify()
                finally:
                    changed.drop_all_references()
                assert "\n" not in str(caught.value)
