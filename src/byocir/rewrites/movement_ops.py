"""Lists ops that move elements: they do the same whatever the elements stand for."""

from __future__ import annotations

from byocir.dialects.graph import (
    DepthToSpaceOp,
    ExpandOp,
    FlattenOp,
    GraphOp,
    PadOp,
    ReshapeOp,
    ResizeOp,
    SliceOp,
    SpaceToDepthOp,
    SqueezeOp,
    TileOp,
    TransposeOp,
    UnsqueezeOp,
)

MOVING_OPS: tuple[type[GraphOp], ...] = (
    ReshapeOp,
    FlattenOp,
    SqueezeOp,
    UnsqueezeOp,
    TransposeOp,
    ExpandOp,
    TileOp,
    PadOp,
    DepthToSpaceOp,
    SpaceToDepthOp,
    ResizeOp,
    SliceOp,
)
"""Those of one operand: they copy elements of it; a pad adds some, and a resize may mix them."""


def is_nearest(op: ResizeOp) -> bool:
    """Tells whether a resize only copies elements of its input."""
    crops = op.coordinate_transformation_mode.data == "tf_crop_and_resize"
    return op.mode.data == "nearest" and not crops
