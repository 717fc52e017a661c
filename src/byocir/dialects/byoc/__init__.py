"""The hand-off dialect records what was matched, who takes it, what was called, and why.

The same ops serve both levels: bodies hold graph ops or tir blocks. Everything a later stage or a
report needs is in the module: targets with their options, the original model's nodes and the trail
of decisions, so that a printed module can be read back and continued. The public names of the
modules here are names of this package, too.
"""

# ruff: noqa: F403
from byocir.dialects.byoc.ops import *
from byocir.dialects.byoc.records import *
from byocir.dialects.byoc.stored import *
from byocir.dialects.decisions import FOLDED as FOLDED
from byocir.dialects.decisions import HOST as HOST
from byocir.dialects.decisions import Node as Node
from byocir.dialects.families import dialect_of

Byoc = dialect_of("byoc", globals())
