"""`byocir vta`: assembles, disassembles, runs and traces programs of the VTA simulator by hand.

`-` as a file is standard input or output. Exit codes are those of `byocir`; 3 is a program that
`run --check` refuses.
"""

from __future__ import annotations

import argparse
import sys

from byocir.cli.arguments import add_limit
from byocir.cli.guard import OK, Parser


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the verbs under `byocir vta`."""
    verbs = parser.add_subparsers(required=True, metavar="VERB", parser_class=Parser)
    _add_asm(verbs.add_parser("asm", help="text to instructions"))
    _add_dis(verbs.add_parser("dis", help="instructions, or a package's programs, to text"))
    _add_run(verbs.add_parser("run", help="run a program on an image of DRAM"))
    _add_trace(verbs.add_parser("trace", help="when each instruction runs, for a trace viewer"))
    isa = verbs.add_parser("isa", help="print the instruction set as a page of Markdown")
    _add_config(isa)
    isa.set_defaults(verb=_isa)
    for verb in verbs.choices.values():
        add_limit(verb)


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="JSON",
        help="the machine, as in tvm-vta's vta_config.json (default: 1x16x16, int8)",
    )


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", default="de10", help="the board whose cycles are counted (default: %(default)s)"
    )


def _add_asm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="assembly (.s), or -")
    parser.add_argument("-o", "--output", help="the instructions (default: FILE.bin, - for -)")
    _add_config(parser)
    parser.set_defaults(verb=_asm)


def _add_dis(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="instructions (.bin), a package (.bpkg), or -")
    parser.add_argument("-o", "--output", default="-", help="the text (default: standard output)")
    parser.add_argument("--function", metavar="NAME", help="only this program of a package")
    _add_config(parser)
    parser.set_defaults(verb=_dis)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="assembly (.s), instructions (.bin), or - for either")
    parser.add_argument(
        "--dram", required=True, metavar="FILE", help="DRAM before the run: uint8 .npy or raw bytes"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="DRAM after the run: .npy, or raw bytes"
    )
    parser.add_argument("--engine", default="auto", help="how to compute (default: %(default)s)")
    parser.add_argument(
        "--check", action="store_true", help="refuse what only some runs get right; exit code 3"
    )
    parser.add_argument("--timing", action="store_true", help="count cycles")
    _add_model(parser)
    parser.add_argument("--report", metavar="FILE", help="write counters and cycles (JSON)")
    _add_config(parser)
    parser.set_defaults(verb=_run)


def _add_trace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="assembly (.s), instructions (.bin), a package (.bpkg), or -")
    parser.add_argument(
        "-o", "--output", default="trace.json", help="for ui.perfetto.dev (default: %(default)s)"
    )
    parser.add_argument("--function", metavar="NAME", help="which program of a package")
    _add_model(parser)
    _add_config(parser)
    parser.set_defaults(verb=_trace)


def _asm(options: argparse.Namespace) -> int:
    from byocir.cli.vta_files import beside, config_of, read_assembly, write_bytes

    insns = read_assembly(options.file, config_of(options.config))
    output = options.output or beside(options.file, ".bin")
    write_bytes(output, insns.tobytes())
    if output != "-":
        print(f"wrote {output}, {len(insns)} instructions")
    return OK


def _dis(options: argparse.Namespace) -> int:
    from byocir.cli.vta_files import read_streams, write_bytes
    from byocir.vta_sim import disassemble

    lines: list[str] = []
    for stream in read_streams(options.file, options.config, options.function):
        if stream.function:
            lines.append(f"# function {stream.function}, {stream.config.name}")
        lines += disassemble(stream.insns, stream.config, stream.locations)
    write_bytes(options.output, "".join(f"{line}\n" for line in lines).encode())
    return OK


def _run(options: argparse.Namespace) -> int:
    from byocir.cli.vta_files import config_of, read_dram, read_program, write_bytes, write_dram
    from byocir.cli.vta_report import as_json, as_text
    from byocir.errors import ByocirError
    from byocir.vta_sim import TimingModel, simulate

    if options.file == options.dram == "-":
        raise ByocirError("B115", "expected standard input for the program or for DRAM, not both")
    config = config_of(options.config)
    insns = read_program(options.file, config)
    dram = read_dram(options.dram)
    timing = TimingModel.named(options.model) if options.timing else False
    result = simulate(insns, dram, config, options.engine, options.check, timing)
    if options.output:
        write_dram(options.output, result.dram)
    if options.report:
        write_bytes(options.report, as_json(result, config).encode())
    for_pipes = "-" in (options.output, options.report)
    print(as_text(result), file=sys.stderr if for_pipes else sys.stdout)
    return OK


def _trace(options: argparse.Namespace) -> int:
    from byocir.cli.vta_files import read_streams, the_only, write_bytes
    from byocir.vta_sim import Program, TimingModel, trace_events
    from byocir.vta_sim.trace import trace_text

    model = TimingModel.named(options.model)
    streams = read_streams(options.file, options.config, options.function)
    stream = the_only(streams, options.file)
    trace = trace_events(Program(stream.insns, stream.config), model, stream.locations)
    write_bytes(options.output, trace_text(trace).encode())
    if options.output != "-":
        print(f"wrote {options.output}, {trace['otherData']['cycles']:,} cycles on {model.name}")
    return OK


def _isa(options: argparse.Namespace) -> int:
    from byocir.cli.vta_files import config_of
    from byocir.vta_sim.isa_page import render

    print(render(config_of(options.config)), end="")
    return OK
