"""Hand-off: what was matched, who takes it, what was called, and why.

The same ops serve both levels: bodies hold graph ops or tir blocks. Everything a later stage or a
report needs is in the module: targets with their options, the original model's nodes and the trail
of decisions, so that a printed module can be read back and continued.
"""

from xdsl.ir import Dialect

from byocir.dialects.byoc.ops import (
    BeginOp,
    CallOp,
    CompositeOp,
    EndOp,
    RegionOp,
    YieldOp,
    enclosing_body,
    inline,
)
from byocir.dialects.byoc.records import (
    COSTS,
    DECLARED,
    DEFAULT,
    DIMS,
    GROUP,
    HOST_CODE,
    IN_CODE,
    INITIALISED,
    KEPT,
    LEVEL,
    LEVELS,
    LEVELS_LEFT,
    NAME,
    OBJECTIVE,
    PLACE,
    PLACEMENT,
    SPLIT,
    TARGET,
    TARGETS,
    WHOLE,
    CutAttr,
    DecisionAttr,
    HandedOffAttr,
    NodeAttr,
    PlaceAttr,
    RuleAttr,
    SourceOp,
    TakenAttr,
    TargetAttr,
    TrailOp,
    shared_text,
)
from byocir.dialects.byoc.stored import STORED, keep_stored, stored
from byocir.dialects.decisions import FOLDED, HOST, Node

Byoc = Dialect(
    "byoc",
    [BeginOp, CallOp, CompositeOp, EndOp, RegionOp, SourceOp, TrailOp, YieldOp],
    [CutAttr, DecisionAttr, HandedOffAttr, NodeAttr, PlaceAttr, RuleAttr, TakenAttr, TargetAttr],
)

__all__ = [
    "COSTS",
    "DECLARED",
    "DEFAULT",
    "DIMS",
    "FOLDED",
    "GROUP",
    "HOST",
    "HOST_CODE",
    "INITIALISED",
    "IN_CODE",
    "KEPT",
    "LEVEL",
    "LEVELS",
    "LEVELS_LEFT",
    "NAME",
    "OBJECTIVE",
    "PLACE",
    "PLACEMENT",
    "SPLIT",
    "STORED",
    "TARGET",
    "TARGETS",
    "WHOLE",
    "BeginOp",
    "Byoc",
    "CallOp",
    "CompositeOp",
    "CutAttr",
    "DecisionAttr",
    "EndOp",
    "HandedOffAttr",
    "Node",
    "NodeAttr",
    "PlaceAttr",
    "RegionOp",
    "RuleAttr",
    "SourceOp",
    "TakenAttr",
    "TargetAttr",
    "TrailOp",
    "YieldOp",
    "enclosing_body",
    "inline",
    "keep_stored",
    "shared_text",
    "stored",
]
