"""Adds byocir's dialects and passes to plain `xdsl-opt`, through the entry point `xdsl.universe`.
Each is imported when it is first used.
"""

from xdsl.universe import Universe

from byocir.dialects.context import OWN_DIALECTS
from byocir.rewrites.registry import all_passes

BYOCIR_UNIVERSE = Universe(all_dialects=OWN_DIALECTS, all_passes=all_passes())
