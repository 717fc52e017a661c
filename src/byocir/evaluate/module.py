"""Evaluates whole modules, at every level: this is what a compiled model must compute.

Any mixture of levels is evaluated: graph ops, blocks on tensors or memrefs, composites, regions and
calls of region functions (see `byocir.evaluate.interpreter` for how a dialect joins in).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnrankedTensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from byocir.dialects.array import ArrayAttr as ArrayValue
from byocir.dialects.byoc import DEFAULT, DIMS, INITIALISED, NAME
from byocir.dialects.graph.values import OptionalType, SequenceType
from byocir.dialects.types import (
    Shape,
    dtype_of,
    element_type_of,
    holds_numbers,
    is_float,
    is_memref,
    shape_of,
    static_shape,
)
from byocir.errors import ByocirError, did_you_mean
from byocir.evaluate.interpreter import Interpreter, Value, Values
from byocir.evaluate.mismatch import mismatch
from byocir.evaluate.ports import names_of, port_names
from byocir.evaluate.structure import call_on_tensors
from byocir.memory import expect_memory, refused

MAIN = "main"
"""The entry function of a module."""


def evaluate(
    module: ModuleOp,
    feeds: Mapping[str, Value],
    function: str = MAIN,
    interpreter: Interpreter | None = None,
) -> dict[str, Value]:
    """Computes the outputs of a model by name, for inputs by name.

    Names are the `byoc.name` of the entry function's arguments and results, else `arg0`, `res0`, …
    A function on memrefs takes its inputs and then its outputs as arguments. Raises ByocirError
    B310 for feeds that do not fit, B301 for an op that has no evaluation rule, B312 for one that
    does not take its values, for lack of memory, say. An interpreter of this module that is
    given is used, so that what it has planned is not planned again.
    """
    interpreter = interpreter or Interpreter(module)
    entry = interpreter.function(function)
    arrays, outputs = bind(entry, feeds)
    return dict(zip(outputs, _run(interpreter, entry, arrays), strict=True))


def call_main(interpreter: Interpreter, arrays: Values) -> dict[str, Value]:
    """Computes the results of @main by name for its arguments in order; memrefs are changed in
    place.
    """
    entry = interpreter.function(MAIN)
    outputs = port_names(entry.res_attrs, len(entry.function_type.outputs), "res")
    return dict(zip(outputs, _run(interpreter, entry, arrays), strict=True))


def bind(entry: FuncOp, feeds: Mapping[str, Value]) -> tuple[list[Value], list[str]]:
    """Checks inputs by name and gives a function's arguments in order, arrays in row-major order,
    with the names of its outputs. Raises ByocirError B310 for feeds that do not fit.
    """
    if not isinstance(cast(object, feeds), Mapping):
        raise ByocirError("B310", f"expected feeds by name, found {type(feeds).__name__}")
    types = list(entry.function_type.inputs)
    arguments = port_names(entry.arg_attrs, len(types), "arg")
    inputs = arguments
    outputs = port_names(entry.res_attrs, len(entry.function_type.outputs), "res")
    if not outputs:
        inputs = [name for name in arguments if name in feeds]
        outputs = arguments[len(inputs) :]
    unknown = [name for name in feeds if name not in inputs]
    if unknown:
        raise ByocirError(
            "B310",
            f"expected feeds for {_listed(inputs)}, found {unknown[0]!r}",
            help=_about(entry, str(unknown[0])) or did_you_mean(str(unknown[0]), inputs),
        )
    arrays: list[Value] = []
    feeds = {**_defaults(entry, arguments), **feeds}
    for name, type_ in zip(inputs, types, strict=False):
        if name not in feeds:
            raise ByocirError("B310", f"expected a feed for input '{name}', found none")
        arrays.append(_checked(feeds[name], type_, f"input '{name}'"))
    return arrays, outputs


def _defaults(entry: FuncOp, arguments: Sequence[str]) -> dict[str, Value]:
    """Gives the values that inputs have where nothing is fed."""
    ports = zip(arguments, entry.arg_attrs or (), strict=False)
    own = ((name, port.data.get(DEFAULT)) for name, port in ports)
    return {name: value.data.values() for name, value in own if isinstance(value, ArrayValue)}


def _about(entry: FuncOp, name: str) -> str:
    """Words the help line about an input whose value is part of the model; empty for others."""
    initialised = entry.attributes.get(INITIALISED)
    if not isinstance(initialised, ArrayAttr):
        return ""
    if StringAttr(name) not in cast("ArrayAttr[StringAttr]", initialised).data:
        return ""
    return (
        f"the model has a value of its own for '{name}', which is compiled in: give its shape, "
        f"--shape {name}=D,D,… or {name}=scalar, when it is compiled, to feed it"
    )


def _listed(inputs: Sequence[str]) -> str:
    return f"the inputs {', '.join(inputs)}" if inputs else "no inputs"


def random_feeds(module: ModuleOp, seed: int = 0) -> dict[str, np.ndarray]:
    """Draws inputs by name for the entry function, the same for the same seed: standard normal
    floats, booleans, small integers (wide ones not negative: they are often indices). Raises
    ByocirError B106 for an input whose sizes are open, or that holds no numbers, B340 as
    `ports_of`."""
    names, _ = names_of(Interpreter(module).function(MAIN))
    return _random(module, seed, names)


def random_arguments(module: ModuleOp, seed: int = 0) -> dict[str, np.ndarray]:
    """Draws inputs as `random_feeds` does and, for a function in memory, what its outputs hold
    before."""
    return _random(module, seed)


def _random(
    module: ModuleOp, seed: int, names: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    entry = Interpreter(module).function(MAIN)
    types = list(entry.function_type.inputs)
    rng = np.random.default_rng(seed)
    feeds: dict[str, np.ndarray] = {}
    for name, type_ in zip(port_names(entry.arg_attrs, len(types), "arg"), types, strict=True):
        if names is not None and name not in names:
            continue
        shape = _drawn(entry, name, type_)
        expect_memory(8 * math.prod(shape), "numbers to be drawn", f"input '{name}' of {type_}")
        feeds[name] = _numbers(rng, shape, type_)
    return feeds


def _numbers(rng: np.random.Generator, shape: Shape, type_: Attribute) -> np.ndarray:
    dtype = dtype_of(element_type_of(type_))
    if is_float(element_type_of(type_)):
        return rng.standard_normal(shape).astype(dtype)
    low, high = -100 if dtype == np.int8 else 0, 2 if dtype.kind == "b" else 100
    return rng.integers(low, high, shape).astype(dtype)


def _drawn(entry: FuncOp, name: str, type_: Attribute) -> Shape:
    """Gives the shape of an input for which numbers can be drawn. Raises ByocirError B106 for
    others.
    """
    shape = shape_of(type_) if is_memref(type_) else static_shape(type_)
    is_array = isinstance(type_, TensorType | UnrankedTensorType | MemRefType)
    if is_array and shape is None:
        raise ByocirError(
            "B106",
            f"expected inputs of static shape to make numbers for, found {_open(entry, name)}",
            help=f"pin its sizes, {_pin(entry, name)}; or give the inputs themselves",
        )
    if shape is None or not holds_numbers(element_type_of(type_)):
        raise ByocirError(
            "B106",
            f"expected inputs of numbers to make some, found '{name}' of {type_}",
            help="give the inputs themselves",
        )
    return shape


def _open(function: FuncOp, name: str) -> str:
    """Words the sizes of an input that are open, with their names in the model."""
    dims = _dims(function, name)
    return f"'{name}' [{', '.join(dims)}]" if dims else f"'{name}' of any shape"


def _pin(function: FuncOp, name: str) -> str:
    """Words the help line that pins the sizes of an input, with 1 for those that are open."""
    sizes = [size if size.isdigit() else "1" for size in _dims(function, name)] or ["1"]
    return f'e.g. --shape {name}={",".join(sizes)} or shapes={{"{name}": ({", ".join(sizes)},)}}'


def _dims(function: FuncOp, name: str) -> list[str]:
    """Gives the sizes of an input as the model gives or names them; empty where it does not."""
    for entries in function.arg_attrs or ():
        dims = entries.data.get(DIMS)
        if entries.data.get(NAME) == StringAttr(name) and isinstance(dims, ArrayAttr):
            return [size.data for size in cast("ArrayAttr[StringAttr]", dims)]
    return []


def evaluate_function(module: ModuleOp, name: str, arrays: Values) -> list[Value]:
    """Computes the results of one function for these inputs. In a function on memrefs the arguments
    that follow the inputs are the outputs. Raises ByocirError as `evaluate` does.
    """
    interpreter = Interpreter(module)
    function = interpreter.function(name)
    types = list(function.function_type.inputs)
    if len(arrays) > len(types) or (function.function_type.outputs and len(arrays) < len(types)):
        raise ByocirError(
            "B310", f"expected {len(types)} inputs of function @{name}, found {len(arrays)}"
        )
    checked = [
        _checked(array, type_, f"input {i} of function @{name}")
        for i, (array, type_) in enumerate(zip(arrays, types, strict=False))
    ]
    return _run(interpreter, function, checked)


def _run(interpreter: Interpreter, function: FuncOp, arrays: Values) -> list[Value]:
    with refused("a program"), np.errstate(all="ignore"):
        return owned(call_on_tensors(interpreter, function, arrays), arrays)


def owned(results: Values, arguments: Values) -> list[Value]:
    """Copies results where needed, so that whoever asked for them may write to them: none is a
    view, an argument or a constant, and no two share memory.
    """
    taken = {id(each) for each in _arrays(arguments)}

    def own(value: Value) -> Value:
        if isinstance(value, list):
            return [own(each) for each in cast("list[Value]", value)]
        if not isinstance(value, np.ndarray):
            return value
        array = cast("np.ndarray[Any, Any]", value)
        if id(array) in taken or not array.flags.owndata or not array.flags.writeable:
            array = array.copy()
        taken.add(id(array))
        return array

    return [own(value) for value in results]


def _arrays(values: Values) -> Iterator[np.ndarray]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _arrays(cast("Values", value))
        elif isinstance(value, np.ndarray):
            yield value


def _checked(given: Value, type_: Attribute, what: str) -> Value:
    """Checks that a value has this type, and gives it with arrays in row-major order."""
    value = given
    if isinstance(type_, OptionalType):
        return None if value is None else _checked(value, type_.element, what)
    if isinstance(type_, SequenceType):
        return _checked_elements(given, type_, what)
    is_array = isinstance(type_, TensorType | UnrankedTensorType | MemRefType)
    if is_array:
        try:
            value = np.asarray(given, order="C")
        except ValueError as error:  # lists of different lengths
            raise ByocirError("B310", f"expected an array for {what}, found: {error}") from error
        value = value.astype(object) if value.dtype.kind in "US" else value
    expect_type(cast(Value, value), type_, what)
    return value


def expect_type(value: Value, type_: Attribute, what: str) -> None:
    """Raises ByocirError B310 for a value that is not of this type."""
    found = mismatch(value, type_)
    if found:
        raise ByocirError("B310", f"expected {type_} for {what}, found {found}")


def _checked_elements(given: Value, type_: SequenceType, what: str) -> list[Value]:
    if not isinstance(given, (list, tuple)):
        found = type(given).__name__
        raise ByocirError("B310", f"expected a list of {type_.element} for {what}, found {found}")
    values = cast("Values", given)
    return [_checked(each, type_.element, f"{what}, at {i}") for i, each in enumerate(values)]
