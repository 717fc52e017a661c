"""Runs ops by rules: a table from op class to the function that evaluates it.

Values are numpy arrays for tensors and memrefs and integers for `index`. A tensor is never changed
after it was made; a memref is changed in place, through whatever value names it. A rule takes the
interpreter, the op and the values of its operands and returns the values of its results:

```python
@evaluates(FillOp)
def fill(interpreter, op, arguments):
    return [np.full(shape_of(op.results[0].type), …)]
```

Rules of a dialect are in a module that is imported when the first op of the dialect is met; another
package adds rules with `evaluates` before it evaluates anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from byocir.dialects.graph.base import is_defined
from byocir.dialects.locations import place
from byocir.dialects.tir import EmptyOp
from byocir.dialects.traits import is_terminator
from byocir.errors import ByocirError, did_you_mean
from byocir.evaluate.memory_needs import Held, ask_for_held, ask_for_results, last_uses, made_by
from byocir.evaluate.own_rules import guarded
from byocir.evaluate.scalar import unknown
from byocir.vendor.blame import is_ours

if TYPE_CHECKING:
    from onnx import ModelProto

Value = Any
"""The value behind an SSA value: a numpy array, an integer, or an object of a dialect's own
rules."""

Values = Sequence[Value]

Rule = Callable[["Interpreter", Any, Values], Values]

External = Callable[[Sequence[np.ndarray]], list[np.ndarray]]

Observer = Callable[[Operation, Values], None]
"""Told each op and its results as it runs."""


class ModelRunner(Protocol):
    """Runs an ONNX model that was prepared."""

    inputs: list[str]

    def run(self, feeds: Mapping[str, Value]) -> list[Value]:
        """Computes the outputs in order for the inputs by name; raises NotComputed."""
        ...


Engine = Callable[["ModelProto"], ModelRunner]
"""Runs ONNX models: what foreign ops are evaluated by. Raises NotComputed for one it cannot run."""

RULES: dict[type[Operation], Rule] = {}
"""Maps op classes to the rules that evaluate them."""

DIALECT_RULES: dict[str, str] = {
    "affine": "byocir.evaluate.loops",
    "arith": "byocir.evaluate.structure",
    "builtin": "byocir.evaluate.structure",
    "byoc": "byocir.evaluate.structure",
    "func": "byocir.evaluate.structure",
    "graph": "byocir.evaluate.structure",
    "math": "byocir.evaluate.structure",
    "memref": "byocir.evaluate.loops",
    "scf": "byocir.evaluate.loops",
    "tir": "byocir.evaluate.tir",
    "vta": "byocir.evaluate.vta",
}
"""The module that registers the rules of a dialect's ops, by dialect name."""

_RuleT = TypeVar("_RuleT", bound=Callable[..., Values])


def evaluates(*kinds: type[Operation]) -> Callable[[_RuleT], _RuleT]:
    """Registers the decorated function as the rule of these op classes. Raises, when one from
    outside runs, ByocirError B316 where it fails and B313 for results of other types.
    """

    def register(rule: _RuleT) -> _RuleT:
        for kind in kinds:
            RULES[kind] = rule if is_ours(rule) else guarded(rule)
        return rule

    return register


def rule_of(op: Operation) -> Rule:
    """Gives the rule of an op; raises ByocirError B301 when there is none."""
    kind = type(op)
    if kind not in RULES and (module := DIALECT_RULES.get(op.name.split(".")[0])) is not None:
        import_module(module)
    if kind not in RULES and is_defined(kind):
        RULES[kind] = import_module("byocir.evaluate.structure").evaluate_graph
    if kind not in RULES:
        raise unknown(op)
    return RULES[kind]


class _Room(NamedTuple):
    """Counts the memory that one op needs and frees: the bytes of its results, as far as their
    types tell, and the values that no op needs once it is done.
    """

    made: int
    dead: Sequence[SSAValue]


_Step = tuple[Rule, Operation, tuple[SSAValue, ...], tuple[SSAValue, ...], _Room | None]


