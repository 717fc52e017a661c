"""Hostile MLIR text, weights beside it, pipelines of passes and scripts of schedules."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import numpy as np
from hostile_cases import Case

from byocir.dialects.array import Array
from byocir.dialects.weights import dump_arrays

RELU = """builtin.module {
  func.func public @main(%x: tensor<1x4xf32> {byoc.name = "x"})
      -> (tensor<1x4xf32> {byoc.name = "y"}) {
    %0 = graph.relu %x : (tensor<1x4xf32>) -> tensor<1x4xf32>
    func.return %0 : tensor<1x4xf32>
  }
}
"""


def _both(name: str, text: str | bytes, **files: bytes) -> Iterator[Case]:
    content = {"m.mlir": text if isinstance(text, bytes) else text.encode(errors="surrogatepass")}
    content |= {file.replace("_", "."): data for file, data in files.items()}
    yield Case(f"{name}, opt", "byocir-opt @/m.mlir -p clean-up", content)
    yield Case(f"{name}, compiled", "byocir run @/m.mlir", content)


def _main(body: str, takes: str = "%x: tensor<1x4xf32>") -> str:
    return f"func.func public @main({takes}) {{\n{body}\n  func.return\n}}\n"


def _aliases(depth: int, kind: str) -> str:
    """Aliases that each name the one before twice: 2^depth when spelled out."""
    lines = [f"{kind}a0 = " + ("[1, 2]" if kind == "#" else "tuple<i32, i32>")]
    for i in range(depth):
        twice = f"{kind}a{i}, {kind}a{i}"
        lines.append(f"{kind}a{i + 1} = " + (f"[{twice}]" if kind == "#" else f"tuple<{twice}>"))
    last = f"{kind}a{depth}"
    use = f"builtin.module attributes {{a = {last}}} {{}}"
    return "\n".join([*lines, use])


def texts() -> Iterator[Case]:
    """Text that is no module, or one that asks for too much."""
    for depth in (10, 25, 60, 300):
        yield from _both(f"attributes that double {depth} times", _aliases(depth, "#"))
        yield from _both(f"types that double {depth} times", _aliases(depth, "!"))
    for depth in (50, 400, 5000):
        yield from _both(f"{depth} regions deep", "builtin.module {" * depth + "}" * depth)
        yield from _both(
            f"{depth} arrays deep",
            "builtin.module attributes {a = " + "[" * depth + "]" * depth + "} {}",
        )
        yield from _both(
            f"{depth} brackets deep",
            "builtin.module attributes {a = affine_map<(d0) -> ("
            + "(" * depth
            + "d0"
            + ")" * depth
            + ")>} {}",
        )
        yield from _both(
            f"{depth} tuples deep",
            "builtin.module attributes {a = " + "tuple<" * depth + "i32" + ">" * depth + "} {}",
        )
    odd = {
        "empty": "",
        "null": "\0",
        "zeros": "\0" * 5000,
        "byte order mark": "\ufeff" + RELU,
        "surrogate": "\ud800",
        "UTF-16": RELU.encode("utf-16"),
        "no text": bytes(range(256)) * 20,
        "string without an end": 'builtin.module attributes {a = "' + "x" * 9000,
        "escape": "\x1b[2J\x1b[31m",
        "long word": "n" * 200000,
        "long line": RELU.replace("\n", " ") + "/" * 100000,
        "word backwards": "\u202ebuiltin.module {}",
        "no main": "builtin.module {}",
        "main twice": RELU.replace(
            "  }\n}", "  }\n" + RELU.split("\n", 1)[1].rsplit("}", 2)[0] + "}\n}"
        ),
        "unknown op": "builtin.module { nope.op }",
        "op that is nearly known": RELU.replace("relu", "rleu"),
        "undefined value": RELU.replace("relu %x", "relu %zzz"),
        "value used before": _main(
            "%a = graph.relu %b : (tensor<1x4xf32>) -> tensor<1x4xf32>\n"
            "%b = graph.relu %x : (tensor<1x4xf32>) -> tensor<1x4xf32>"
        ),
        "value of itself": _main("%a = graph.relu %a : (tensor<1x4xf32>) -> tensor<1x4xf32>"),
        "wrong type": RELU.replace("-> (tensor<1x4xf32>", "-> (tensor<4x1xf32>"),
        "unknown type": RELU.replace("f32", "f33"),
        "integer of 100,000 bits": RELU.replace("f32", "i100000"),
        "integer of 10^30 bits": RELU.replace("f32", "i1" + "0" * 30),
        "size of 10,000 digits": RELU.replace("1x4", "1x" + "9" * 10000),
        "huge size": RELU.replace("1x4", f"1x{2**62}"),
        "negative size": RELU.replace("1x4", "1x-4"),
        "1,000 dimensions": RELU.replace("1x4", "x".join(["1"] * 1000)),
        "number of 10,000 digits": "builtin.module attributes {a = " + "9" * 10000 + "} {}",
        "float beyond floats": "builtin.module attributes {a = 1.0e999999 : f32} {}",
        "dense of other sizes": "builtin.module attributes {a = dense<[1, 2]> : tensor<3xi32>} {}",
        "dense of huge size": "builtin.module attributes {a = dense<1> : "
        f"tensor<{2**50}xi32>}} {{}}",
        "dense of odd bytes": 'builtin.module attributes {a = dense<"0x12"> : tensor<3xi32>} {}',
        "huge loop": _main(f'%0 = "tir.for"() ({{}}) {{extent = {2**62} : i64}} : () -> ()'),
        "huge buffer": _main(f"%0 = memref.alloc() : memref<{2**50}xf32>"),
        "large buffer": _main(f"%0 = memref.alloc() : memref<{2**33}xf32>"),
        "call of itself": "builtin.module { func.func public @main() {"
        " func.call @main() : () -> ()\n func.return } }",
        "call of nothing": _main("func.call @no() : () -> ()"),
        "dialect that is not there": 'builtin.module { "a.b"() {c = #d.e<"f">} : () -> () }',
        "target of a file": RELU.replace(
            "builtin.module {",
            'builtin.module attributes {byoc.targets = [#byoc.target<"/tmp/evil.py:T", {}>]} {',
        ),
        "target without a name": RELU.replace(
            "builtin.module {",
            'builtin.module attributes {byoc.targets = [#byoc.target<"", {}>]} {',
        ),
        "targets that are none": RELU.replace(
            "builtin.module {", 'builtin.module attributes {byoc.targets = "vta"} {'
        ),
        "placement that is none": RELU.replace(
            "builtin.module {", "builtin.module attributes {byoc.placement = 3 : i64} {"
        ),
        "costs that are none": RELU.replace(
            "builtin.module {",
            'builtin.module attributes {byoc.costs = "{", byoc.objective = "latency"} {',
        ),
        "levels that are none": RELU.replace(
            "builtin.module {", "builtin.module attributes {byoc.levels = [3 : i64]} {"
        ),
        "names that are none": RELU.replace('"x"', "3 : i64"),
        "one name twice": RELU.replace('"y"', '"x"'),
        "name of control characters": RELU.replace('"x"', '"\\1b[2J\\00"'),
        "location of control characters": RELU.replace(
            "%x : (tensor<1x4xf32>) -> tensor<1x4xf32>",
            '%x : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("a\\00\\1b[2J")',
        ),
        "code of a region": "builtin.module attributes {byoc.in_code} {"
        " func.func public @main() { func.return } }",
        "10,000 ops in a line": _main(
            "\n".join(
                f"%{i} = graph.relu %x : (tensor<1x4xf32>) -> tensor<1x4xf32>" for i in range(2000)
            )
        ),
        "unclosed": RELU[:-30],
        "only brackets": "{" * 3000,
        "many modules": "// -----\n" * 3000,
        "attribute twice": "builtin.module attributes {a = 1 : i64, a = 2 : i64} {}",
        "symbol of 8,000 characters": RELU.replace("@main", "@" + "m" * 8000),
        "op of 8,000 characters": "builtin.module { " + "o" * 8000 + ".op }",
        "region without an end": RELU.replace("    func.return %0 : tensor<1x4xf32>\n", ""),
        "block that does not exist": _main("cf.br ^bb9"),
        "tir block of nothing": _main('"tir.block"() : () -> ()'),
        "graph op of nothing": _main('"graph.conv"() : () -> ()'),
        "constant without values": RELU.replace(
            "graph.relu %x", 'graph.constant #graph.array<"00ff" : tensor<1x4xf32>> //'
        ),
        "constant of too few": RELU.replace(
            "graph.relu %x", "graph.constant #graph.array<[1.0] : tensor<1x4xf32>> //"
        ),
        "constant of huge size": RELU.replace(
            "graph.relu %x", f"graph.constant #graph.array<[1.0] : tensor<{2**50}xf32>> //"
        ),
    }
    for name, text in odd.items():
        yield from _both(name, text)


def _constant(digest: str, kind: str = "20xf32") -> str:
    return (
        f"builtin.module {{\n func.func public @main() -> (tensor<{kind}>) {{\n"
        f' %0 = graph.constant #graph.array<"{digest}" : tensor<{kind}>>\n'
        f" func.return %0 : tensor<{kind}>\n }}\n}}\n"
    )


def _header(entries: object, size: int = 0, length: int | None = None) -> bytes:
    """A file in the safetensors format, with this header and so many bytes of values."""
    text = json.dumps(entries).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + bytes(size)


def blobs() -> Iterator[Case]:
    """Weights beside a text that are not those it names."""
    array = Array.of(np.arange(20, dtype=np.float32))
    sound = dump_arrays({array.digest: array})
    entry = {"dtype": "F32", "shape": [20], "data_offsets": [0, 80]}
    files = {
        "absent": None,
        "empty": b"",
        "cut off": sound[:-7],
        "other values": sound[:-4] + b"\1\2\3\4",
        "zeros": bytes(500),
        "random": bytes(range(256)) * 9,
        "another digest": _header({"0" * 32: entry}, 80),
        "no header": _header([]),
        "deep header": b"\xff\xff\0\0\0\0\0\0" + b"[" * 65535,
        "header beyond the end": _header({}, 0, 2**60),
        "header of negative size": _header({}, 0, 2**63),
        "offsets beyond the end": _header(
            {array.digest: {**entry, "data_offsets": [0, 2**60]}}, 80
        ),
        "offsets backwards": _header({array.digest: {**entry, "data_offsets": [80, 0]}}, 80),
        "huge shape": _header({array.digest: {**entry, "shape": [2**62, 2**62]}}, 80),
        "unknown dtype": _header({array.digest: {**entry, "dtype": "F999"}}, 80),
        "negative shape": _header({array.digest: {**entry, "shape": [-20]}}, 80),
        "odd key": _header(
            {f"{array.digest} float4_e2m1fn 10x2": {**entry, "dtype": "U8", "shape": [80]}}, 80
        ),
        "key of a file": _header(
            {f"{array.digest} /etc/passwd": {**entry, "dtype": "U8", "shape": [80]}}, 80
        ),
        "overlapping": _header({"a": entry, array.digest: entry}, 80),
    }
    for name, content in files.items():
        beside = {} if content is None else {"m_safetensors": content}
        yield from _both(f"weights: {name}", _constant(array.digest), **beside)
    yield from _both("digest of control characters", _constant("\\00\\1b[2J"))
    yield from _both("digest of 8,000 characters", _constant("f" * 8000))
    yield Case(
        "weights that are a pipe",
        "byocir-opt @/m.mlir --weights @/w",
        {"m.mlir": RELU.encode(), "w": os.mkfifo},
    )
    yield Case(
        "weights that are a device",
        "byocir-opt @/m.mlir --weights /dev/zero",
        {"m.mlir": RELU.encode()},
    )


def pipelines() -> Iterator[Case]:
    """What is no pipeline of passes."""
    for text in (
        "{",
        "}",
        "clean-up{",
        "clean-up{a}",
        "clean-up{a=}",
        "clean-up{a=1 a=2}",
        "clean-up,,clean-up",
        ",",
        "clean-up{{{{",
        "clean up",
        "no-such-pass",
        "n" * 9000,
        "clean-up{" + "a" * 9000 + "=1}",
        "clean-up{a=" + "9" * 9000 + "}",
        "fold-constants{max_growth=x}",
        "fold-constants{max-growth=-1}",
        "fold-constants{max-growth=" + "9" * 30 + "}",
        "fold-constants{max-growth=1.5}",
        "set-targets{targets=vta{block=7}}",
        "set-targets{targets=/etc/passwd:X}",
        "match-composites{level=x}",
        "\x1b[2J",
        "clean-up\0",
        "\u202e",
        'clean-up{a="' + "x" * 5000,
        ",".join(["clean-up"] * 400),
        "convert-graph-to-tir{bodies=maybe}",
        "pack-weights{cpu=none}",
        "schedule",
        "schedule{function=no}",
    ):
        yield Case(
            f"pipeline {ascii(text)[:60]}",
            "byocir-opt @/m.mlir -p",
            {"m.mlir": RELU.encode()},
            (text,),
        )


def scripts() -> Iterator[Case]:
    """What is no schedule."""
    for text in (
        "tile(",
        "tile()",
        "tile(nothing, m=4)",
        "1 + 1",
        "__import__('os').system('true')",
        "tile.__class__",
        "x = y = z",
        "a, b = tile",
        "while True: pass",
        "lambda: 1",
        "[" * 300 + "]" * 300,
        "(" * 5000 + ")" * 5000,
        "-" * 9000 + "1",
        "tile(a, m=" + "9" * 6000 + ")",
        "block('" + "b" * 9000 + "')",
        "tile(*a)",
        "tile(**a)",
        "split(a, 2.5)",
        "split(a, None)",
        "f'{1}'",
        "\x1b[2J",
        "a\0b",
        "\u202e",
        "a.b.c.d",
        "blocks[99]",
        "blocks()[0:1]",
        "del x",
        "import os",
        "exec('1')",
        "tile(a, m=True)",
        "reorder()",
        "unroll(1)",
        "pack(a, 0, {})",
        "stage(a, -1, 'x')",
        ";" * 5000,
        "a" * 100000,
        "tensorise(a, 'vta.nothing')",
    ):
        quoted = json.dumps(text)
        yield Case(
            f"schedule {ascii(text)[:60]}",
            "byocir-opt @/m.mlir -p",
            {"m.mlir": RELU.encode()},
            (f"schedule{{script={quoted}}}",),
        )


TEXTS = (texts, blobs, pipelines, scripts)
