"""Finds a vendor's library: its headers, and the flags that link a program with it.

A place is tried by building a program that includes the headers and links the library, so what is
found works. `$NAME_ROOT`, a folder with `include` and `lib`, goes before all places.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from byocir.errors import ByocirError
from byocir.toolchain.build import SECONDS, takes

PKG_CONFIG, WHEELS = "pkg-config:", "wheels:"
FOLDERS = ("include", "lib", "lib64")
_KIND = re.compile(r"[\w-]+:")


@dataclass(frozen=True)
class Libraries:
    """Describes the libraries that C code of the target `owner` needs: `headers` are those that it
    includes, `names` are what `-l` takes, or flags of the linker (which begin with a hyphen).
    `search` lists the places to look in, of which the first that works is taken: "pkg-config:NAME",
    "wheels:NAME NAME", or a folder with `include` and `lib`; last come the compiler's own.
    """

    owner: str
    headers: Sequence[str]
    names: Sequence[str]
    search: Sequence[str]

    @property
    def variable(self) -> str:
        """Gives the environment variable that names a folder to search in place of all others."""
        return re.sub(r"\W", "_", self.owner.upper(), flags=re.ASCII) + "_ROOT"

    @property
    def linked(self) -> list[str]:
        """Gives the flags by which a linker looks for the libraries."""
        return [name if name.startswith("-") else f"-l{name}" for name in self.names]

    @property
    def chosen(self) -> str:
        """Gives the argument of make that has an exported project link the libraries found here.
        Raises as `flags` does.
        """
        return f"{self.variable}_FLAGS={shlex.join(self.flags())}"

    @property
    def packages(self) -> list[str]:
        """Lists the names by which pkg-config may know the libraries."""
        prefix = PKG_CONFIG
        return [p.removeprefix(prefix) for p in self.search if p.startswith(prefix)]

    def flags(self) -> tuple[str, ...]:
        """Gives the flags to compile and link with. Raises ByocirError B407 where no place has
        them, B401 and B402 without a C compiler."""
        chosen = os.environ.get(self.variable)
        tried: list[str] = []
        for place in (chosen,) if chosen else (*self.search, ""):
            flags = self._flags_of(place)
            if flags and takes(flags, self._includes):
                return tuple(flags)
            tried.append(f"${self.variable}={place}" if chosen else place or "the C compiler's own")
        wanted = ", ".join((*self.names, *self.headers))
        raise ByocirError(
            "B407",
            f"expected a library that target '{self.owner}' links ({wanted}), found it in none of: "
            + "; ".join(tried),
            help=self._help(),
        )

    @property
    def _includes(self) -> str:
        return "".join(f"#include <{header}>\n" for header in self.headers)

    def _help(self) -> str:
        wheels = [p.removeprefix(WHEELS) for p in self.search if p.startswith(WHEELS)]
        folder = f"set {self.variable} to a folder that has it in include and lib"
        installed = f"pip install {wheels[0]}" if wheels else "install it with its headers"
        return f"{installed}, or {folder}"

    def _flags_of(self, place: str) -> list[str]:
        """Gives the flags for one place of the search; none where the libraries are not there."""
        if not place:
            return self.linked
        if place.startswith(PKG_CONFIG):
            told = _flags_from_pkg_config(place.removeprefix(PKG_CONFIG))
            folders = [flag.removeprefix("-L") for flag in told if flag.startswith("-L")]
            return [*told, *map(_found_at_run, folders), *self.linked] if told else []
        if place.startswith(WHEELS):
            return self._in_files(_files_of(place.removeprefix(WHEELS).split()))
        folder = Path(place).expanduser().absolute()
        return self._in_files([p for part in FOLDERS for p in (folder / part).rglob("*")])

    def _in_files(self, files: Sequence[Path]) -> list[str]:
        """Gives flags for headers and libraries among files; none where one of them is missing.
        Libraries are given by their paths: those in wheels often lack the name that `-l` looks for.
        """
        flags: list[str] = []
        for header in self.headers:
            path = next((p.as_posix() for p in files if p.as_posix().endswith(f"/{header}")), None)
            if path is None:
                return []
            flags.append(f"-I{path.removesuffix(f'/{header}')}")
        for name in self.names:
            ending = re.compile(rf"lib{re.escape(name)}\.(so|dylib)[.\d]*")
            path = next((p for p in sorted(files) if ending.fullmatch(p.name)), None)
            if path is None and not name.startswith("-"):
                return []
            flags += [name] if path is None else [str(path), _found_at_run(str(path.parent))]
        return [*dict.fromkeys(flags)]


def unknown_kinds(search: Sequence[str]) -> list[str]:
    """Lists the places of a search that have a prefix which is not known, as "wheel:acme" has."""
    known = (PKG_CONFIG, WHEELS)
    return [place for place in search if _KIND.match(place) and not place.startswith(known)]


def _found_at_run(folder: str) -> str:
    """Gives the flag by which a program looks for libraries in a folder when it runs."""
    return f"-Wl,-rpath,{folder}"


def _files_of(wheels: Sequence[str]) -> list[Path]:
    """Lists the files that wheels installed."""
    from importlib import metadata  # imported here, as it imports more than the whole runtime

    found: list[Path] = []
    for wheel in wheels:
        try:
            listed = metadata.files(wheel) or []
        except metadata.PackageNotFoundError:
            return []
        found += [Path(os.path.normpath(str(file.locate()))) for file in listed]
    return [path for path in found if path.is_file()]


def _flags_from_pkg_config(package: str) -> list[str]:
    """Asks pkg-config for the flags of a package; gives none where it does not know the package."""
    program = os.environ.get("PKG_CONFIG", "pkg-config")
    command = [program, "--cflags", "--libs", package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return shlex.split(done.stdout)
