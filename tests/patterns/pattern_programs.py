"""Small programs as text, and their ops by the name of what they give."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from byocir.dialects.text import parse_module
from byocir.dialects.verify import verify_module
from byocir.patterns import Attempt, Composite, Pattern

F = "tensor<4xf32>"


def module_of(body: str, *, inputs: str = f"%x: {F}, %y: {F}", result: str = F) -> ModuleOp:
    """The module of one function; the body's last line returns."""
    module = parse_module(f"func.func @main({inputs}) -> ({result}) {{\n{body}\n}}")
    verify_module(module)
    return module


def elementwise(*lines: str) -> str:
    """Lines such as `a = relu x` or `b = add x a`, all on the same type; returns the last."""
    text: list[str] = []
    for line in lines:
        name, _, rest = line.partition(" = ")
        kind, *operands = rest.split()
        types = f"({', '.join([F] * len(operands))}) -> {F}"
        values = ", ".join(f"%{operand}" for operand in operands)
        text.append(f'%{name} = graph.{kind} {values} : {types} loc("{name}")')
    returned = lines[-1].partition(" = ")[0]
    return "\n".join([*text, f"func.return %{returned} : {F}"])


def by_name(module: ModuleOp) -> dict[str, Operation]:
    """Ops by the name hint of their first result."""
    return {op.results[0].name_hint or "": op for op in module.walk() if op.results}


def attempt(pattern: Pattern, body: str, root: str) -> Attempt:
    """What a composite of this pattern makes of the op that gives `%root`."""
    composite = Composite("toy.pattern", (pattern,))
    return composite.attempt(by_name(module_of(body))[root])
