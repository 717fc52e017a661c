"""Checks rules of whole regions: what a device demands of all that it is handed in one call.

```python
def one_batch(region):
    \"\"\"All inputs have the same first size.\"\"\"
    sizes = {each.get_shape()[0] for each in region.inputs}
    return len(sizes) < 2, sorted(sizes)

RegionPolicy(rules=(one_batch,))
```

They are checked once regions are gathered. A region that breaks one is divided into its unconnected
parts; a part that still breaks one goes back to the host, and the reason is the rule's sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Attribute

from byocir.errors import FAILURES, ByocirError
from byocir.patterns.rules import sentence_of
from byocir.vendor.places import failed


@dataclass(frozen=True)
class GatheredRegion:
    """Describes a region that would become one call: the names of its composites, the types of its
    inputs (constants aside) and of its outputs, and its multiply-accumulates.
    """

    composites: tuple[str, ...]
    inputs: tuple[Attribute, ...]
    outputs: tuple[Attribute, ...]
    macs: int


RegionRule = Callable[[GatheredRegion], tuple[bool, Any]]
"""Gives whether it holds and what was seen; its docstring is the sentence that users read."""


def broken_rules(rules: Sequence[RegionRule], region: GatheredRegion, target: str) -> str:
    """Words the rules that a region breaks, with what was seen; empty if it keeps all. Raises
    ByocirError B201 for a rule without a docstring, B202 for one that fails.
    """
    told: list[str] = []
    for rule in rules:
        sentence = sentence_of(rule, f"regions of {target}")
        try:
            holds, seen = rule(region)
            if not holds:
                told.append(f"{sentence}, found {seen}")
        except ByocirError:
            raise
        except FAILURES as error:
            what = f"rule {rule.__name__} of regions of {target}"
            help = "a rule gives (holds, seen); a region has composites, inputs, outputs, macs"
            raise failed("B202", what, rule, error, help) from error
    return "; ".join(told)
