"""How long nets take on dnnl beside the host's C, ONNX Runtime and oneDNN's own convolutions.

    python benchmarks/dnnl.py [--rounds N] [NET ...]

Nets in full size with seeded weights, as in benchmarks/host.py; what `dnnl` does not take runs as
C. `chosen` is what `objective="latency"` makes of dnnl and the host. One thread on one CPU, in
interleaved rounds whose order turns around; times are those of the processor, which other programs
on it do not lengthen. `convolutions` are those of the net alone, called with oneDNN's C API one
after the other on arrays in the orders that it prefers, without bias or what follows. Printed are
the least times of the rounds, dnnl's share of each other's, the largest difference of the first
output from ONNX Runtime's, as a share of its largest value, beside that of ONNX Runtime's with its
graph optimisations from its own without them, and the share of multiply-accumulates on dnnl, alone
and as chosen. In nets of bytes a step that one of them takes the other way is handed on by all
layers behind, so that they differ by some steps of the last.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from host import NETS, measured
from host_rivals import Run, ort
from nets.classic_nets import FULL
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.graph import ConvOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.types import element_type_of, i8, shape_of, ui8
from byocir.evaluate.module import random_feeds
from byocir.rewrites.pipeline import run_passes
from byocir.targets.c import FLAGS
from byocir.targets.dnnl.target import Dnnl
from byocir.toolchain import Libraries, built_and_loaded

SOURCE = r"""
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    dnnl_data_type_t types[3]; /* of input, weights and result */
    int rank, weight_rank;
    dnnl_dims_t x, w, y, strides, dilations, begins, ends;
} conv;

static const conv convs[] = {
%s};
enum { COUNT = sizeof convs / sizeof *convs };
static dnnl_stream_t stream;
static dnnl_primitive_t primitives[COUNT];
static dnnl_exec_arg_t args[COUNT][3];

static dnnl_memory_t filled(const_dnnl_memory_desc_t desc, dnnl_engine_t engine)
{
    const size_t bytes = dnnl_memory_desc_get_size(desc);
    void *data = malloc(bytes);
    dnnl_memory_t memory;
    memset(data, 0, bytes);
    dnnl_memory_create(&memory, desc, engine, data);
    return memory;
}

int conv_open(void)
{
    dnnl_engine_t engine;
    if (dnnl_engine_create(&engine, dnnl_cpu, 0)) return 1;
    dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    for (int i = 0; i < COUNT; i++) {
        const conv *c = &convs[i];
        dnnl_memory_desc_t x, w, y;
        dnnl_primitive_desc_t made;
        const dnnl_format_tag_t any = dnnl_format_tag_any;
        dnnl_memory_desc_create_with_tag(&x, c->rank, c->x, c->types[0], any);
        dnnl_memory_desc_create_with_tag(&w, c->weight_rank, c->w, c->types[1], any);
        dnnl_memory_desc_create_with_tag(&y, c->rank, c->y, c->types[2], any);
        if (dnnl_convolution_forward_primitive_desc_create(
                &made, engine, dnnl_forward_inference, dnnl_convolution_direct, x, w, NULL, y,
                c->strides, c->dilations, c->begins, c->ends, NULL))
            return 2;
        dnnl_primitive_create(&primitives[i], made);
        const int what[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
        for (int j = 0; j < 3; j++)
            args[i][j] = (dnnl_exec_arg_t){
                what[j], filled(dnnl_primitive_desc_query_md(made, dnnl_query_exec_arg_md, what[j]),
                                engine)};
    }
    return 0;
}

void conv_run(void)
{
    for (int i = 0; i < COUNT; i++) dnnl_primitive_execute(primitives[i], stream, 3, args[i]);
    dnnl_stream_wait(stream);
}
"""
TYPES = {i8: "dnnl_s8", ui8: "dnnl_u8"}


def row(op: ConvOp) -> str:
    """A convolution as a row of the C table; its result has its input's type."""
    x, w, y = (shape_of(value.type) for value in (op.input, op.weight, op.result))
    pads, group = int_tuple(op.pads), op.group.value.data
    types = [
        TYPES.get(element_type_of(v.type), "dnnl_f32") for v in (op.input, op.weight, op.input)
    ]
    weights = (group, w[0] // group, *w[1:]) if group > 1 else w
    window = (int_tuple(op.strides), [d - 1 for d in int_tuple(op.dilations)])
    half = len(pads) // 2
    sizes = (x, weights, y, *window, pads[:half], pads[half:])
    table = ", ".join(f"{{{', '.join(map(str, each))}}}" for each in sizes)
    return f"    {{{{{', '.join(types)}}}, {len(x)}, {len(weights)}, {table}}},\n"


def convolutions(module: ModuleOp) -> Run:
    """The convolutions of a net alone, in the orders that oneDNN prefers."""
    rows = "".join(row(op) for op in module.walk() if isinstance(op, ConvOp))
    flags = Libraries(Dnnl.name, Dnnl.headers, Dnnl.libraries, Dnnl.search).flags()
    library = built_and_loaded("convs", {"convs.c": SOURCE % rows}, (*FLAGS, *flags))
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(1)
    assert library.conv_open() == 0

    def run(_: object) -> list[np.ndarray]:
        library.conv_run()
        return []

    return run


def compare(name: str, rounds: int) -> None:
    """Prints the row of one net."""
    model = NETS[name](FULL)
    package = byocir.compile(model, targets=["dnnl"], host="c")
    host = byocir.compile(model, targets=[], host="c")
    chosen = byocir.compile(model, targets=["dnnl"], host="c", objective="latency")
    feeds = random_feeds(package.module)
    runs: dict[str, Run] = {
        "dnnl": lambda feeds: list(package.run(feeds).values()),
        "c": lambda feeds: list(host.run(feeds).values()),
        "chosen": lambda feeds: list(chosen.run(feeds).values()),
    }
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        Path(file.name).write_bytes(model)
        runs["ONNX Runtime"] = ort(file.name, 1, spins=False)
        (plain, *_) = ort(file.name, 1, spins=False, optimise=False)(feeds)
    found, expected = (runs[program](feeds)[0] for program in ("dnnl", "ONNX Runtime"))
    far, own = (np.abs(a - expected).max() / np.abs(expected).max() for a in (found, plain))
    module = byocir.import_onnx(model)
    run_passes(module, load_context(), "normalize-qdq,qdq-to-integer")
    if any(isinstance(op, ConvOp) for op in module.walk()):
        runs["convolutions"] = convolutions(module)
    rows = measured(runs, feeds, rounds, time.process_time)
    least = {program: min(times) for program, times in rows.items()}
    macs, mine = package.report.macs, least.pop("dnnl")
    print(f"{name:<14} {macs['dnnl'] / sum(macs.values()):6.1%} of MACs", end="   ")
    of_chosen = chosen.report.macs["dnnl"] / sum(macs.values())
    print(f"differs {far:.1e}, ONNX Runtime from itself {own:.1e}   chosen: {of_chosen:6.1%}")
    print(f"{'':<14} dnnl {mine:8.2f} ms", end="")
    for program, theirs in least.items():
        print(f"   {program} {theirs:8.2f} ms ratio {mine / theirs:5.2f}", end="")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("nets", nargs="*", metavar="NET", help=", ".join(NETS))
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name in options.nets or ["ResNet-50", "ResNet-50 s8", "MobileNetV2", "SSD", "encoder"]:
        compare(name, options.rounds)


if __name__ == "__main__":
    main()
