"""Random legal configurations: any batch, block, widths and depths that can be encoded."""

from __future__ import annotations

from hypothesis import strategies as st

from byocir.vta_sim import VTAConfig, VTAError


def _config(
    batch: int, block: int, widths: tuple[int, int, int], depths: tuple[int, int, int, int]
) -> VTAConfig | None:
    """With these log2 numbers, or None if there is no such VTA; depths of UOP, INP, WGT, ACC."""
    inp, wgt, acc = widths
    try:
        return VTAConfig(
            inp, wgt, acc, batch, block,
            depths[0] + 5 - 3,
            depths[1] + batch + block + inp - 3,
            depths[2] + 2 * block + wgt - 3,
            depths[3] + batch + block + acc - 3,
        )  # fmt: skip
    except VTAError:
        return None


def vta_configs(*, computable: bool = False) -> st.SearchStrategy[VTAConfig]:
    """Legal configurations; ``computable``: with int8 inputs and weights, int32 accumulators."""
    widths = st.just((3, 3, 5))
    if not computable:
        widths |= st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(2, 5))
    depths = st.tuples(*(st.integers(0, top) for top in (13, 12, 10, 11)))
    found = st.builds(_config, st.integers(0, 3), st.integers(0, 6), widths, depths)
    return found.filter(lambda config: config is not None)
