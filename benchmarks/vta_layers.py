"""Cycles of nets on VTA by layer, beside the least that the best known construction takes.

    python benchmarks/vta_layers.py [--nets N,N] [--forms F,F] [--full] [--layers] [--config C]

A row for each net and form, with the host gathering the windows of the stem and without: cycles,
the bound, and how many times the bound they are. With `--layers` a row for each kind of layer comes
before: how many there are, what their compute module does (GEMM, ALU and loads of accumulators),
and the bound.

The bound of a layer is the longest of its units: compute, loads of all that it reads once, and
stores. A vector is 16 channels of a point. The construction takes a step of GEMM for each product
of vectors and one to begin a sum, and behind it: a bias with the rounding term in one step of GEMM,
a multiplier without clamps before it, a shift, two clamps. A residual sum adds to what its
convolution left: a product, a step of GEMM, a multiplier, rounding, a shift, two clamps. A max pool
works on sums, rows before columns, and only what it leaves is requantised. Nobody has shown that it
cannot be done in less. With `--config pynq` cycles and bound are those of the published design for
FPGAs: it has no MUL and does not widen bytes as it loads, of which the construction needs neither
where scales are powers of two.
"""

from __future__ import annotations

import argparse
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import onnx
from nets.classic_nets import FULL
from nets.int8_nets import quantised_net, with_powers_of_two
from stem import NETS, QUARTER

import byocir
from byocir.runtime.package import Package

BLOCK = 16
INPUT, WEIGHTS, RESULT = 2, 32, 3
"""Cycles to load a vector of inputs and a block of weights, and to store a vector."""
EPILOGUE = {"powers": 4, "channel": 6}
RESIDUAL = {"powers": 3, "channel": 7}
COMPUTE = ("gemm", "alu", "acc_load", "uop_load")


