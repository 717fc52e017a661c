"""Hostile packages, and the inputs that programs are fed with."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hostile_cases import Case, Content
from hostile_models import RELU, content, model

import byocir


@cache
def _sound() -> dict[str, bytes]:
    """The members of a package that is one."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "p.bpkg"
        byocir.compile(model(RELU), targets=["json"]).save(path)
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


def _zip(members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, compression)
    return buffer.getvalue()


def _with(**changed: bytes | None) -> bytes:
    """A package with other members, of which the manifest knows."""
    members = {k: v for k, v in {**_sound(), **changed}.items() if v is not None}
    manifest = json.loads(members["manifest.json"])
    manifest["members"] = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        for name, data in members.items()
        if name != "manifest.json"
    }
    members["manifest.json"] = json.dumps(manifest).encode()
    return _zip(members)


def _manifest(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A package whose manifest was changed."""
    manifest = json.loads(_sound()["manifest.json"])
    change(manifest)
    return _zip({**_sound(), "manifest.json": json.dumps(manifest).encode()})


def _overlapping() -> bytes:
    """A small file of a thousand members that lie on top of each other."""
    body = bytes(2**16)
    name = b"blobs/a/%04d"
    checksum = zlib.crc32(body)

    def head(at: int, central: bool) -> bytes:
        fields = [0, 0, 0, 33, checksum, len(body), len(body), 12, 0]
        sizes = [2, 2, 2, 2, 4, 4, 4, 2, 2]
        packed = b"".join(f.to_bytes(s, "little") for f, s in zip(fields, sizes, strict=True))
        if central:
            return b"PK\1\2" + bytes(2) + b"\x0a\0" + packed + bytes(10) + bytes(4) + name % at
        return b"PK\3\4" + b"\x0a\0" + packed + name % at

    local = head(0, False)
    listed = b"".join(head(i, True) for i in range(1000))
    at = len(local) + len(body)
    tail = (
        b"PK\5\6" + bytes(4) + (1000).to_bytes(2, "little") * 2 + len(listed).to_bytes(4, "little")
    )
    return local + body + listed + tail + at.to_bytes(4, "little") + bytes(2)


def packages() -> Iterator[Case]:
    """Files that are no package, or one that was tampered with."""
    sound, whole = _sound(), _with()
    chosen = random.Random(3)
    report = json.loads(sound["report.json"])
    odd: dict[str, bytes] = {
        "empty": b"",
        "no zip": b"PK\3\4" + bytes(100),
        "zeros": bytes(9999),
        "text": b"package",
        "cut off": whole[:-40],
        "only its end": whole[-22:],
        "junk before": b"#!/bin/sh\n" * 50 + whole,
        "overlapping members": _overlapping(),
        "compressed bomb": _zip({**sound, "blobs/json/x": bytes(2**24)}, zipfile.ZIP_DEFLATED),
        "no members": _zip({}),
        "only a manifest": _zip({"manifest.json": b"{}"}),
        "manifest no JSON": _zip({**sound, "manifest.json": b"{"}),
        "manifest of brackets": _zip({**sound, "manifest.json": b"[" * 10**5}),
        "manifest a list": _zip({**sound, "manifest.json": b"[]"}),
        "manifest not UTF-8": _zip({**sound, "manifest.json": b"\xff\xfe"}),
        "manifest of a long number": _zip(
            {**sound, "manifest.json": b'{"schema_version": ' + b"9" * 9000 + b"}"}
        ),
        "members no object": _manifest(lambda m: m.update(members=3)),
        "member no object": _manifest(lambda m: m["members"].update({"module.mlir": 3})),
        "size no number": _manifest(lambda m: m["members"]["module.mlir"].update(size="x")),
        "digest no text": _manifest(lambda m: m["members"]["module.mlir"].update(sha256=5)),
        "another digest": _manifest(lambda m: m["members"]["module.mlir"].update(sha256="0" * 64)),
        "another size": _manifest(lambda m: m["members"]["module.mlir"].update(size=2**62)),
        "version 0": _manifest(lambda m: m.update(schema_version=0)),
        "version of text": _manifest(lambda m: m.update(schema_version="\x1b[2J" * 2000)),
        "version true": _manifest(lambda m: m.update(schema_version=[1] * 3000)),
        "inputs null": _manifest(lambda m: m.update(inputs=None)),
        "an input of brackets": _manifest(lambda m: m.update(inputs={"x": "tensor<" * 10**5})),
        "an input of another type": _manifest(lambda m: m.update(inputs={"x": "tensor<9xi8>"})),
        "no targets": _manifest(lambda m: m.update(targets=[])),
        "a target that there is not": _manifest(
            lambda m: m.update(targets=[{"name": "\x1b[2J" * 2000, "options": {"a": [[1]]}}])
        ),
        "member that is not listed": _zip({**sound, "blobs/json/extra": b"1"}),
        "listed and not there": _zip({k: v for k, v in sound.items() if k != "module.mlir"}),
        "module no text": _with(**{"module.mlir": b"\xff\xfe"}),
        "module empty": _with(**{"module.mlir": b""}),
        "module of control characters": _with(**{"module.mlir": b"\0\x1b[2J"}),
        "module that doubles": _with(
            **{
                "module.mlir": b"#a = [1, 2]\n"
                + b"".join(
                    b"#a%s = [#a%s, #a%s]\n"
                    % (
                        str(i + 1).encode(),
                        (str(i) if i else "").encode(),
                        (str(i) if i else "").encode(),
                    )
                    for i in range(40)
                )
                + b"builtin.module attributes {a = #a40} {}"
            }
        ),
        "module of another": _with(**{"module.mlir": b"builtin.module {}"}),
        "weights empty": _with(**{"weights.safetensors": b""}),
        "weights of a huge header": _with(**{"weights.safetensors": b"\xff" * 8}),
        "weights of brackets": _with(
            **{"weights.safetensors": (10**5).to_bytes(8, "little") + b"[" * 10**5}
        ),
        "report empty": _with(**{"report.json": b""}),
        "report a list": _with(**{"report.json": b"[1]"}),
        "report of brackets": _with(**{"report.json": b"[" * 10**5}),
        "report not UTF-8": _with(**{"report.json": b'"\xff"'}),
        "report null": _with(**{"report.json": b"null"}),
        "code absent": _with(**{name: None for name in sound if name.startswith("blobs")}),
        "code empty": _with(**{name: b"" for name in sound if name.startswith("blobs")}),
        "code of brackets": _with(
            **{name: b"[" * 10**5 for name in sound if name.startswith("blobs")}
        ),
        "code null": _with(**{name: b"null" for name in sound if name.startswith("blobs")}),
        "code no text": _with(**{name: b"\xff\0" for name in sound if name.startswith("blobs")}),
    }
    for name in (
        "../evil",
        "/etc/passwd",
        "blobs/../../evil",
        "blobs/json/..",
        "blobs/json/a/b",
        "blobs//a",
        "blobs/json/a\\b",
        "C:\\evil",
        "n" * 9000,
        "blobs/json/\x1b[2J",
        "blobs/json/a\nb",
        "blobs/\u202e/a",
        "module.mlir/",
    ):
        odd[f"member {ascii(name)[:40]}"] = _with(**{name: b"1"})
    for key in list(report)[:12]:
        for value in (None, "\0", [[]], {"a": 1}):
            odd[f"report's {key} {value!a}"] = _with(
                **{"report.json": json.dumps({**report, key: value}).encode()}
            )
    for name, data in odd.items():
        yield Case(f"package: {name}", "byocir run @/p.bpkg", {"p.bpkg": data})
    for i in range(20):
        changed = bytearray(whole)
        changed[chosen.randrange(len(changed))] ^= 1 << chosen.randrange(8)
        yield Case(
            f"package: a bit changed, {i}",
            "byocir run @/p.bpkg",
            {"p.bpkg": bytes(changed)},
            code="(B13[0-5]|B14[01])?",
        )
    for name, made in {
        "pipe": os.mkfifo,
        "folder": Path.mkdir,
        "link to itself": lambda p: p.symlink_to(p),
        "sparse": lambda p: os.truncate(os.open(p, os.O_CREAT | os.O_RDWR), 2**40),
    }.items():
        yield Case(f"package that is a {name}", "byocir run @/p.bpkg", {"p.bpkg": made})
    for option in (
        "--verify",
        "--host c",
        "--placement @/p",
        "--shape x=1",
        "--target json{a=1}",
        "--levels graph",
        "--target no.py:No",
    ):
        yield Case(f"package with {option}", f"byocir run @/p.bpkg {option}", {"p.bpkg": whole})


def _npy(array: np.ndarray, **header: Any) -> bytes:
    """The bytes of an array, with a header that says something else."""
    buffer = io.BytesIO()
    entries = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape, **header}
    text = repr(entries).encode("latin1") + b"\n"
    buffer.write(b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + array.tobytes())
    return buffer.getvalue()


def _inflating(count: int, size: int) -> Content:
    """Arrays of zeros, which take little room in the file; made only where they are used."""
    return lambda path: path.write_bytes(
        _zip({f"x{i}.npy": bytes(size) for i in range(count)}, zipfile.ZIP_DEFLATED)
    )


def feeds() -> Iterator[Case]:
    """Inputs that are none, or other ones."""
    x = np.ones((1, 4), np.float32)
    made = content(model(RELU))
    pickled = (
        b"\x93NUMPY\1\0"
        + (len(h := b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n")).to_bytes(
            2, "little"
        )
        + h
        + b"cos\nsystem\n(S'true'\ntR."
    )
    odd: dict[str, Content] = {
        "empty": b"",
        "text": b"x = 1",
        "no zip": b"PK\3\4" + bytes(60),
        "one array": _npy(x),
        "no arrays": _zip({}),
        "cut off": _zip({"x.npy": _npy(x)})[:-30],
        "a program": _zip({"x.npy": pickled}),
        "an array of programs": pickled,
        "inflates": _inflating(70, 2**22),
        "inflates in one": _inflating(1, 300 * 2**20),
        "promises more": _zip({"x.npy": _npy(x, shape=(1, 2**40))}),
        "promises more than numbers hold": _zip({"x.npy": _npy(x, shape=(2**62, 2**62))}),
        "promises less": _zip({"x.npy": _npy(x, shape=(1, 2))}),
        "negative shape": _zip({"x.npy": _npy(x, shape=(-1, -4))}),
        "shape no numbers": _zip({"x.npy": _npy(x, shape=("a",))}),
        "shape of brackets": _zip({"x.npy": b"\x93NUMPY\1\0\x10\x27" + b"(" * 10000}),
        "header of code": _zip(
            {"x.npy": b"\x93NUMPY\1\0\x30\0" + b"__import__('os').system('true')".ljust(47) + b"\n"}
        ),
        "1,000 dimensions": _zip({"x.npy": _npy(np.float32(1).reshape(()), shape=(1,) * 1000)}),
        "unknown dtype": _zip({"x.npy": _npy(x, descr="|Z9")}),
        "dtype of fields": _zip(
            {"x.npy": _npy(x, descr=[("a", "<f4", (2,)), ("b", "<f4", (2,))], shape=(1,))}
        ),
        "dtype of objects": _zip({"x.npy": _npy(x, descr="|O")}),
        "dtype of no size": _zip({"x.npy": _npy(x, descr="|V0")}),
        "version 9": _zip({"x.npy": b"\x93NUMPY\x09\0" + _npy(x)[8:]}),
        "header cut off": _zip({"x.npy": b"\x93NUMPY\1\0\xff\xff{'descr'"}),
        "another dtype": _zip({"x.npy": _npy(x.astype(np.float64))}),
        "another shape": _zip({"x.npy": _npy(x[0])}),
        "text in it": _zip({"x.npy": _npy(np.array([["a"] * 4]))}),
        "dates": _zip({"x.npy": _npy(np.zeros((1, 4), "M8[s]"))}),
        "the other byte order": _zip({"x.npy": _npy(x.astype(">f4"))}),
        "another name": _zip({"z.npy": _npy(x)}),
        "name of control characters": _zip({"\x1b[2J\n.npy": _npy(x)}),
        "name of 8,000 characters": _zip({"n" * 8000 + ".npy": _npy(x)}),
        "name that leaves": _zip({"../x.npy": _npy(x)}),
        "no array in it": _zip({"x.npy": b"hello"}),
        "no .npy": _zip({"x": _npy(x)}),
        "twice": (lambda b: b.replace(b"y.npy", b"x.npy"))(
            _zip({"x.npy": _npy(x), "y.npy": _npy(x)})
        ),
        "encrypted": _zip({"x.npy": _npy(x)}).replace(
            b"PK\1\2\x14\x03\x14\0\0\0", b"PK\1\2\x14\x03\x14\0\1\0"
        ),
        "unknown compression": _zip({"x.npy": _npy(x)}).replace(
            b"\x14\0\0\0\0\0\0\0!\0", b"\x14\0\0\0\x63\0\0\0!\0"
        ),
    }
    for name, data in odd.items():
        yield Case(
            f"input: {name}", "byocir run @/m.onnx --input @/x.npz", {"m.onnx": made, "x.npz": data}
        )
    for path in ("/dev/zero", "/dev/null", "/etc", "none", "n" * 5000, "\x1b[2J"):
        yield Case(
            f"input at {ascii(path)[:30]}", "byocir run @/m.onnx --input", {"m.onnx": made}, (path,)
        )
    yield Case(
        "input that is a pipe", "byocir run @/m.onnx --input @/x", {"m.onnx": made, "x": os.mkfifo}
    )


PACKAGES = (packages, feeds)
