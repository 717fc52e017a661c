"""What exported models record of the hand-off, and what cannot be exported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from exported_models import (
    DIGITS,
    SHAPES,
    Npu,
    X,
    assert_same,
    chain,
    node,
    notes,
    port,
    run,
    small,
)
from onnx import TensorProto, helper
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.compiler import generate
from byocir.dialects.byoc import BeginOp, CompositeOp, EndOp, RegionOp
from byocir.dialects.context import load_context
from byocir.dialects.graph import ReluOp
from byocir.errors import ByocirError
from byocir.patterns import Composite, constant, op, wildcard
from byocir.patterns.target_classes import register
from byocir.patterns.targets import attr_of
from byocir.rewrites.byoc.set_targets import set_targets
from byocir.rewrites.pipeline import run_passes
from byocir.targets.vta import Vta

# -- what became of each node


def test_a_taken_node_names_composite_level_and_region() -> None:
    exported = byocir.export_onnx(byocir.import_onnx(chain()), Npu())
    assert notes(exported.graph.node[0]) == {
        "nodes": "first",
        "target": "npu",
        "region": "npu_0",
        "composite": "npu.product",
        "level": "graph",
        "explain": "first  MatMul  npu_0 (graph level, npu.product)",
    }
    assert "npu MACs" in notes(exported)["summary"]


def test_a_host_node_names_its_closest_miss() -> None:
    def declined(m: Any) -> Any:
        """There are at least 16 rows."""
        return m["x"].type.shape[0] >= 16, m["x"].type.shape[0]

    wide = Composite("wide.product", (op("graph.matmul", wildcard("x"), constant("w")),))
    wide.rule(declined)

    @dataclass(frozen=True)
    class Wide(byocir.Target):
        name: ClassVar[str] = "wide"
        patterns: ClassVar[tuple[Composite, ...]] = (wide,)

    exported = byocir.export_onnx(byocir.import_onnx(chain()), Wide())
    about = notes(exported.graph.node[0])
    assert (about["target"], "region" in about) == ("host", False)
    miss = about["closest_miss"]
    assert miss.startswith("graph wide.product 1/1 ops matched")
    assert miss.endswith("rule fails: There are at least 16 rows seen 4")


def test_what_is_folded_away_is_listed() -> None:
    model = small(
        [port("x", 4, 4)],
        [port("y", 4, 4)],
        node("Add", ["w", "w"], ["ww"], "sum"),
        node("MatMul", ["x", "ww"], ["y"], "product"),
    )
    exported = byocir.export_onnx(byocir.import_onnx(model), Npu())
    assert notes(exported)["folded"] == "sum"
    assert byocir.export_onnx(byocir.import_onnx(model)).metadata_props == []


# -- stages in between


def with_regions(model: onnx.ModelProto, passes: str) -> ModuleOp:
    module = byocir.import_onnx(model)
    register("npu", Npu)
    set_targets(module, [attr_of(Npu())])
    run_passes(module, load_context(), passes)
    return module


@pytest.mark.parametrize(
    ("passes", "kind"),
    [
        ("match-composites", CompositeOp),
        ("match-composites,assign-targets,merge-regions", RegionOp),
    ],
)
def test_what_is_not_outlined_yet(passes: str, kind: type) -> None:
    module = with_regions(chain(), passes)
    assert any(isinstance(each, kind) for each in module.walk())
    exported = byocir.export_onnx(module)
    assert [n.op_type for n in exported.graph.node] == ["MatMul", "Softmax", "MatMul"]
    assert notes(exported.graph.node[0])["composite"] == "npu.product"
    assert_same(run(exported, {"x": X}), run(chain(), {"x": X}))


def test_markers_are_left_out() -> None:
    module = byocir.import_onnx(
        small([port("x", 4)], [port("y", 4)], node("Relu", ["x"], ["y"], "r"))
    )
    (only,) = (each for each in module.walk() if isinstance(each, ReluOp))
    (x,) = only.operands
    begin = BeginOp.create(
        operands=[x], result_types=[x.type], properties={"target": attr_of(Npu()).target_name}
    )
    end = EndOp.create(
        operands=[only.result], result_types=[x.type], properties=dict(begin.properties)
    )
    block = only.parent
    assert block is not None
    block.insert_op_before(begin, only)
    block.insert_op_after(end, only)
    only.operands[0] = begin.output
    only.result.replace_uses_with_if(end.output, lambda use: use.operation is not end)
    module.verify()
    exported = byocir.export_onnx(module)
    assert [n.op_type for n in exported.graph.node] == ["Relu"]


# -- what has no ONNX form


def error_of(module: ModuleOp, **options: Any) -> ByocirError:
    with pytest.raises(ByocirError) as caught:
        byocir.export_onnx(module, **options)
    return caught.value


def test_a_module_below_the_graph_level_is_refused() -> None:
    module = byocir.import_onnx(chain())
    byocir.partition(module, Npu())
    error = error_of(module)
    assert (error.code, error.where) == ("B109", "soft")
    assert "found tir." in error.message
    assert "before it is lowered" in error.help
    assert len(byocir.export_onnx(module, function="npu_0").graph.node) == 1
    assert "did you mean 'npu_0'" in error_of(module, function="npu0").help


def test_a_region_that_is_code_is_refused() -> None:
    module = byocir.import_onnx(DIGITS / "digits_int8.onnx", shapes=SHAPES)
    report = byocir.partition(module, Vta())
    generate(module, report)
    error = error_of(module, function="vta_0")
    assert (error.code, error.help) == (
        "B302",
        "its code was generated: take the module before that",
    )
    assert error_of(module).code == "B302"


def test_a_region_of_buffers_is_refused() -> None:
    module = byocir.import_onnx(DIGITS / "digits_int8.onnx", shapes=SHAPES)
    byocir.partition(module, Vta())
    (lowering,) = Vta().passes("after-lowering")
    run_passes(module, load_context(), lowering.partition(",vta-tile")[0])
    assert error_of(module).code == "B109"


def test_an_attribute_without_elements_is_a_list():
    """The permutation of a number."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in "xy")
    graph = helper.make_graph([helper.make_node("Transpose", ["x"], ["y"], "t")], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    exported = byocir.compiler.export_onnx(byocir.import_onnx(model))
    onnx.checker.check_model(exported, full_check=True)
    feeds = {"x": np.array(2.5, np.float32)}
    assert run(exported, feeds)["y"] == 2.5
