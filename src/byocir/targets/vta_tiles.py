"""Lists the tiles that VTA's search puts first for a composite, as schedules to try."""

from __future__ import annotations

from byocir.dialects.byoc import CompositeOp, composites_in
from byocir.dialects.context import load_context
from byocir.dialects.vta_config import config_of
from byocir.lowering.tir_to_vta.composites import vta_functions
from byocir.lowering.tir_to_vta.tile import VtaTilePass, tile_names
from byocir.lowering.tir_to_vta.tile_nest import nest_of
from byocir.lowering.tir_to_vta.tile_search import ranked_tiles
from byocir.patterns.knobs import knobs_text
from byocir.rewrites.byoc.single_composite import alone
from byocir.rewrites.pipeline import parse_pipeline, run_passes


def tiles_of(composite: CompositeOp, lowering: str, most: int) -> list[str]:
    """Lists at most so many tile sizes of a composite that VTA took, the cheapest first by
    estimate. `lowering` are the passes to VTA's code; those before `vta-tile` are run on a copy."""
    module = alone(composite)
    before, _, _ = lowering.partition(VtaTilePass.name)
    run_passes(module, load_context(), parse_pipeline(before.rstrip(",")))
    (function,) = vta_functions(module)
    (packed,) = composites_in(function)
    config = config_of(function)
    nest = nest_of(packed, config)
    names = tile_names(packed, nest)
    ranked = ranked_tiles(nest, config, most)
    return [knobs_text({name: sizes[i] for name, i in names.items()}) for sizes in ranked]
