"""The tensor level has blocks on tensors or scoped buffers, and what stands around them.

The public names of its modules are names of this package, too.
"""

# ruff: noqa: F403
from byocir.dialects.families import dialect_of
from byocir.dialects.tir.block import *
from byocir.dialects.tir.intrinsic import *
from byocir.dialects.tir.iterators import *
from byocir.dialects.tir.loop import *
from byocir.dialects.tir.ops import *

Tir = dialect_of("tir", globals())
