"""Defines the base class of targets whose code is C: calls of a vendor's library, or kernels
written out.

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

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.traits import SymbolTable

from byocir.dialects.byoc import calls_in
from byocir.dialects.tir import IntrinsicOp
from byocir.dialects.types import dtype_of, element_type_of, shape_of, static_shape
from byocir.errors import ByocirError
from byocir.isolation import go_on
from byocir.targets.base import Target
from byocir.targets.c_loader import FLAGS, OUTPUTS, SOURCE, CLoader, data_of
from byocir.targets.device import ARRAYS, c_name
from byocir.vendor.blame import place_in_class
from byocir.vendor.hooks import expect_given

__all__ = ["ARRAYS", "FLAGS", "SOURCE", "CTarget"]


@dataclass(frozen=True)
class CTarget(CLoader, Target):
    """Defines what targets share whose code is C99."""

    library: ClassVar[Mapping[str, str]] = {}
    """C files by name that the code uses, the same for every model. Names that they define for each
    other are static, or begin with the target's name."""

    preamble: ClassVar[str] = ""
    """Begins the code of every model: `#include "dsp.h"`."""

    def define(self, function: FuncOp, name: str) -> str:
        """Writes C99 that defines `int name(ARRAYS)` for a region: it fills the outputs from the
        inputs and returns 0, or another number where it fails. `function` holds composites of graph
        ops, or blocks, by `codegen_level`. What else it defines is static and has `name` in its
        own.

        The default writes the C of a function in memory, as schedules leave it: byocir writes its
        loops, copies, blocks and buffers, and asks `instruction` for the rest. Raises ByocirError
        B350 for an op that has no form in C.
        """
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
        """Gives the bytes from which the state of a region is made, such as its weights; they stay
        in memory until it is closed, at an address that is a multiple of 16 bytes. By default there
        are none.
        """
        return b""

    def instruction(self, op: IntrinsicOp) -> str | None:
        """Writes C for a call of an instruction of a schedule or of a described machine: statements
        in which `x0`, `x1`, … point at the first elements that the last block in its body reads of
        its inputs, and `y0` at the first that it writes. Arrays are row-major, also those in
        memories of a device. None, the default, stands for the loops of the blocks.
        """
        return None

    def _text_of(self, op: IntrinsicOp) -> str | None:
        text: Any = self.instruction(op)
        fits = text is None or isinstance(text, str)
        expect_given(self, "instruction", fits, "C as text", text)
        return text

    def _check_declared(self) -> None:
        """Raises ByocirError B228 where the class declares files, names or text of a wrong type."""
        expect_given(self, "preamble", _is_text(self.preamble), "C as text", self.preamble)
        library: Any = self.library
        expect_given(self, "library", isinstance(library, Mapping), "C files by name", library)
        for file in library.values():
            expect_given(self, "library", _is_text(file), "C as text", file)
        for hook in ("headers", "libraries", "search"):
            found: Any = getattr(self, hook)
            fits = isinstance(found, (list, tuple)) and all(map(_is_text, cast("Any", found)))
            expect_given(self, hook, fits, "a tuple of texts", cast("object", found))
        self._check_search()

    def _check_search(self) -> None:
        """Raises ByocirError B228 for a place of a kind that is not known."""
        from byocir.toolchain.libraries import PKG_CONFIG, WHEELS, unknown_kinds

        for place in unknown_kinds(self.search):
            raise ByocirError(
                "B228",
                f"expected search of target '{self.name}' to give places of libraries, found "
                f"'{place}'",
                where=place_in_class(type(self), "search"),
                help=f"write '{PKG_CONFIG}NAME', '{WHEELS}NAME NAME' or a folder",
            )

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        """Writes all functions as one C file with the library's files. Raises ByocirError B218 for
        a library that has a file of the same name, B350 for regions whose results have no fixed
        size.
        """
        self._check_declared()
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
            go_on(symbol)
            function = SymbolTable.lookup_symbol(module, symbol)
            assert isinstance(function, FuncOp)
            made: Any = self.define(function, c_name(symbol))
            expect_given(self, "define", isinstance(made, str), "C as text", made)
            parts.append(made.rstrip() + "\n")
            if self.stateful:
                given: Any = self.data(function)
                expect_given(self, "data", isinstance(given, bytes), "bytes", given)
                data[data_of(symbol)] = given
        outputs = {symbol: _outputs(module, symbol) for symbol in symbols}
        library = {name: text.encode() for name, text in self.library.items()}
        source, described = "\n".join(parts), json.dumps(outputs, sort_keys=True, indent=1)
        return {**library, **data, SOURCE: source.encode(), OUTPUTS: described.encode()}


def _is_text(found: object) -> bool:
    return isinstance(found, str)


def _outputs(module: ModuleOp, symbol: str) -> list[tuple[list[int], str]]:
    """Lists the shapes and dtypes of the results of a call of a function, or of what one in memory
    writes.
    """
    from byocir.evaluate.ports import ports_of

    call = calls_in(module)[symbol][0]
    found: list[tuple[list[int], str]] = []
    if not call.outputs:
        function = SymbolTable.lookup_symbol(module, symbol)
        assert isinstance(function, FuncOp)
        written = ports_of(function)[1]
        return [([*shape_of(t)], dtype_of(element_type_of(t)).name) for t in written]
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
