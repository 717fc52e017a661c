"""The cycles of a quantised ResNet-18 on Gemmini, as examples/gemmini_pools.py has it, by region.

    python benchmarks/gemmini.py [--pixels N] [--divisor N]

Beside the cycles are how many times those of the busiest of load, execute and store they are, which
is little more than 1 where loads run beside products, and how many times what an array of 16 by 16
needs at least for the multiply-accumulates. Channels are divided by `--divisor`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from nets.classic_nets import Scale
from nets.int8_nets import quantised_net

import byocir

TARGET = Path(__file__).resolve().parents[1] / "examples" / "gemmini_pools.py"
MACS_A_CYCLE = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pixels", type=int, default=224)
    parser.add_argument("--divisor", type=int, default=1)
    given = parser.parse_args()
    scale = Scale(given.pixels, given.divisor, 99)
    module = byocir.import_onnx(
        quantised_net("ResNet-18", "symmetric", "QDQ", per_channel=False, scale=scale)
    )
    start = time.perf_counter()
    package = byocir.compile(module, targets=[str(TARGET)], levels=("tensor",))
    print(f"compiled in {time.perf_counter() - start:.0f} s")
    print(table(package))


def table(package: byocir.Package) -> str:
    """A row for each region."""
    macs = {node.name: node.macs for node in package.report.nodes}
    taken = {
        region.symbol: [n for n in region.nodes if macs[n]] for region in package.report.regions
    }
    rows = [
        f"{'calls':>8} {'cycles':>9} {'busiest':>17} {'times':>6} {'times MACs/256':>15}  nodes"
    ]
    for each in package.profile():
        unit, busy = max(each.bounds.items(), key=lambda bound: bound[1])
        nodes = taken[each.symbol]
        least = max(sum(macs[node] for node in nodes) / MACS_A_CYCLE, 1)
        rows.append(
            f"{each.details['instructions']:8} {each.cycles:9} {unit:>7} {busy:9} "
            f"{each.cycles / busy:6.2f} {each.cycles / least:15.2f}  {', '.join(nodes)}"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