class Interpreter:
    """Evaluates the functions of one module, which must not change meanwhile."""

    def __init__(
        self,
        module: ModuleOp,
        externals: Mapping[str, External] | None = None,
        observe: Observer | None = None,
        engine: Engine | None = None,
        whole: Engine | None = None,
    ) -> None:
        self.module = module
        self._observe = observe
        self.engine = engine
        """Runs foreign ops, and graph ops without a rule of our own; by default onnx's reference
        does."""
        self.whole = whole
        """Runs functions of foreign ops that are marked so as one model; else these run one by one,
        as where it does not take them."""
        self.externals = dict(externals or {})
        """Region functions that run elsewhere, by symbol: arrays in, arrays out."""
        self.plans: dict[Operation, Any] = {}
        """Keeps what rules remember of an op between runs."""
        self._functions = {op.sym_name.data: op for op in module.walk() if isinstance(op, FuncOp)}
        self._programs = {name: op for op in module.ops if (name := _symbol(op)) is not None}
        self._steps: dict[Block, list[_Step]] = {}
        self._values: dict[SSAValue, Value] = {}
        self.held = Held()
        """The memory that the values known so far take."""

    def again(self) -> Interpreter:
        """Gives an interpreter of the same module for another thread: it shares what is remembered
        of ops between runs, and has no values yet.
        """
        other = copy(self)
        other._values, other.held = {}, Held()
        return other

    def function(self, name: str) -> FuncOp:
        """Gives the function of this name; raises ByocirError B302 when there is none with a
        body."""
        found = self._functions.get(name)
        if found is None:
            raise ByocirError(
                "B302",
                f"expected a function @{name}, found none",
                help=did_you_mean(name, list(self._functions)),
            )
        if found.is_declaration:
            raise ByocirError("B302", f"expected a body of function @{name}, found a declaration")
        return found

    def declaration(self, name: str) -> FuncOp | None:
        """Gives the function of this name if the module only declares it."""
        found = self._functions.get(name)
        return found if found is not None and found.is_declaration else None

    def program(self, name: str) -> Operation | None:
        """Gives the op of this name that is code and no function: what a target generated for a
        region.
        """
        return self._programs.get(name)

    def value(self, value: SSAValue) -> Value:
        """Looks up the array or number of a value computed before."""
        return self._values[value]

    def assume(self, values: Mapping[SSAValue, Value]) -> None:
        """Sets values that were computed elsewhere."""
        self._values.update(values)
        for key, value in values.items():
            self.held.keep(key, value)

    def call(self, function: FuncOp, arguments: Values) -> list[Value]:
        """Computes the results of a function."""
        return self.run_isolated(function.body.block, arguments)

    def run_isolated(self, block: Block, arguments: Values) -> list[Value]:
        """Runs a block that uses no values from outside; gives its terminator's operands."""
        outside, self._values = self._values, {}
        try:
            return self.run(block, arguments)
        finally:
            for key in self._values:
                self.held.free(key)
            self._values = outside

    def run(self, block: Block, arguments: Values) -> list[Value]:
        """Runs a block among the values known so far; gives its terminator's operands."""
        values = self._values
        for argument, value in zip(block.args, arguments, strict=True):
            values[argument] = value
            if _is_array(argument):
                self.held.keep(argument, value)
        steps = self._steps.get(block)
        if steps is None:
            steps = self._steps[block] = _planned(block)
        for rule, op, operands, results, room in steps:
            try:
                if room is not None and room.made:
                    ask_for_held(op, room.made + self.held.total)
                made = rule(self, op, [values[operand] for operand in operands])
            except ByocirError as error:
                error.at(place(op.location))
                raise
            values.update(zip(results, made, strict=True))
            if self._observe is not None:
                self._observe(op, made)
            if room is not None:
                self._settle(op, made, room.dead)
        last = block.last_op
        if last is None or not is_terminator(last):
            return []
        return [values[v] for v in last.operands]

    def _settle(self, op: Operation, made: Values, dead: Sequence[SSAValue]) -> None:
        """Counts the bytes of an op's results, which types do not always tell, and drops the values
        that no later op reads.
        """
        for result, value in zip(op.results, made, strict=True):
            self.held.keep(result, value)
        ask_for_held(op, self.held.total)
        for value in dead:
            self.held.free(value)
            self._values.pop(value, None)


def _symbol(op: Operation) -> str | None:
    """Gives the name of an op that stands for code and is no function."""
    name = op.get_attr_or_prop("sym_name")
    return name.data if isinstance(name, StringAttr) and not isinstance(op, FuncOp) else None


def _planned(block: Block) -> list[_Step]:
    """Makes the steps that run a block. Raises ByocirError B140 for an op that needs more memory
    than any limit allows.
    """
    last = last_uses(block)
    return [_step(op, last.get(op, ())) for op in block.ops if not is_terminator(op)]


def _step(op: Operation, last: Sequence[SSAValue]) -> _Step:
    ask_for_results(op)
    arrays = [result for result in op.results if _is_array(result)]
    dead = [value for value in last if _is_array(value)]
    counts = (arrays and not isinstance(op, EmptyOp)) or dead
    room = _Room(made_by(op), dead) if counts else None
    return rule_of(op), op, tuple(op.operands), tuple(op.results), room


def _is_array(value: SSAValue) -> bool:
    """Tells if a value stands for an array, as far as its type tells; others are numbers."""
    return not isinstance(value.type, IndexType | IntegerType | AnyFloat)


def as_array(value: Value) -> np.ndarray:
    """Reads the value of a tensor or memref as an array."""
    return cast(np.ndarray, value)
