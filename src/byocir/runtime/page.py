"""Shows the report as one web page that needs nothing else: pictures of what went where, and behind
each node why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

from byocir.dialects.byoc import FOLDED, HOST, Node
from byocir.dialects.gc_pause import gc_paused
from byocir.runtime.report import Region, Report
from byocir.runtime.report_text import by_op_type, node_lines, region_lines, summary

TARGET_COLOURS = ("#2f81f7", "#3fb950", "#a371f7", "#e8743b", "#1b9e9e", "#d6409f")
COLOURS = {HOST: "#9a9a9a", FOLDED: "#d8d8d8"}


@gc_paused()
def page(report: Report, title: str) -> str:
    """Writes HTML with its own style and script: shares of nodes and of multiply-accumulates, the
    nodes as a strip in the model's order, tables by operator and by region, and all that was tried
    on each node, to search and to filter.
    """
    places = report.places
    colours = dict(zip(report.targets, TARGET_COLOURS * len(report.targets), strict=False))
    colours |= COLOURS
    return _template().substitute(
        title=escape(title),
        notes="\n".join(f'<p class="note">{escape(note)}</p>' for note in report.notes),
        key="".join(_key(place, colour) for place, colour in colours.items()),
        shares="".join(_shares(report, places, colours)),
        summary=escape(summary(report)),
        strip=_strip(report, places, colours),
        table=escape(by_op_type(report)),
        regions="\n".join(
            _region(region, lines, colours)
            for region, lines in zip(report.regions, region_lines(report), strict=True)
        ),
        places="".join(f"<option>{escape(place)}</option>" for place in colours),
        nodes="\n".join(_nodes(report, places, colours)),
    )


def _template() -> Template:
    return Template(files("byocir.runtime").joinpath("page.html").read_text(encoding="utf-8"))


def _key(place: str, colour: str) -> str:
    return f'<span class="key" style="background:{colour}"></span>{escape(place)}'


def _shares(report: Report, places: Mapping[str, str], colours: Mapping[str, str]) -> Iterator[str]:
    """Draws a bar of the nodes by place, and one of their multiply-accumulates."""
    nodes, macs = Counter[str](), Counter[str]()
    for node in report.nodes:
        nodes[places[node.name]] += 1
        macs[places[node.name]] += node.macs
    for label, counts in (("nodes", nodes), ("MACs", macs)):
        parts = "".join(
            f'<span style="background:{colours[place]};flex:{counts[place]}" '
            f'title="{escape(place)}: {counts[place]:,}"></span>'
            for place in colours
            if counts[place]
        )
        yield f'<span>{label}</span><div class="bar">{parts}</div>'


def _strip(report: Report, places: Mapping[str, str], colours: Mapping[str, str]) -> str:
    """Draws all nodes side by side, each as high as its share of the largest node's work."""
    most = max((node.macs for node in report.nodes), default=0)
    bars: list[str] = []
    for position, node in enumerate(report.nodes):
        place = places[node.name]
        height = 30 + (70 * node.macs / most if most else 0)
        bars.append(
            f'<a href="#n{position}"><rect x="{position}" y="{100 - height:.1f}" width="0.9" '
            f'height="{height:.1f}" fill="{colours[place]}">'
            f"<title>{escape(f'{node.name} ({node.op_type}): {place}')}</title></rect></a>"
        )
    size = f"0 0 {max(1, len(report.nodes))} 100"
    return f'<svg viewBox="{size}" preserveAspectRatio="none">{"".join(bars)}</svg>'


def _region(region: Region, lines: Sequence[str], colours: Mapping[str, str]) -> str:
    crossing = f"{len(region.nodes):,} nodes, {region.bytes:,} bytes cross"
    crossing += f", {region.kept:,} stay on the chip" if region.kept else ""
    return (
        f'<details class="region" style="--place:{colours[region.target]}">'
        f"<summary><span>{escape(region.symbol)}</span><span>{crossing}</span></summary>"
        f"<pre>{escape(chr(10).join(lines))}</pre></details>"
    )


def _nodes(
    report: Report,
    places: Mapping[str, str],
    colours: Mapping[str, str],
) -> Iterator[str]:
    lines, where = node_lines(report, verbose=True), report.placement
    for position, node in enumerate(report.nodes):
        place = places[node.name]
        yield (
            f'<details class="node" id="n{position}" data-place="{escape(place)}" '
            f'style="--place:{colours[place]}">'
            f"<summary>{_cells(node, where[node.name])}</summary>"
            f"<pre>{escape(chr(10).join(lines[node.name]))}</pre></details>"
        )


def _cells(node: Node, where: str) -> str:
    macs = f"{node.macs:,} MACs" if node.macs else ""
    return "".join(f"<span>{escape(x)}</span>" for x in (node.name, node.op_type, where, macs))
