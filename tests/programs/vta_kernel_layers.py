"""Convolutions for VTA as data: their shapes, tiles and buffers, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

from vta_streams import CONFIGS, random_config

from byocir.testing.choose import Choose, pick
from byocir.vta_sim import AluOp, Memory, VTAConfig


@dataclass(frozen=True)
class Layer:
    """One convolution of side ``kernel`` with "same" padding, tiled in both directions.

    Sizes in elements: tiles of ``height`` x ``width``, ``down`` x ``across`` of them, over
    ``depth`` input blocks and ``blocks`` output blocks.
    """

    height: int
    width: int
    down: int
    across: int
    depth: int
    blocks: int
    kernel: int
    bias: Memory | None = None
    residual: bool = False
    activation: tuple[tuple[AluOp, int], ...] = ()

    @property
    def image(self) -> tuple[int, int]:
        """Rows and columns of input and output."""
        return self.height * self.down, self.width * self.across

    @property
    def points(self) -> int:
        """Accumulators of one tile."""
        return self.blocks * self.height * self.width

    @property
    def window(self) -> tuple[int, int]:
        """Rows and columns of an input tile, halo included."""
        return self.height + self.kernel - 1, self.width + self.kernel - 1

    @property
    def weights(self) -> int:
        """Weight elements of one input block."""
        return self.blocks * self.kernel**2


@dataclass(frozen=True)
class Kernel:
    """Settings that turn layers, each reading the result of the one before, into a stream.

    ``inputs`` and ``accumulators`` are numbers of buffers; ``resident`` loads the weights of a
    layer once; ``carriers`` puts every token on an instruction of its own; ``early_uops`` loads all
    micro-ops of a layer first, if they fit.
    """

    config: VTAConfig
    layers: tuple[Layer, ...]
    inputs: int = 2
    accumulators: int = 2
    resident: bool = False
    carriers: bool = False
    early_uops: bool = True
    seed: int = 0


def random_kernel(choose: Choose) -> Kernel:
    """A kernel of one or two layers with random tiles, buffers and config."""
    config = pick(choose, list(CONFIGS.values())) if choose(0, 1) else random_config(choose)
    first = _random_layer(choose, choose(1, 3), (choose(1, 3), choose(1, 4)))
    layers = [first]
    if choose(0, 2) == 2:
        # The next layer reads the same image, in tiles of another shape.
        height, width = first.image
        down = pick(choose, [n for n in range(1, height + 1) if height % n == 0])
        across = pick(choose, [n for n in range(1, width + 1) if width % n == 0])
        if height // down * (width // across) <= 12:
            tile = (height // down, width // across)
            layers.append(_random_layer(choose, first.blocks, tile, (down, across)))
    return Kernel(
        config,
        tuple(layers),
        choose(1, 3),
        choose(1, 3),
        bool(choose(0, 1)),
        choose(0, 3) == 3,
        bool(choose(0, 1)),
        choose(0, 1 << 16),
    )


def _random_layer(
    choose: Choose, depth: int, tile: tuple[int, int], tiles: tuple[int, int] | None = None
) -> Layer:
    down, across = tiles or (choose(1, 4), choose(1, 2))
    operations = [(AluOp.ADD, 64), (AluOp.SHR, 7), (AluOp.MIN, 127), (AluOp.MAX, -128)]
    return Layer(
        *tile,
        down,
        across,
        depth,
        choose(1, 2),
        choose(1, 3),
        pick(choose, [None, Memory.ACC, Memory.ACC_8BIT]),
        choose(0, 2) == 2,
        tuple(operations[choose(0, 3) :]),
    )
