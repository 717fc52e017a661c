"""Lists every pass of byocir by name, and where it is defined. Nothing is imported until it is
used.

The names are text, not imports, because passes of higher layers (lowering) belong in the list, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

from xdsl.passes import ModulePass

from byocir.dialects.gc_pause import gc_paused

PassThunk = Callable[[], type[ModulePass]]
"""Imports a pass class."""

PASSES: dict[str, str] = {
    # graph to graph
    "clean-up": "byocir.rewrites.clean_up:CleanUpPass",
    "fold-batch-norm": "byocir.rewrites.fold_batch_norm:FoldBatchNormPass",
    "fold-constants": "byocir.rewrites.fold_constants:FoldConstantsPass",
    "normalize-qdq": "byocir.rewrites.normalize_qdq:NormalizeQdqPass",
    "signed-bytes": "byocir.rewrites.signed_bytes:SignedBytesPass",
    "unsigned-bytes": "byocir.rewrites.signed_bytes:UnsignedBytesPass",
    "qdq-to-integer": "byocir.rewrites.qdq_to_integer:QdqToIntegerPass",
    "tabulate-bytes": "byocir.rewrites.tabulate_bytes:TabulateBytesPass",
    "fix-point": "byocir.rewrites.fix_point:FixPointPass",
    "split-groups": "byocir.rewrites.split_groups:SplitGroupsPass",
    "round-operands": "byocir.rewrites.round_operands:RoundOperandsPass",
    "pad-channels": "byocir.rewrites.pad_channels:PadChannelsPass",
    # hand-off, at both levels
    "set-targets": "byocir.rewrites.byoc.set_targets:SetTargetsPass",
    "place-nodes": "byocir.rewrites.byoc.place_by_hand:PlaceNodesPass",
    "match-composites": "byocir.rewrites.byoc.match_composites:MatchCompositesPass",
    "assign-targets": "byocir.rewrites.byoc.assign_targets:AssignTargetsPass",
    "merge-regions": "byocir.rewrites.byoc.merge_regions:MergeRegionsPass",
    "place-constants": "byocir.rewrites.byoc.place_constants:PlaceConstantsPass",
    "outline-regions": "byocir.rewrites.byoc.outline_regions:OutlineRegionsPass",
    "check-placement": "byocir.rewrites.byoc.place_by_hand:CheckPlacementPass",
    "verify-regions": "byocir.rewrites.byoc.verify_regions:VerifyRegionsPass",
    # graph to tensor level
    "convert-graph-to-tir": "byocir.lowering.graph_to_tir:ConvertGraphToTirPass",
    "convert-bounded-to-tir": "byocir.lowering.graph_to_tir.bounded:ConvertBoundedToTirPass",
    # tensor level, blocks in buffer form
    "choose-schedules": "byocir.rewrites.schedule.composites:ChooseSchedulesPass",
    "apply-schedules": "byocir.rewrites.schedule.composites:ApplySchedulesPass",
    "schedule": "byocir.rewrites.schedule.schedule_pass:SchedulePass",
    # tensor level, for described machines, in this order
    "copy-pads": "byocir.rewrites.machine.copy_pads:CopyPadsPass",
    "gather-windows": "byocir.rewrites.machine.gather_windows:GatherWindowsPass",
    "fuse-epilogues": "byocir.rewrites.machine.fuse_epilogues:FuseEpiloguesPass",
    "split-bodies": "byocir.rewrites.machine.split_bodies:SplitBodiesPass",
    "route-copies": "byocir.rewrites.machine.route_copies:RouteCopiesPass",
    "write-out-loops": "byocir.rewrites.machine.write_out_loops:WriteOutLoopsPass",
    "keep-on-chip": "byocir.rewrites.machine.keep_on_chip:KeepOnChipPass",
    "overlap-stores": "byocir.rewrites.machine.overlap_stores:OverlapStoresPass",
    "select-instructions": "byocir.rewrites.machine.select_instructions:SelectInstructionsPass",
    "load-constants-once": "byocir.rewrites.machine.load_constants_once:LoadConstantsOncePass",
    "overlap-loads": "byocir.rewrites.machine.overlap_loads:OverlapLoadsPass",
    "allocate-memories": "byocir.rewrites.machine.allocate_memories:AllocateMemoriesPass",
    "synchronise": "byocir.rewrites.machine.synchronise:SynchronisePass",
    # tensor level, on memory and as loops
    "bufferize": "byocir.rewrites.bufferize:BufferizePass",
    "convert-tir-to-scf": "byocir.lowering.tir_to_scf:ConvertTirToScfPass",
    "raise-scf-to-tir": "byocir.lowering.scf_to_tir:RaiseScfToTirPass",
    # tensor level, for the host's C code
    "outline-branches": "byocir.rewrites.host.outline_branches:OutlineBranchesPass",
    "group-foreign": "byocir.rewrites.host.group_foreign:GroupForeignPass",
    "read-rounded": "byocir.rewrites.round_operands:ReadRoundedPass",
    "relax-contractions": "byocir.rewrites.host.relax_contractions:RelaxContractionsPass",
    "split-phases": "byocir.rewrites.host.split_phases:SplitPhasesPass",
    "fold-pads": "byocir.rewrites.host.fold_pads:FoldPadsPass",
    "assign-layouts": "byocir.rewrites.host.assign_layouts:AssignLayoutsPass",
    "order-weights": "byocir.rewrites.host.order_weights:OrderWeightsPass",
    "flatten-windows": "byocir.rewrites.host.flatten_windows:FlattenWindowsPass",
    "fuse-blocks": "byocir.rewrites.host.fuse_blocks:FuseBlocksPass",
    "pack-weights": "byocir.rewrites.host.pack_weights:PackWeightsPass",
    "fold-copies": "byocir.rewrites.host.fold_copies:FoldCopiesPass",
    # tensor level to VTA instructions, in this order
    "vta-separate": "byocir.lowering.tir_to_vta.separate:VtaSeparatePass",
    "vta-arrange": "byocir.lowering.tir_to_vta.arrange:VtaArrangePass",
    "vta-gather-windows": "byocir.lowering.tir_to_vta.gather_windows:VtaGatherWindowsPass",
    "vta-legalise": "byocir.lowering.tir_to_vta.legalise:VtaLegalisePass",
    "vta-pack": "byocir.lowering.tir_to_vta.pack:VtaPackPass",
    "vta-bufferize": "byocir.lowering.tir_to_vta.bufferize:VtaBufferizePass",
    "vta-border": "byocir.lowering.tir_to_vta.border:VtaBorderPass",
    "vta-tile": "byocir.lowering.tir_to_vta.tile:VtaTilePass",
    "vta-stage": "byocir.lowering.tir_to_vta.stage:VtaStagePass",
    "vta-tensorise": "byocir.lowering.tir_to_vta.tensorise:VtaTensorisePass",
    "vta-insert-tokens": "byocir.lowering.tir_to_vta.insert_tokens:VtaInsertTokensPass",
    "vta-encode": "byocir.lowering.tir_to_vta.encode:VtaEncodePass",
}
"""Pass name to `module:class`."""


def all_passes() -> dict[str, PassThunk]:
    """Gives, by pass name, a function that imports the pass."""
    return {name: _thunk(place) for name, place in PASSES.items()}


@cache
def _thunk(place: str) -> PassThunk:
    module, _, attribute = place.partition(":")

    def load() -> type[ModulePass]:
        with gc_paused():
            return getattr(import_module(module), attribute)

    return load
