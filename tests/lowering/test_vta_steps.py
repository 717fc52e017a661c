"""Each step from blocks to VTA's memories gives the same results, and what it guarantees."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from test_vta_bufferize import assert_on_memory
from test_vta_legalise import assert_vta_form
from test_vta_stage import assert_all_fits
from test_vta_tile import CONFIGS, tile
from vta_nets import Case, nets
from vta_programs import apply, assert_same, evaluate

from byocir.lowering.tir_to_vta.bufferize import VtaBufferizePass
from byocir.lowering.tir_to_vta.gather_windows import VtaGatherWindowsPass
from byocir.lowering.tir_to_vta.legalise import VtaLegalisePass
from byocir.lowering.tir_to_vta.pack import VtaPackPass
from byocir.lowering.tir_to_vta.stage import VtaStagePass
from byocir.rewrites.clean_up import CleanUpPass
from byocir.vta_sim import VTAConfig


@given(nets(), st.sampled_from(CONFIGS), st.booleans())
@settings(max_examples=settings.default.max_examples // 4)
def test_each_step_keeps_results(case: Case, config: VTAConfig, merges: bool) -> None:
    """Also where clean-up lets chains share their start: each still gets a buffer of its own."""
    module, expected = case.module, evaluate(case.module, case.inputs)

    def keeps_results() -> None:
        assert_same(evaluate(module, case.inputs), expected)

    apply(module, VtaGatherWindowsPass)
    keeps_results()
    apply(module, VtaLegalisePass)
    assert_vta_form(module)
    keeps_results()
    apply(module, VtaPackPass)
    keeps_results()
    if merges:
        CleanUpPass().apply(None, module)
    apply(module, VtaBufferizePass)
    assert_on_memory(module)
    keeps_results()
    tile(module, config)
    keeps_results()
    apply(module, VtaStagePass)
    assert_all_fits(module, config)
    keeps_results()


@settings(max_examples=settings.default.max_examples // 6)
@given(nets(32))
def test_packing_for_wider_blocks_keeps_results(case: Case) -> None:
    expected = evaluate(case.module, case.inputs)
    apply(case.module, VtaLegalisePass, VtaPackPass)
    assert_same(evaluate(case.module, case.inputs), expected)
