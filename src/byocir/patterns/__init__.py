"""The pattern language has one matcher and one trail of reasons for both levels.

```python
from byocir.patterns import composite, constant, op, optional, optional_operand, wildcard

@composite("npu.conv_relu")
def conv_relu():
    x, w, b = wildcard("x"), constant("w"), constant("b")
    y = op("graph.conv", x, w, optional_operand(b), group=1) @ "conv"
    return optional(y, lambda v: op("graph.relu", v))

@conv_relu.rule
def channels_fill_a_block(m):
    \"\"\"Input channels are a multiple of 16.\"\"\"
    seen = m["w"].type.shape[1]
    return seen % 16 == 0, seen
```

| construct | stands for |
| --- | --- |
| `op`, `wildcard`, `constant` | an op by name and attributes; any value; a constant |
| `\\|`, `either`, `optional`, `optional_operand` | one of several; what may be missing |
| `repeat`, `path` | a step several times; all that lies between, of certain ops only |
| `result`, `parallel` | one of several results; several roots over shared values |
| `rank`, `shape`, `per_tensor`, `per_channel` | tests of types, `where=…` |
| `within`, `satisfies`, `present` | tests of a constant's numbers, `where=…` |
| `block`, `grouped`, `number` | a block of the tensor level, its iterators and numbers |
| `composite`, `supports` | a named pattern with rules; a checker of one op |

A pattern is a DAG walked backwards from a root along producer edges; the same pattern object stands
for the same node wherever it is used. Graph ops, blocks and the scalar ops of a block's body are
matched by the same idea; `block` describes the latter two.
"""

from byocir.dialects.decisions import RuleResult
from byocir.patterns.blocks import block
from byocir.patterns.composite import Attempt, Composite, composite, supports
from byocir.patterns.dataflow import producer, uses
from byocir.patterns.index import grouped
from byocir.patterns.match import Bound, BoundBlock, Match
from byocir.patterns.nodes import (
    Pattern,
    constant,
    either,
    op,
    optional,
    optional_operand,
    wildcard,
)
from byocir.patterns.policy import RegionPolicy
from byocir.patterns.region_rules import GatheredRegion
from byocir.patterns.scalars import ScalarPattern, number
from byocir.patterns.structure import parallel, path, repeat, result
from byocir.patterns.value_tests import (
    per_channel,
    per_tensor,
    present,
    rank,
    satisfies,
    shape,
    within,
)

__all__ = [
    "Attempt",
    "Bound",
    "BoundBlock",
    "Composite",
    "GatheredRegion",
    "Match",
    "Pattern",
    "RegionPolicy",
    "RuleResult",
    "ScalarPattern",
    "block",
    "composite",
    "constant",
    "either",
    "grouped",
    "number",
    "op",
    "optional",
    "optional_operand",
    "parallel",
    "path",
    "per_channel",
    "per_tensor",
    "present",
    "producer",
    "rank",
    "repeat",
    "result",
    "satisfies",
    "shape",
    "supports",
    "uses",
    "wildcard",
    "within",
]
