"""Builds and runs the code of targets whose code is C."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast
from weakref import finalize

import ml_dtypes
import numpy as np

from byocir.errors import ByocirError, Lines
from byocir.targets.device import CFunctions, c_name
from byocir.targets.loader import Loader, Runner
from byocir.toolchain.calling import FLAGS, CEntry, pointers
from byocir.vendor.blame import blame
from byocir.vendor.hooks import CodeFailed

SOURCE, OUTPUTS = "regions.c", "outputs.json"


@dataclass(frozen=True)
class CLoader(Loader):
    """Builds C functions, and the libraries that they are linked with, and runs them."""

    headers: ClassVar[Sequence[str]] = ()
    """The headers of installed libraries that the code includes: `acme/acme.h`."""

    libraries: ClassVar[Sequence[str]] = ()
    """The installed libraries that it links, as `-l` takes them, or flags of the linker."""

    search: ClassVar[Sequence[str]] = ()
    """The places that may have both, the first that works: "pkg-config:acme", "wheels:acme
    acme-devel", or a folder with `include` and `lib`; last those of the C compiler. The variable
    `NAME_ROOT`, of the target's name, is a folder that goes before all."""

    stateful: ClassVar[bool] = False
    """Says that regions have a state, made once before the first run: `define` then gives
    `int name(void *state, ARRAYS)` and, beside it, `int name_open(void **state, const void *data)`
    and `void name_close(void *state)`. `data` gives the bytes that the second gets."""

    processors: ClassVar[Mapping[int, str]] = {}
    """The processors that its functions need, by the number that they give on another one."""

    def load(self, blobs: Mapping[str, bytes]) -> Runner:
        """Builds the code and makes its runner. Raises ByocirError B401 to B404 where it cannot be
        built, B407 without a library that it links, and later B405 on a processor that lacks what
        it needs.
        """
        outputs = json.loads(blobs[OUTPUTS])
        made = self.device(blobs)
        try:
            return CCode(made, outputs, c_name(self.name), self.processors)
        except ByocirError as error:
            raise self._blamed(error, (SOURCE, *made.files)) from error

    def _blamed(self, error: ByocirError, files: Sequence[str]) -> ByocirError:
        """Adds to an error of compiler or loader where the C came from, if not from byocir."""
        kind = cast("type[Any]", type(self))
        found = blame(kind, getattr(kind, "define", None), error, is_known=True)
        refused = error.code == "B403" and any(f"{file}:" in error.message for file in files)
        undefined = error.code == "B404" and "undefined symbol" in error.message
        if not (refused or undefined) or not found.is_users:
            return error
        help_ = f"this is the C of target '{self.name}': what `define` gives, preamble and library"
        if undefined:
            help_ += "; a function of an installed library needs its name in `libraries`"
        return ByocirError(error.code, Lines(error.message), where=found.where, help=help_)

    def device(self, blobs: Mapping[str, bytes]) -> CFunctions:
        from byocir.toolchain import Libraries

        symbols: list[str] = [*json.loads(blobs[OUTPUTS])]
        data = {symbol: blobs[data_of(symbol)] for symbol in symbols if self.stateful}
        others = {SOURCE, OUTPUTS, *map(data_of, data)}
        files = {name: blob for name, blob in blobs.items() if name not in others}
        functions = {symbol: c_name(symbol) for symbol in symbols}
        linked = Libraries(self.name, self.headers, self.libraries, self.search)
        wanted = linked if self.headers or self.libraries else None
        return CFunctions(functions, blobs[SOURCE], files, data, wanted)


class CCode:
    """Runs C functions that were built here. It opens the state of a function when that is first
    run, and closes all states when it ends.
    """

    def __init__(
        self,
        made: CFunctions,
        outputs: Mapping[str, Sequence[Any]],
        name: str,
        processors: Mapping[int, str],
    ) -> None:
        from byocir.toolchain import built_and_loaded

        linked = made.libraries.flags() if made.libraries is not None else ()
        files = {**made.files, SOURCE: made.source}
        self._made, self._outputs, self._processors = made, outputs, processors
        self._library = built_and_loaded(name, files, (*FLAGS, *linked))
        self._states: dict[str, ctypes.c_void_p] = {}
        finalize(self, _close, self._library, made.functions, self._states, made.data)

    def __call__(self, symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        outputs = [np.empty(shape, _dtype(dtype)) for shape, dtype in self._outputs[symbol]]
        given = [np.ascontiguousarray(array) for array in inputs]
        function = self._function(symbol)
        code = function(*self._state_of(symbol), pointers(given), pointers(outputs))
        self._check(code, symbol, f"the code of {symbol}")
        return outputs

    def c_entry(self, symbol: str) -> CEntry:
        """Gives the C function of a region, for callers in C. It is valid for as long as this
        object lives.
        """
        address = ctypes.cast(self._function(symbol), ctypes.c_void_p).value
        assert address is not None
        return CEntry(address, next((s.value or 0 for s in self._state_of(symbol)), None))

    def _function(self, symbol: str) -> Any:
        return self._defined(symbol, self._made.functions[symbol])

    def _defined(self, symbol: str, name: str) -> Any:
        """Finds a function by its name in C. Raises CodeFailed where the code has none."""
        try:
            return getattr(self._library, name)
        except AttributeError:
            raise CodeFailed(f"the code of {symbol} defines no function {name}") from None

    def _check(self, code: int, symbol: str, what: str) -> None:
        if code in self._processors:
            raise ByocirError(
                "B405",
                f"expected {self._processors[code]}, found another processor",
                where=symbol,
                help="compile with other options of the target (byocir targets), or without it",
            )
        if code != 0:
            raise CodeFailed(f"{what} gave {code}")

    def _state_of(self, symbol: str) -> Sequence[ctypes.c_void_p]:
        """Gives the state that a function takes, opened if need be; nothing for a function without
        one.
        """
        data = self._made.data.get(symbol)
        if data is None:
            return ()
        if symbol not in self._states:
            state = self._states[symbol] = ctypes.c_void_p()
            name = f"{self._made.functions[symbol]}_open"
            opened = self._defined(symbol, name)
            code = opened(ctypes.byref(state), ctypes.c_char_p(data))
            if code != 0:
                _close(self._library, self._made.functions, {symbol: self._states.pop(symbol)})
            self._check(code, symbol, name)
        return (self._states[symbol],)


def _close(
    library: ctypes.CDLL,
    functions: Mapping[str, str],
    states: Mapping[str, ctypes.c_void_p],
    *_: Any,
) -> None:
    """Closes the states of functions by symbol; the other arguments are kept alive until then."""
    for symbol, state in states.items():
        if state:
            getattr(library, f"{functions[symbol]}_close")(state)


def _dtype(name: str) -> np.dtype:
    """Finds a dtype by its name, also bfloat16 and others that numpy lacks."""
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def data_of(symbol: str) -> str:
    """Names the blob from which a region's state is made."""
    return f"{symbol}.data"
