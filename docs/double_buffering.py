"""Draws double_buffering.svg for vta.md: run it after a change that alters times.

    python docs/double_buffering.py

The same six tiles of a matrix product run twice: with one buffer, where the load of a tile waits
until the tile before it is computed, and with two, where it waits for the one before that.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from byocir.vta_sim import Program, assemble, trace_events

PICTURE = Path(__file__).parent / "double_buffering.svg"
TILES = 6
LEFT, WIDTH, ROW, GAP, HEAD = 66, 640, 20, 6, 26
UNITS = ("fetch", "load", "compute", "store")
COLOURS = {"fetch": "#9a9a9a", "load": "#3b78b5", "compute": "#d9822b", "store": "#4b9b5f"}


def program(buffers: int) -> str:
    """Loads, a product of 8 micro-ops by 32 rows and a store for each tile."""
    lines = ["load.uop y=1 x=16"]
    for tile in range(TILES):
        half = tile % buffers
        waits, frees = tile >= buffers, tile + buffers < TILES
        lines += [
            f"load.inp sram={32 * half} dram={32 * tile} y=1 x=32" + " {pop_next}" * waits,
            f"load.wgt sram={8 * half} dram={8 * tile} y=1 x=8 {{push_next}}",
            "load.uop" + " {pop_next}" * waits,
            f"gemm uop={8 * half},{8 * half + 8} out=1 in=32 dst=0,1 src=0,1"
            f" {{pop_prev,{'push_prev,' * frees}push_next}}",
            f"store.out sram={32 * half} dram={32 * tile} y=1 x=32 {{pop_prev,push_prev}}",
        ]
    lines += ["load.uop {pop_next}"] * (buffers - 1) + ["finish {pop_next}"]
    return "\n".join(lines)


def slices(buffers: int) -> tuple[list[tuple[str, str, int, int]], int]:
    """(unit, name, first cycle, cycles) of every slice of the trace, and all cycles."""
    trace = trace_events(Program(assemble(program(buffers))))
    events = trace["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = [(names[e["tid"]], e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    return found, trace["otherData"]["cycles"]


def panel(title: str, buffers: int, top: int, longest: int) -> Iterator[str]:
    """One timeline, a row for each unit."""
    found, cycles = slices(buffers)
    yield f'<text x="{LEFT}" y="{top + 16}" font-weight="bold">{title}: {cycles:,} cycles</text>'
    for row, unit in enumerate(UNITS):
        y = top + HEAD + row * (ROW + GAP)
        yield f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{unit}</text>'
        length = WIDTH * cycles / longest
        yield f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{ROW}" fill="#eeeeee"/>'
        for _, name, begin, duration in (s for s in found if s[0] == unit):
            x, width = LEFT + WIDTH * begin / longest, WIDTH * duration / longest
            yield (
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}"'
                f' fill="{COLOURS[unit]}" stroke="#ffffff" stroke-width="0.5">'
                f"<title>{name}, cycles {begin} to {begin + duration}</title></rect>"
            )


def render() -> str:
    """The picture as it is now."""
    longest = slices(1)[1]
    height = HEAD + len(UNITS) * (ROW + GAP) + 10
    size = f'width="{LEFT + WIDTH + 10}" height="{2 * height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f'<rect {size} fill="#ffffff"/>',
        *panel("One buffer", 1, 0, longest),
        *panel("Two buffers", 2, height, longest),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(render(), encoding="utf-8")
