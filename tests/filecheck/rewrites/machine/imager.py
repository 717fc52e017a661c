"""A machine whose load sets zeros around the part of an image that it reads."""

import byocir
from byocir.dialects.types import i8
from byocir.machine import MAIN, Machine, up_to
from byocir.patterns import block, wildcard

imager = Machine("imager")
port = imager.unit("port")
pixels = imager.memory("pixels", i8, row=(8,), rows=128, interleaved=True)
moved = dict(cycles=lambda s: 4, rows=up_to(16), lanes=up_to(16))
imager.copy("store", pixels, MAIN, unit=port, **moved)


@imager.instruction(
    port, into=pixels, cycles=lambda s: 4 + s["y"], y=up_to(16), x=up_to(16), c=up_to(16)
)
def load():
    image = wildcard("x", dtype=i8)["(y - top) (x - left) c"].padded(0)
    return block("y x c", image, lambda _, x: x)


@load.rule
def few_zeros(m):
    """At most 2 rows and columns of zeros come before the image."""
    return max(m["top"], m["left"]) <= 2, (m["top"], m["left"])


class Imager(byocir.Target):
    name, machine = "imager", imager
