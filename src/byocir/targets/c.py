"""The base class of targets whose code is C: calls of a vendor's library, or kernels written out.

```python
@dataclass(frozen=True)
class Dsp(CTarget):
    name, patterns = "dsp", (conv_relu,)
    library = {"dsp.h": HEADER, "dsp.c": KERNELS}
    preamble = '#include "dsp.h"'

    def define(self, function, name):
        return f"int {name}({ARRAYS})\\n{{ … }}"
```

In process a C compiler builds the code when it is first run, and keeps it by content; an exported
project holds it as it is.

A library that is installed is linked: `headers`, `libraries` and `search` name it and the places to
look for it.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast
from weakref import finalize

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.traits import SymbolTable

from byocir.dialects.byoc import CallOp
from byocir.dialects.tir import IntrinsicOp
from byocir.dialects.types import dtype_of, element_type_of, static_shape
from byocir.errors import ByocirError
from byocir.patterns.hooks import CodeFailed, expect_given
from byocir.targets.base import Runner, Target
from byocir.targets.device import ARRAYS, CFunctions, c_name
from byocir.toolchain import Libraries, built_and_loaded

FLAGS = ("-std=c99", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-lm")
"""The options with which the code is built in process; exported projects are built alike."""
SOURCE, OUTPUTS = "regions.c", "outputs.json"


@dataclass(frozen=True)
class CTarget(Target):
    """A target whose code is C99."""

    library: ClassVar[Mapping[str, str]] = {}
    """C files by name that the code uses, the same for every model. Names that they define for each
    other are static, or begin with the target's name."""

    preamble: ClassVar[str] = ""
    """Begins the code of every model: `#include "dsp.h"`."""

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

    def define(self, function: FuncOp, name: str) -> str:
        """C99 that defines `int name(ARRAYS)` for a region: it fills the outputs from the inputs
        and gives 0, or another number where it fails. `function` holds composites of graph ops, or
        blocks, by `codegen_level`. What else it defines is static and has `name` in its own.

        By default that of a function in memory, as schedules leave it: byocir writes its loops,
        copies, blocks and buffers, and asks `instruction` for the rest. Raises ByocirError B350
        for one that does what has no form in C."""
        from byocir.evaluate.ports import is_in_memory
        from byocir.lowering.tir_to_c.literals import NoC
        from byocir.lowering.tir_to_c.regions import region_in_c

        if not is_in_memory(function):
            raise NotImplementedError(f"{type(self).__name__} does not say how regions become C")
        try:
            return region_in_c(function, name, ARRAYS, self._text_of)
        except NoC as error:
            told = f"expected what has a form in C, found {error} in a region of {self.name}"
            raise ByocirError("B350", told, where=function.sym_name.data) from None

    def data(self, function: FuncOp) -> bytes:
        """Gives what the state of a region is made from, such as its weights; they are there until
        it is closed, at a multiple of 16 bytes. By default none."""
        return b""

    def instruction(self, op: IntrinsicOp) -> str | None:
        """Gives C for a call of an instruction of a schedule or of a described machine: statements
        in which `x0`, `x1`, … point at the first elements that the last block in its body reads of
        its inputs, and `y0` at the first that it writes. Arrays are row-major, also those in
        memories of a device. None, the default, for the loops of the blocks."""
        return None

    def _text_of(self, op: IntrinsicOp) -> str | None:
        text: Any = self.instruction(op)
        fits = text is None or isinstance(text, str)
        expect_given(self, "instruction", fits, "C as text", text)
        return text

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        """Raises ByocirError B218 for a library whose files are called as those that it writes,
        B350 for regions whose results have no fixed size."""
        clash = sorted({SOURCE, OUTPUTS} & {*self.library})
        if clash:
            raise ByocirError(
                "B218", f"expected a library without a file {clash[0]}, found it in {self.name}"
            )
        parts = ["#include <stddef.h>\n#include <stdint.h>\n"]
        parts += [f"#include <{header}>" for header in self.headers]
        parts.append(f"{self.preamble}\n")
        data: dict[str, bytes] = {}
        for symbol in symbols:
            function = SymbolTable.lookup_symbol(module, symbol)
            assert isinstance(function, FuncOp)
            made: Any = self.define(function, c_name(symbol))
            expect_given(self, "define", isinstance(made, str), "C as text", made)
            parts.append(made.rstrip() + "\n")
            if self.stateful:
                given: Any = self.data(function)
                expect_given(self, "data", isinstance(given, bytes), "bytes", given)
                data[_data_of(symbol)] = given
        outputs = {symbol: _outputs(module, symbol) for symbol in symbols}
        for file in self.library.values():
            expect_given(self, "library", isinstance(cast("Any", file), str), "C as text", file)
        library = {name: text.encode() for name, text in self.library.items()}
        source, described = "\n".join(parts), json.dumps(outputs, sort_keys=True, indent=1)
        return {**library, **data, SOURCE: source.encode(), OUTPUTS: described.encode()}

    def load(self, blobs: Mapping[str, bytes]) -> Runner:
        """Raises ByocirError B401 to B404 where the code cannot be built, B407 without a library
        that it links, and later B405 on a processor that lacks what it needs."""
        outputs = json.loads(blobs[OUTPUTS])
        return _Loaded(self.device(blobs), outputs, c_name(self.name), self.processors).run

    def device(self, blobs: Mapping[str, bytes]) -> CFunctions:
        symbols: list[str] = [*json.loads(blobs[OUTPUTS])]
        data = {symbol: blobs[_data_of(symbol)] for symbol in symbols if self.stateful}
        others = {SOURCE, OUTPUTS, *map(_data_of, data)}
        files = {name: blob for name, blob in blobs.items() if name not in others}
        functions = {symbol: c_name(symbol) for symbol in symbols}
        linked = Libraries(self.name, self.headers, self.libraries, self.search)
        wanted = linked if self.headers or self.libraries else None
        return CFunctions(functions, blobs[SOURCE], files, data, wanted)


