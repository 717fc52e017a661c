"""Shows the points of a sweep as one web page that needs nothing else: a plot of cycles over
memory, in which the Pareto set stands out, and a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10

from byocir.tuning.sweep import SweepPoint, pareto

WIDTH, HEIGHT, EDGE = 720, 400, 60
PLAIN, BEST = "#9a9a9a", "#2f81f7"
STYLE = (
    ":root{color-scheme:light dark;font:14px/1.45 system-ui,sans-serif}"
    "body{max-width:60rem;margin:1.5rem auto;padding:0 1rem}h1{font-size:1.4rem}"
    "table{border-collapse:collapse}td,th{padding:.15rem .7rem;text-align:right}"
    "tr.best{font-weight:600}td.refusal{text-align:left}svg text{font-size:12px;fill:currentColor}"
)


def page(points: Sequence[SweepPoint], title: str) -> str:
    """Writes HTML with its own style and no script."""
    best = pareto(points)
    rows = "\n".join(_row(each, is_best) for each, is_best in zip(points, best, strict=True))
    heads = [*points[0].settings, "cycles", "energy [µJ]", "memory [Kbit]", "utilisation"]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{_plot(points, best)}\n"
        f"<p>Cycles over bits of memory, both in powers of ten. Blue: no other point is as good in "
        f"cycles, energy and memory, and better in one.</p>\n<table>\n"
        f"<tr>{''.join(f'<th>{escape(each)}</th>' for each in heads)}</tr>\n{rows}\n"
        f"</table>\n</body>\n</html>\n"
    )


def _row(point: SweepPoint, is_best: bool) -> str:
    cells = [str(value) for value in point.settings.values()]
    if point.refusal:
        shown = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        return f'<tr>{shown}<td class="refusal" colspan="4">{escape(point.refusal)}</td></tr>'
    cells += [f"{point.cycles:,}", "" if point.energy is None else f"{point.energy / 1e6:,.2f}"]
    cells += [f"{point.memory / 1024:,.0f}"]
    cells += ["" if point.utilisation is None else f"{100 * point.utilisation:.1f} %"]
    kind = ' class="best"' if is_best else ""
    return f"<tr{kind}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _plot(points: Sequence[SweepPoint], best: Sequence[bool]) -> str:
    """Draws a dot for each point that could be compiled, and joins the Pareto set by a line."""
    able = [(p, b) for p, b in zip(points, best, strict=True) if not p.refusal and p.memory]
    if not able:
        return "<p>No point can be drawn.</p>"
    places = {
        id(p): (x, y)
        for (p, _), x, y in zip(
            able,
            _along([p.memory for p, _ in able], EDGE, WIDTH - 20),
            _along([p.cycles for p, _ in able], HEIGHT - EDGE, 20),
            strict=True,
        )
    }
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in sorted(places[id(p)] for p, b in able if b))
    dots = "".join(_dot(p, b, *places[id(p)]) for p, b in able)
    bottom, middle = HEIGHT - EDGE, (WIDTH + EDGE) / 2
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="cycles over memory">'
        f'<path d="M{EDGE} 20V{bottom}H{WIDTH - 20}" fill="none" stroke="currentColor"/>'
        f'<polyline points="{line}" fill="none" stroke="{BEST}" stroke-opacity=".5"/>{dots}'
        f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">memory: '
        f"{min(p.memory for p, _ in able):,} to {max(p.memory for p, _ in able):,} bits</text>"
        f'<text transform="translate(18 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">cycles: '
        f"{min(p.cycles for p, _ in able):,} to {max(p.cycles for p, _ in able):,}</text></svg>"
    )


def _along(values: Sequence[float], first: float, last: float) -> list[float]:
    """Places values between two ends by their logarithms, the least value at the first end."""
    logs = [log10(value) for value in values]
    least, span = min(logs), max(logs) - min(logs)
    return [
        first + (last - first) * (0.05 + 0.9 * ((x - least) / span if span else 0.5)) for x in logs
    ]


def _dot(point: SweepPoint, is_best: bool, x: float, y: float) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in point.settings.items())
    told = escape(f"{settings}: {point.cycles:,} cycles, {point.memory:,} bits")
    colour, radius = (BEST, 6) if is_best else (PLAIN, 4)
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}">'
        f"<title>{told}</title></circle>"
    )