@dataclass(frozen=True)
class Layer:
    """A layer of a net: `pooled` is the number of vectors that a max pool behind it leaves."""

    name: str
    op: str
    x: tuple[int, ...]
    y: tuple[int, ...]
    w: tuple[int, ...]
    group: int
    pooled: int | None = None

    @property
    def kind(self) -> str:
        kernel = "x".join(map(str, self.w[2:]))
        grouped = f" in {self.group} groups" if self.group > 1 else ""
        shapes = (" x ".join(map(str, shape[1:])) for shape in (self.x, self.y))
        return f"{self.op} {kernel}{' ' if kernel else ''}{' to '.join(shapes)}{grouped}"

    def bound(self, form: str, gathered: bool) -> int:
        """The least cycles of the construction."""
        n = vectors(self.y)
        if self.op == "Add":
            return max(n * RESIDUAL[form], n * INPUT, 0)
        if self.op == "MaxPool":
            rows, columns = vectors((*self.x[:3], self.y[3])), n
            return max(4 * (rows + columns), n * RESULT)
        if self.op == "GlobalAveragePool":
            return max(vectors(self.x) + n * EPILOGUE[form], vectors(self.x) * INPUT)
        blocks, taps = -(-self.w[1] // BLOCK), math.prod(self.w[2:])
        read = vectors(self.x)
        if gathered and self.w[1] < BLOCK and self.group == 1 and taps > 1:
            blocks, taps = -(-self.w[1] * taps // BLOCK), 1
            read = math.prod(self.y[2:]) * blocks
        left = n if self.pooled is None else self.pooled
        weights = -(-self.w[0] // BLOCK) * blocks * taps
        compute = n * (blocks * taps + 1) + left * EPILOGUE[form]
        stored = n if self.pooled is None else 0
        return max(compute, read * INPUT + weights * WEIGHTS, stored * RESULT)


def vectors(shape: tuple[int, ...]) -> int:
    return math.prod(shape[2:]) * -(-shape[1] // BLOCK)


def layers(model: bytes) -> Iterator[Layer]:
    """The layers of a net that VTA computes."""
    graph = onnx.shape_inference.infer_shapes(onnx.load_from_string(model)).graph
    values = [*graph.value_info, *graph.input, *graph.output]
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}
    shapes |= {t.name: tuple(t.dims) for t in graph.initializer}
    readers = defaultdict[str, list[onnx.NodeProto]](list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node)
    for node in graph.node:
        if node.op_type not in ("Conv", "Gemm", "Add", "MaxPool", "GlobalAveragePool"):
            continue
        group = next((a.i for a in node.attribute if a.name == "group"), 1)
        w = shapes_of_weights(node, graph, shapes)
        x, y = shapes[node.input[0]], shapes[node.output[0]]
        yield Layer(node.name, node.op_type, x, y, w, group, pooled(node, readers, shapes))


def shapes_of_weights(node, graph, shapes) -> tuple[int, ...]:
    """[outputs, inputs of a group, window]; nothing where there are no weights."""
    if node.op_type not in ("Conv", "Gemm"):
        return ()
    maker = next(other for other in graph.node if node.input[1] in other.output)
    return shapes[maker.input[0]]


def pooled(node, readers, shapes) -> int | None:
    """The vectors of the max pool that follows, whatever quantises between."""
    while len(readers[node.output[0]]) == 1:
        (node,) = readers[node.output[0]]
        if node.op_type == "MaxPool":
            return vectors(shapes[node.output[0]])
        if node.op_type not in ("Relu", "Clip", "QuantizeLinear", "DequantizeLinear"):
            return None
    return None


def compute_of(package: Package) -> Counter[str]:
    """The cycles of the compute module by node."""
    busy = Counter[str]()
    for part in package.profile():
        for nodes, unit, cycles in part.by_node:
            busy[nodes] += cycles if unit in COMPUTE else 0
    return busy


def rows(name: str, form: str, full: bool, by_layer: bool, config: str) -> Iterator[str]:
    scale = FULL if full else QUARTER
    model = quantised_net(name, "symmetric", "QDQ", scale, per_channel=form == "channel")
    if form == "powers":
        model = with_powers_of_two(model)
    found = [*layers(model)]
    for gather in (True, False):
        package = byocir.compile(model, targets=[byocir.Vta(gather=gather, config=config)])
        cycles = sum(part.cycles for part in package.profile())
        bound = sum(layer.bound(form, gather) for layer in found)
        if by_layer:
            yield from by_kind(found, compute_of(package), form, gather)
        stem = "windows gathered" if gather else "image as it is"
        ratio = cycles / bound
        yield f"{name:<12} {form:<8} {stem:<17} {cycles:>12,} {bound:>12,} {ratio:6.3f}"


def by_kind(found: list[Layer], busy: Counter[str], form: str, gather: bool) -> Iterator[str]:
    kinds = defaultdict[str, list[Layer]](list)
    for layer in found:
        kinds[layer.kind].append(layer)
    for kind, members in kinds.items():
        names = [layer.name for layer in members]
        cycles = sum(n for nodes, n in busy.items() if any(m in nodes.split(", ") for m in names))
        bound = sum(layer.bound(form, gather) for layer in members)
        yield f"  {len(members):>2} {kind:<64} {cycles:>10,} {bound:>10,} {cycles / bound:6.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nets", default=",".join(NETS), help="some of them")
    parser.add_argument("--forms", default="channel,powers", help="some of them")
    parser.add_argument("--full", action="store_true", help="nets in full size")
    parser.add_argument("--layers", action="store_true", help="a row for each kind of layer, too")
    parser.add_argument("--config", default="", help="a VTA other than the default, e.g. pynq")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # the quantiser's advice
    has_products = byocir.Vta(config=options.config).machine_config.alu_mul
    forms = options.forms.split(",") if has_products else ["powers"]
    for name in options.nets.split(","):
        for form in forms:
            for row in rows(name, form, options.full, options.layers, options.config):
                print(row, flush=True)


if __name__ == "__main__":
    main()
