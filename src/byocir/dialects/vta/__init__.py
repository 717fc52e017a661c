"""The dialect of the VTA accelerator has its instructions as ops, and the encoded program.

The public names of its modules are names of this package, too.
"""

# ruff: noqa: F403
from byocir.dialects.families import dialect_of
from byocir.dialects.vta.base import *
from byocir.dialects.vta.compute import *
from byocir.dialects.vta.program import *
from byocir.dialects.vta.transfer import *
from byocir.dialects.vta_config import *

Vta = dialect_of("vta", globals())
