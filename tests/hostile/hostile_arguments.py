"""Hostile command lines, tables in JSON, jobs and programs of VTA."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from hostile_cases import Case
from hostile_models import RELU, content, model, port

OPEN = content(model(RELU, inputs=[port("x", ["n", 4])]))
MODEL = content(model(RELU))


def shapes() -> Iterator[Case]:
    """What is no shape of an input, or no size that there is."""
    for text in (
        "",
        "=",
        "x",
        "x=",
        "=1,4",
        "x=1",
        "x=1,4,4",
        "x=0,4",
        "x=-1,4",
        "x=1,5",
        "x=a,b",
        "x=1,,4",
        "x=1.5,4",
        "x=1e9,4",
        "x=\u0661,4",
        "x= 1 , 4 ",
        "x=1_0,4",
        "x=+1,4",
        "x=0x1,4",
        "z=1,4",
        "x=1000000000,4",
        "x=" + "9" * 23 + ",4",
        "x=" + "9" * 18 + ",4",
        "x=" + "9" * 5000 + ",4",
        "x=" + ",".join(["1"] * 5000),
        "n" * 9000 + "=1,4",
        "\x1b[2J=1,4",
        "x=\x1b[2J",
        "a=b=1,4",
        "x=9223372036854775807,4",
        "x=9223372036854775808,4",
        "x=4611686018427387904,4",
        "\u202e=1",
        "x=1,4;rm",
    ):
        yield Case(
            f"shape {ascii(text)[:50]}", "byocir run @/m.onnx --shape", {"m.onnx": OPEN}, (text,)
        )
    yield Case(
        "shape of a large input in C",
        "byocir run @/m.onnx --host c --shape x=1000000000,4",
        {"m.onnx": OPEN},
    )
    yield Case(
        "shape for opt", "byocir-opt @/m.onnx --shape x=99999999999999999999999,4", {"m.onnx": OPEN}
    )


def options() -> Iterator[Case]:
    """Options that have no such value."""
    values = {
        "target": (
            "",
            "no",
            "vta{",
            "vta}",
            "vta{}",
            "vta{block=}",
            "vta{block=x}",
            "vta{block=-1}",
            "vta{block=" + "9" * 9000 + "}",
            "vta{" + "a" * 9000 + "=1}",
            "vta,vta",
            "vta vta",
            "/etc/passwd:X",
            "/dev/zero:X",
            "no.py:No",
            "@/m.onnx:X",
            "@:X",
            "n" * 9000,
            "\x1b[2J",
            'vta{rounding="\x1b[2J"}',
            "vta{block=16 block=16}",
            "vta{block=[[[[}",
            "../vta",
            "json{a=1}",
            "ort{threads=-1}",
            "ort{threads=" + "9" * 30 + "}",
        ),
        "host": (
            "",
            "d",
            "c{",
            "c{}",
            "c{cpu=}",
            "c{cpu=none}",
            "c{threads=0}",
            "c{threads=-1}",
            "c{threads=" + "9" * 30 + "}",
            "c{threads=x}",
            "c{cpu=native cpu=native}",
            "c{cpu=\x1b[2J}",
            "n" * 9000,
            "c{" + "a" * 9000 + "=1}",
            "reference{}",
        ),
        "levels": ("", ",", "graph,graph", "loop", "graph,", "n" * 9000, "\x1b[2J"),
        "seed": ("-1", "x", "1.5", "9" * 5000, "9" * 40, "\u0661", "\u00b2", ""),
        "host-ops": ("", ",", "nope", "n" * 9000, "\x1b[2J", "Relu,,Relu", "none,Relu"),
        "emit": (
            "",
            "nope",
            "n" * 9000,
            "\x1b[2J",
            "clean-up:",
            "clean-up:0",
            "clean-up:-1",
            "clean-up:999",
            "clean-up:" + "9" * 5000,
            "clean-up:\u00b2",
        ),
        "max-bytes": ("", "0", "-1", "x", "1.5G", "1", "9" * 5000, "\u0661", "100", "1E"),
        "objective": ("", "speed", "\x1b[2J"),
        "output": ("/", "/dev/full", "no/such/folder/y.npz", "n" * 5000, "@", "/proc/y"),
        "report": ("/", "/dev/full", "no/such/folder/r.json", "@", "n" * 5000),
        "dump": ("/dev/null", "/proc/d", "n" * 5000, "@/m.onnx"),
    }
    for option, texts in values.items():
        for text in texts:
            yield Case(
                f"--{option} {ascii(text)[:50]}",
                "byocir run @/m.onnx",
                {"m.onnx": MODEL},
                (f"--{option}={text}",),
            )
    for words in (
        ("explain", "@/m.onnx", "--node", "n" * 9000),
        ("explain", "@/m.onnx", "--node", "\x1b[2J"),
        ("explain", "@/m.onnx", "--node", ""),
        ("explain", "@/m.onnx", "--html", "/proc/x"),
        ("export", "@/m.onnx", "-o", "@/m.onnx"),
        ("export", "@/m.onnx", "-o", "/proc/x"),
        ("export", "@/m.onnx", "-o", "@/d", "--name", "1 2"),
        ("export", "@/m.onnx", "-o", "@/d", "--name", "n" * 9000),
        ("export", "@/m.onnx", "-o", "@/d", "--name", "\x1b[2J"),
        ("export", "@/m.onnx", "-o", "@/d", "--weights-as", "x"),
        ("export-onnx", "@/m.onnx", "-o", "/"),
        ("export-onnx", "@/m.onnx", "-o", "@/o.onnx", "--region", "n" * 9000),
        ("patterns", "no"),
        ("patterns", "n" * 9000),
        ("patterns", ""),
        ("measure", "@/m.onnx", "-o", "/dev/full"),
        ("ops", ""),
        ("ops", "n" * 9000),
        ("ops", "\x1b[2J"),
        ("new-target", ""),
        ("new-target", "n" * 9000),
        ("new-target", "\x1b[2J"),
        ("new-target", "os.path"),
        ("new-target", "n", "-o", "/proc/x"),
        ("new-target", "n", "-o", "/dev/full"),
        ("new-target", "n", "--kind", "x" * 9000),
        ("bisect", "@/m.onnx", "--input", "@/m.onnx"),
        ("fly",),
        ("run",),
        ("run", "@/m.onnx", "--nope"),
        ("run", "@/m.onnx", "\x1b[2J" * 900),
        ("n" * 9000,),
        (),
        ("vta",),
        ("vta", "fly"),
        ("targets", "x"),
        ("compile", "@/m.onnx", "-o", "@/m.onnx"),
        ("compile", "@/m.onnx", "-o", ""),
    ):
        yield Case(f"words {ascii(words)[:70]}", "byocir", {"m.onnx": MODEL}, words)


def tables() -> Iterator[Case]:
    """Files of JSON that are none, or of another form."""
    deep, long_ = b"[" * 10**5, b'"' + b"x" * 9000 + b'"'
    common = {
        "empty": b"",
        "no JSON": b"{",
        "brackets": deep,
        "deep object": b'{"a":' * 10**5,
        "not UTF-8": b'{"\xff": "host"}',
        "null": b"null",
        "a list": b"[]",
        "a number": b"3",
        "long number": b"9" * 9000,
        "long text": long_,
        "NaN": b"NaN",
        "control characters": b'"\\u001b[2J\\u0000"',
        "UTF-16": '{"a": "host"}'.encode("utf-16"),
        "zeros": bytes(9000),
    }

    def case(name: str, option: str, text: bytes) -> Case:
        return Case(
            f"{name}", f"byocir run @/m.onnx {option} @/t.json", {"m.onnx": MODEL, "t.json": text}
        )

    entries: list[Any] = [
        {"Relu_0": "gpu"},
        {"Relu_0": 3},
        {"Relu_0": None},
        {"Relu_0": ["host"]},
        {"(": "host"},
        {"[": "host"},
        {"*": "host"},
        {"a{99999999999}": "host"},
        {"(" * 5000 + ")" * 5000: "host"},
        {"(?P<a": "host"},
        {"\\": "host"},
        {"a" * 9000: "host"},
        {"\x1b[2J": "host"},
        {"Relu_0": "\x1b[2J"},
        {"Relu_0": "g" * 9000},
        {"": "host"},
        {"nothing": "host"},
        {"(a*)*b": "host"},
        {"(x+x+)+y": "vta"},
        {"Relu_0": "vta"},
        {"a{1,99999}" * 50: "host"},
        {"(?i)(?i)(": "host"},
        {"\\9": "host"},
        {"(?<=a+)b": "host"},
        {"(?s:" * 90 + ")" * 90: "host"},
        {"\u202e": "host"},
        {"(R|e|l|u|_|0|.)*x": "host"},
    ]
    for name, text in common.items():
        yield case(f"placement: {name}", "--placement", text)
        yield case(f"costs: {name}", "--objective latency --costs", text)
    for entry in entries:
        yield case(f"placement {ascii(entry)[:60]}", "--placement", json.dumps(entry).encode())
    rows: list[Any] = [
        3,
        {},
        {"schema_version": 1},
        {"schema_version": 2},
        {"schema_version": 2, "costs": 3},
        {"schema_version": "x" * 9000, "costs": []},
        {"schema_version": 2, "costs": [3]},
        {"schema_version": 2, "costs": [{}]},
        {"schema_version": 2, "costs": [{"composite": 3}]},
        {"schema_version": 2, "costs": [{"composite": "a", "ops": 3}]},
        {"schema_version": 2, "costs": [{"composite": "a", "ops": [], "latency": -1}]},
        {"schema_version": 2, "costs": [{"composite": "a", "ops": [], "latency": "x"}]},
        {"schema_version": 2, "costs": [{"composite": "a", "ops": [], "latency": True}]},
        {"schema_version": 2, "costs": [{"composite": "a", "ops": [], "latency": float("inf")}]},
        {"schema_version": 2, "costs": [{"composite": "a", "ops": [], "speed": 1}]},
        {"schema_version": 2, "costs": [{"composite": "a", "ops": [], "latency": 10**400}]},
        {"schema_version": 2, "costs": [{"composite": "a", "ops": [], "latency": 1}] * 2},
        {
            "schema_version": 2,
            "costs": [{"composite": "\x1b[2J" * 2000, "ops": ["\0"], "speed": 1}],
        },
    ]
    for row in rows:
        yield case(
            f"costs {ascii(row)[:90]}", "--objective latency --costs", json.dumps(row).encode()
        )
    jobs: dict[str, bytes] = {
        **common,
        "no fields": b"{}",
        "unknown field": b'{"a": 1}',
        "field of control characters": b'{"\\u001b[2J": 1}',
        "field of 9,000 characters": b"{" + long_ + b": 1}",
    }
    sound = {
        "model": "m.onnx",
        "float_model": "m.onnx",
        "data": "d.npz",
        "input": "x",
        "labels": "l",
        "target": "vta",
        "shapes": {},
        "goals": {"accuracy_loss_points": 1, "offloaded_macs_percent": 1},
    }
    for key in sound:
        jobs[f"{key} null"] = json.dumps({**sound, key: None}).encode()
        jobs[f"{key} odd"] = json.dumps(
            {**sound, key: "../\0\x1b[2J" if isinstance(sound[key], str) else [3]}
        ).encode()
    for name, text in jobs.items():
        yield Case(f"job: {name}", "byocir run @/job", {"job/job.json": text, "job/m.onnx": MODEL})


def _dram(**header: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(16, np.uint8))
    return (
        buffer.getvalue().replace(b"(16,)", header["shape"].encode().ljust(5))
        if header
        else bytes(4096)
    )


def vta() -> Iterator[Case]:
    """Programs, configurations and images of VTA."""
    lines = (
        "",
        "fly",
        "load",
        "load.",
        "load.xxx",
        "load.inp sram=",
        "load.inp sram=x",
        "load.inp sram=-1",
        "load.inp sram=" + "9" * 9000,
        "load.inp sram=0x" + "f" * 39,
        "load.inp sram=1 sram=1",
        "load.inp.inp",
        "load.inp sram=1,2",
        "load.inp pad=1",
        "load.inp {",
        "load.inp }",
        "load.inp {a}",
        "load.inp {push_next,push_next}",
        "gemm" + " x" * 5000,
        "n" * 9000,
        "\x1b[2J",
        "a\0b",
        "\u202e",
        ".insn",
        ".insn 1",
        ".insn 1 2 3",
        ".insn -1 0",
        ".insn 99999999999999999999 0",
        ".insn 7 0",
        "finish finish",
        "load.inp sram=65535 dram=4294967295 y=65535 x=65535 stride=65535",
        "finish",
        "store.out sram=2047 dram=4294967295 y=65535 x=65535\nfinish",
        "gemm uop=0,8191 iter=16383,16383\nfinish {pop_prev}",
        "alu.add uop=0,1 iter=16383,16383 dst=2047,2047\nfinish",
        "load.uop y=1 x=1\n" * 5 + "gemm uop=0,1 iter=16383,16383\nfinish",
        "load.inp {pop_next}\nfinish",
        "load.inp y=1 x=1 stride=1\n" * 400,
        "#" * 100000,
    )
    for line in lines:
        for verb, more in (("asm", "-o @/o.bin"), ("run", "--dram @/d --check --timing")):
            files = {"p.s": line.encode(), "d": bytes(4096)}
            yield Case(f"vta {verb} {ascii(line)[:60]}", f"byocir vta {verb} @/p.s {more}", files)
    streams = {
        "no instruction": b"",
        "half an instruction": bytes(7),
        "zeros": bytes(1600),
        "ones": b"\xff" * 1600,
        "every byte": bytes(range(256)) * 16,
    }
    for name, data in streams.items():
        for command in ("dis @/p.bin", "run @/p.bin --dram @/d", "trace @/p.bin -o @/t.json"):
            yield Case(
                f"vta {command[:3]} of {name}",
                f"byocir vta {command}",
                {"p.bin": data, "d": bytes(4096)},
            )
    images = {
        "empty": b"",
        "cut off": b"\x93NUMPY",
        "of another dtype": _dram(shape="(2,)"),
        "promises more": _dram(shape=f"({2**40},)"),
        "promises a lot more": _dram(shape=f"({2**62},{2**62})"),
        "of brackets": b"\x93NUMPY\1\0\x10\x27" + b"(" * 10000,
        "of objects": _dram(shape="(2,)").replace(b"|u1", b"|O1"),
    }
    for name, data in images.items():
        yield Case(
            f"vta image {name}",
            "byocir vta run @/p.s --dram @/d.npy",
            {"p.s": b"finish", "d.npy": data},
        )
    for name, data in {
        "no JSON": b"{",
        "brackets": b"[" * 10**5,
        "a list": b"[]",
        "negative": b'{"LOG_INP_WIDTH": -3}',
        "huge": b'{"LOG_BATCH": 999999999}',
        "long": b'{"LOG_BATCH": ' + b"9" * 9000 + b"}",
        "text": b'{"LOG_BATCH": "x"}',
        "twice": b'{"LOG_BATCH": 1, "LOG_BATCH": 1}',
        "unknown": b'{"a": "\\u001b[2J"}',
        "no text": b"\xff",
    }.items():
        yield Case(
            f"vta config {name}",
            "byocir vta asm @/p.s --config @/c.json -o @/o",
            {"p.s": b"finish", "c.json": data},
        )
    for words in (
        ("vta", "run", "-", "--dram", "-"),
        ("vta", "run", "@/p.s", "--dram", "none"),
        ("vta", "run", "@/p.s", "--dram", "/dev/zero"),
        ("vta", "run", "@/p.s", "--dram", "@/p.s", "--engine", "x" * 5000),
        ("vta", "run", "@/p.s", "--dram", "@/p.s", "--timing", "--model", "\x1b[2J"),
        ("vta", "asm", "@/p.s", "-o", "/proc/x"),
        ("vta", "asm", "@"),
        ("vta", "dis", "@/p.bpkg"),
        ("vta", "dis", "@/p.s", "--function", "f"),
        ("vta", "asm", "n" * 5000),
    ):
        yield Case(f"{ascii(words)[:70]}", "byocir", {"p.s": b"finish"}, words)


def conform() -> Iterator[Case]:
    """Programs to try again that are none, or not with these inputs, and limits that are none."""
    arrays = {
        "": np.ones((1, 4), np.float32),
        " and bytes": np.zeros((1, 4), "V2"),
        " and as many bytes": np.zeros((1, 4), "V4"),
    }
    bodies = {
        "of nothing": "builtin.module {}",
        "of another name": "func.func @other() { func.return }",
        "declared": "func.func private @main(tensor<1x4xf32>) -> tensor<1x4xf32>",
        "of a number": "func.func @main(%x: f32) -> f32 { func.return %x : f32 }",
        "of text": "func.func @main(%x: tensor<1x4x!graph.string>) { func.return }",
        "of more": "func.func @main(%x: tensor<9x4xf32>) { func.return }",
    }
    for name, body in bodies.items():
        for kind, array in arrays.items():
            buffer = io.BytesIO()
            np.savez(buffer, arg0=array)
            files = {"p.mlir": body.encode(), "p.npz": buffer.getvalue()}
            command = "byocir conform json --case @/p.mlir -o @/o"
            yield Case(f"program {name}{kind}", command, files)
    for option in ("seconds", "rounds"):
        for value in ("-1", "nan", "x", "", "1e999" if option == "seconds" else "9" * 5000):
            words = (f"--{option}={value}", "--pattern", "json.no")
            yield Case(f"conform --{option} {value[:40]}", "byocir conform json", {}, words)


ARGUMENTS = (shapes, options, tables, vta, conform)