class _Loaded:
    """Runs C functions that were built here. Opens the states that they have when they are first
    run, and closes them when this ends."""

    def __init__(
        self,
        made: CFunctions,
        outputs: Mapping[str, Sequence[Any]],
        name: str,
        processors: Mapping[int, str],
    ) -> None:
        linked = made.libraries.flags() if made.libraries is not None else ()
        files = {**made.files, SOURCE: made.source}
        self._made, self._outputs, self._processors = made, outputs, processors
        self._library = built_and_loaded(name, files, (*FLAGS, *linked))
        self._states: dict[str, ctypes.c_void_p] = {}
        finalize(self, _close, self._library, made.functions, self._states, made.data)

    def run(self, symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        outputs = [np.empty(shape, np.dtype(dtype)) for shape, dtype in self._outputs[symbol]]
        given = [np.ascontiguousarray(array) for array in inputs]
        function = getattr(self._library, self._made.functions[symbol])
        code = function(*self._state_of(symbol), _pointers(given), _pointers(outputs))
        self._check(code, symbol, f"the code of {symbol}")
        return outputs

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
        """The state that a function gets, if it has one."""
        data = self._made.data.get(symbol)
        if data is None:
            return ()
        if symbol not in self._states:
            state = self._states[symbol] = ctypes.c_void_p()
            name = f"{self._made.functions[symbol]}_open"
            code = getattr(self._library, name)(ctypes.byref(state), ctypes.c_char_p(data))
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
    """Closes the states of functions by symbol; what else is given lives until then."""
    for symbol, state in states.items():
        if state:
            getattr(library, f"{functions[symbol]}_close")(state)


def _data_of(symbol: str) -> str:
    """The name of the blob that a region's state is made from."""
    return f"{symbol}.data"


def _outputs(module: ModuleOp, symbol: str) -> list[tuple[list[int], str]]:
    """Shapes and dtypes of what a call of a function gives."""
    call = next(
        op
        for op in module.walk()
        if isinstance(op, CallOp) and op.callee.root_reference.data == symbol
    )
    found: list[tuple[list[int], str]] = []
    for result in call.outputs:
        shape = static_shape(result.type)
        if shape is None:
            raise ByocirError(
                "B350",
                f"expected results of fixed sizes, found {result.type}",
                where=symbol,
                help="a test of the pattern, shape() or a rule, keeps such ops away",
            )
        found.append(([*shape], dtype_of(element_type_of(result.type)).name))
    return found


def _pointers(arrays: Sequence[np.ndarray]) -> Any:
    """The addresses of arrays, in C."""
    return (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
