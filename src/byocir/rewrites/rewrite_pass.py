"""Makes a pass of rewrites.

```python
class DropRelus(RewritePass):
    \"\"\"Drops relu ops that do nothing.\"\"\"

    name = "drop-relus"
    rewrites = (drop_second_relu,)
```

Such a class is a pass like any other: for a pipeline in Python, for a target (`Target.passes`), and
for `byocir-opt --load-passes FILE.py`.

| code | what is wrong |
| --- | --- |
| B294 | a file of passes cannot be imported, or has no passes |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from byocir.dialects.walk import blocks_of
from byocir.errors import ByocirError
from byocir.rewrites.driver import Pattern, rewrite_blocks
from byocir.vendor.user_code import import_file, imported_from


@dataclass(frozen=True)
class RewritePass(ModulePass):
    """Applies `rewrites` until none fits. Those with one root are tried in their order."""

    name = "rewrite"
    rewrites: ClassVar[Sequence[Pattern]] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_blocks(self.blocks(op), self.rewrites)

    def blocks(self, module: ModuleOp) -> Sequence[Block]:
        """Lists the blocks that the pass looks at: all, unless a subclass says otherwise."""
        return blocks_of(module)


def passes_in(path: str | Path) -> dict[str, Callable[[], type[ModulePass]]]:
    """Lists the passes that a Python file defines, by name, as functions that give their classes.
    The file is imported: give only files that you trust. Raises ByocirError B294.
    """
    module = import_file(Path(path), "B294")
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, ModulePass)
        and imported_from(value, module)
    ]
    if not found:
        raise ByocirError(
            "B294",
            "expected passes, found none",
            where=str(path),
            help="a pass is a class derived from byocir.rewrites.RewritePass, with a name",
        )
    return {each.name: partial(_given, each) for each in found}


def _given(pass_: type[ModulePass]) -> type[ModulePass]:
    return pass_
