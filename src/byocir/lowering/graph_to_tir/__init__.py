"""convert-graph-to-tir: lowers graph ops to blocks in value form.

Does: replaces graph ops, also inside composites and regions, by the blocks that define them. A
convolution is one contraction with `pad` over a zero fill, then a block that adds the bias; a
softmax is a chain of four blocks; a reshape is a block that copies through an index map.

Requires: graph ops that verify. Region functions of targets that generate code at graph level are
left as they are, and so are foreign ops with the graphs inside them, and ops without a form at the
tensor level. With `bodies`, graphs of If, Loop and Scan go down where a target of the module takes
something in them (see `bodies`).

Guarantees: no graph op that has a lowering is left; integer results, and those of quantize and
requantize, are bit for bit those of the graph ops; floats differ by the order of summation and by
the last bits of a mathematical library's functions at most; every new op has the location of the op
it stands for.

The blocks of an op are its definition, which stands beside its class (`GraphOp.define`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGET, TargetAttr
from byocir.dialects.graph import ForeignOp
from byocir.dialects.graph.base import is_defined
from byocir.dialects.walk import enclosing, ops_of
from byocir.lowering.graph_to_tir.bodies import lower_bodies
from byocir.lowering.graph_to_tir.composites import lower_composites
from byocir.lowering.graph_to_tir.lower_op import Definitions
from byocir.patterns.target_classes import TargetProtocol
from byocir.patterns.targets import find


@dataclass(frozen=True)
class ConvertGraphToTirPass(ModulePass):
    """Lowers graph ops to blocks on tensors."""

    name = "convert-graph-to-tir"

    bodies: bool = False
    """Lowers graphs of control flow, too, where a target takes something in them."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        definitions = Definitions()
        for top in list(op.body.block.ops):
            target = _target_of(top)
            if target is None or target.codegen_level != "graph":
                if target is not None:
                    lower_composites(top, target)
                for inner in [inner for inner in ops_of(top) if is_defined(type(inner))]:
                    if not isinstance(inner, ForeignOp) and not enclosing(inner, ForeignOp):
                        definitions.lower(inner)
        if self.bodies:
            lower_bodies(ctx, op, definitions)
        definitions.finish()


def _target_of(top: Operation) -> TargetProtocol | None:
    """Gives the target for which a function is a region."""
    target = top.attributes.get(TARGET)
    return find(target) if isinstance(target, TargetAttr) else None
