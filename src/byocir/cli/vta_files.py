"""Reads and writes the files of `byocir vta`: assembly, instructions, packages, images of DRAM; `-`
is a pipe.

| code | what is wrong |
| --- | --- |
| B101 | a file that is not there or cannot be read |
| B114 | a file that cannot be written, or that would overwrite what was read |
| B115 | arguments that do not go together |
| B116 | a package without programs for VTA, or without the one that was named |
| B117 | an image of DRAM that is a damaged .npy file |
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from byocir.cli.user_files import BROKEN, read_array
from byocir.errors import ByocirError, did_you_mean
from byocir.files import read_all, read_whole, write_whole
from byocir.vta_sim import DEFAULT_CONFIG, VTAConfig, VTAError, assemble
from byocir.vta_sim.isa import as_stream

PIPE = "-"
ASSEMBLY_SUFFIXES = (".s", ".asm")
STREAM_SUFFIX = ".bin"
PACKAGE_SUFFIX = ".bpkg"
NPY_MAGIC = b"\x93NUMPY"


@dataclass(frozen=True)
class Stream:
    """Holds instructions (uint8 [N, 16]), the function of a package that they are ("" for those of
    a file), and where each came from.
    """

    insns: NDArray[np.uint8]
    config: VTAConfig
    function: str = ""
    locations: Sequence[str] | None = None


def config_of(given: str | None) -> VTAConfig:
    """Reads the configuration that a preset, a name or a JSON file gives, else the default."""
    return DEFAULT_CONFIG if given is None else VTAConfig.read(given)


def beside(path: str, suffix: str) -> str:
    """Names the file for a result where the user does not: the same name with another suffix."""
    if path == PIPE:
        return PIPE
    result = str(Path(path).with_suffix(suffix)) if Path(path).name else path
    if result == path:
        raise ByocirError(
            "B114", "expected a file to write other than the one to read", where=path, help="use -o"
        )
    return result


def read_bytes(path: str) -> bytes:
    """Reads a file, or standard input."""
    if path == PIPE:
        return read_all(sys.stdin.buffer, "standard input")
    try:
        return read_whole(path)
    except (OSError, ValueError) as error:
        found = (error.strerror if isinstance(error, OSError) else None) or str(error)
        message = f"expected a file, found: {found.lower()}"
        raise ByocirError("B101", message, where=path) from None


def write_bytes(path: str, data: bytes) -> None:
    """Writes bytes to a file, or to standard output."""
    if path == PIPE:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        write_whole(path, data)
    except (OSError, ValueError) as error:
        found = (error.strerror if isinstance(error, OSError) else None) or str(error)
        message = f"expected a file that can be written, found: {found.lower()}"
        raise ByocirError("B114", message, where=path) from None


def read_assembly(path: str, config: VTAConfig) -> NDArray[np.uint8]:
    """Reads the instructions of a text file."""
    return _assembled(read_bytes(path), path, config)


def _assembled(data: bytes, path: str, config: VTAConfig) -> NDArray[np.uint8]:
    source = "<stdin>" if path == PIPE else path
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        place = f"{source}, byte {error.start}"
        raise VTAError("V108", "text in UTF-8", f"byte {data[error.start]:#04x}", place) from None
    return assemble(text, config, source)


def _stream(data: bytes, path: str) -> NDArray[np.uint8]:
    try:
        return as_stream(np.frombuffer(data, np.uint8))
    except VTAError as error:
        place = "<stdin>" if path == PIPE else path
        raise VTAError(error.code, error.expected, error.found, place) from None


def read_program(path: str, config: VTAConfig) -> NDArray[np.uint8]:
    """Reads assembly or instructions, by the file's suffix; else by what is in it, since text has
    no zero bytes and every program has some.
    """
    data, suffix = read_bytes(path), Path(path).suffix
    if suffix == PACKAGE_SUFFIX:
        raise ByocirError(
            "B115", "expected assembly or instructions, found a package", where=path,
            help="byocir run runs packages",
        )  # fmt: skip
    is_text = suffix in ASSEMBLY_SUFFIXES or (suffix != STREAM_SUFFIX and b"\0" not in data)
    return _assembled(data, path, config) if is_text else _stream(data, path)


def read_streams(path: str, config: str | None, function: str | None) -> list[Stream]:
    """Reads the instructions of a file, or those of the programs of a package, all of them or the
    one that is named.
    """
    is_package = path != PIPE and Path(path).suffix == PACKAGE_SUFFIX
    if not is_package:
        if function is not None:
            raise ByocirError("B115", "expected a package with --function", where=path)
        machine = config_of(config)
        return [Stream(read_program(path, machine), machine)]
    streams = _of_package(path)
    for stream in streams if config is not None else ():
        config_of(config).expect(stream.config, f"program {stream.function}", path)
    if function is None:
        return streams
    chosen = [stream for stream in streams if stream.function == function]
    if not chosen:
        names = [stream.function for stream in streams]
        message = f"expected a program of the package, found '{function}'"
        raise ByocirError("B116", message, where=path, help=did_you_mean(function, names))
    return chosen


def the_only(streams: Sequence[Stream], path: str) -> Stream:
    """Gives the stream, where there is only one; raises ByocirError B115 where there are
    several.
    """
    if len(streams) > 1:
        names = ", ".join(stream.function for stream in streams)
        message = f"expected --function to choose from {names}, found none"
        raise ByocirError("B115", message, where=path)
    return streams[0]


def _of_package(path: str) -> list[Stream]:
    import byocir
    from byocir.targets.vta_emit import programs_of
    from byocir.targets.vta_files import streams

    package = byocir.load(path)
    blobs = programs_of(package.module, package.blobs)
    found = [
        Stream(code.insns, code.config, symbol, code.locations)
        for symbol, code in streams(blobs).items()
    ]
    if not found:
        help = "byocir dis lists those of other machines"
        raise ByocirError("B116", "expected programs for VTA, found none", where=path, help=help)
    return found


def read_dram(path: str) -> NDArray[np.uint8]:
    """Reads an image of DRAM: the array of a .npy file, whatever its name, else the bytes as they
    are.
    """
    data = read_bytes(path)
    if not data.startswith(NPY_MAGIC):
        return np.frombuffer(data, np.uint8)
    try:
        return read_array(io.BytesIO(data), len(data), path)
    except BROKEN as error:
        message = f"expected an array (.npy), found {type(error).__name__} when reading it"
        raise ByocirError("B117", message, where=path) from error


def write_dram(path: str, dram: NDArray[np.uint8]) -> None:
    """Writes memory as .npy if the path has that suffix, else the bytes as they are."""
    if Path(path).suffix != ".npy":
        write_bytes(path, dram.tobytes())
        return
    buffer = io.BytesIO()
    np.save(buffer, dram, allow_pickle=False)
    write_bytes(path, buffer.getvalue())
