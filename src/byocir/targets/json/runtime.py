"""Runs programs in JSON through a table of kernels.

A kernel is a function of a step and its input arrays that gives the output arrays:

```python
def relu(step, inputs):
    return np.maximum(inputs[0], 0)

run = json_runner(blobs, {**KERNELS, "graph.relu": relu})
outputs = run("npu_0", [x])
```

A composite with a kernel under its own name runs in one go; without one it runs op by op.

| code | what is wrong |
| --- | --- |
| B362 | an op has no kernel |
| B363 | a kernel fails, or gives other than its step promises |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from byocir.errors import FAILURES, ByocirError, did_you_mean
from byocir.evaluate.region_results import text_of
from byocir.targets.json.program import Function, Program, Step

Kernel = Callable[[Step, Sequence[np.ndarray]], np.ndarray | Sequence[np.ndarray]]
"""Computes a step's outputs, or its only one, from its inputs, which it must not change."""

Kernels = Mapping[str, Kernel]
"""Kernels by the name of an op or of a composite."""

Runner = Callable[[str, Sequence[np.ndarray]], list[np.ndarray]]


def json_runner(blobs: Mapping[str, bytes], kernels: Kernels) -> Runner:
    """Makes the runner of the functions in a target's blobs, called with a symbol and inputs.
    Raises ByocirError B361 for blobs that byocir did not write, B362 where a kernel is missing;
    running raises B302, B310 and B363.
    """
    program = Program.read(blobs)
    for function in program.functions.values():
        _check_kernels(function.steps, kernels)

    def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        if symbol not in program.functions:
            raise ByocirError(
                "B302",
                f"expected a function @{symbol} in the program, found none",
                help=did_you_mean(symbol, list(program.functions)),
            )
        return _run(program.functions[symbol], inputs, kernels)

    return run


def _check_kernels(steps: Iterable[Step], kernels: Kernels) -> None:
    for step in _leaves(steps, kernels):
        if step.name not in kernels:
            raise ByocirError(
                "B362",
                f"expected a kernel for {step.name}, found none",
                where=", ".join(step.nodes),
                help=did_you_mean(step.name, list(kernels)),
            )


def _leaves(steps: Iterable[Step], kernels: Kernels) -> Iterator[Step]:
    """Yields the steps that one kernel runs: composites without a kernel are replaced by their
    ops.
    """
    for step in steps:
        if step.steps and step.name not in kernels:
            yield from _leaves(step.steps, kernels)
        else:
            yield step


def _run(function: Function, inputs: Sequence[np.ndarray], kernels: Kernels) -> list[np.ndarray]:
    if len(inputs) != len(function.inputs):
        raise ByocirError(
            "B310",
            f"expected {len(function.inputs)} inputs of @{function.symbol}, found {len(inputs)}",
        )
    values = [value.array for value in function.values]
    for number, array in zip(function.inputs, inputs, strict=True):
        values[number] = array
    for step in _leaves(function.steps, kernels):
        arrays = [_there(values[number]) for number in step.inputs]
        for number, made in zip(step.outputs, _results(step, arrays, kernels), strict=True):
            values[number] = made
    return [_there(values[number]) for number in function.outputs]


def _there(array: np.ndarray | None) -> np.ndarray:
    assert array is not None, "the program was checked when it was read"
    return array


def _results(step: Step, arrays: Sequence[np.ndarray], kernels: Kernels) -> list[np.ndarray]:
    """Runs a step's kernel, and checks its results."""
    try:
        with np.errstate(all="ignore"):
            made: Any = kernels[step.name](step, arrays)
    except ByocirError:
        raise
    except FAILURES as error:
        raise _refused(step, f"failed with {type(error).__name__}: {error}") from error
    given = cast("list[Any]", [*made] if isinstance(made, (list, tuple)) else [made])
    results = [np.asarray(array) for array in given]
    wanted = [(value.shape, value.dtype) for value in step.output_types]
    if [(array.shape, array.dtype) for array in results] != wanted:
        found = ", ".join(text_of(array.shape, array.dtype) for array in results)
        expected = ", ".join(text_of(shape, dtype) for shape, dtype in wanted)
        raise _refused(step, f"gave {found or 'nothing'}, expected {expected}")
    return results


def _refused(step: Step, what: str) -> ByocirError:
    return ByocirError(
        "B363", f"the kernel of {step.name} {what}", where=", ".join(step.nodes) or step.name
    )
