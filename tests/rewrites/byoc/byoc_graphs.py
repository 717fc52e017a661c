"""Programs for the tests of the hand-off: a builder, toy targets, and what a module computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from byocir.dialects.byoc import TARGET, CallOp, CompositeOp, RegionOp, TrailOp
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module, print_module
from byocir.evaluate.module import evaluate as evaluate_module
from byocir.patterns import Composite, constant, op, optional, wildcard
from byocir.patterns.policy import RegionPolicy
from byocir.patterns.target_classes import register
from byocir.patterns.targets import attr_of
from byocir.rewrites.byoc.set_targets import set_targets
from byocir.rewrites.pipeline import run_passes
from byocir.targets.base import Target

F = "tensor<4xf32>"
HAND_OFF = "match-composites,assign-targets,merge-regions,outline-regions"


def program(
    lines: Sequence[str],
    results: Sequence[str],
    *,
    inputs: Sequence[str] = "xyz",
    name: str = "main",
) -> str:
    """A function of lines such as `a = add x y` or `c = constant 2.0`, all on one type."""
    text: list[str] = []
    for line in lines:
        result, _, rest = line.partition(" = ")
        kind, *operands = rest.split()
        if kind == "constant":
            values = ", ".join(operands * 4)
            text.append(f"%{result} = graph.constant #graph.array<[{values}] : {F}>")
            continue
        types, values = ", ".join([F] * len(operands)), ", ".join(f"%{o}" for o in operands)
        axis = " {axis = 0 : i64}" if kind == "softmax" else ""
        text.append(f'%{result} = graph.{kind} {values}{axis} : ({types}) -> {F} loc("{result}")')
    arguments = ", ".join(f"%{name}: {F}" for name in inputs)
    returned, types = ", ".join(f"%{r}" for r in results), ", ".join([F] * len(results))
    body = "\n".join([*text, f"func.return {returned} : {types}"])
    return f"func.func public @{name}({arguments}) -> ({types}) {{\n{body}\n}}\n"


def toy(name: str, *composites: Composite, policy: RegionPolicy | None = None) -> type[Target]:
    """A target of this name that takes these composites, known by its name from now on."""

    @dataclass(frozen=True)
    class Toy(Target):
        patterns: ClassVar[tuple[Composite, ...]] = composites

        @property
        def region_policy(self) -> RegionPolicy:
            return policy or RegionPolicy()

    Toy.name = name
    register(name, Toy)
    return Toy


def takes(target: str, *kinds: str, policy: RegionPolicy | None = None) -> type[Target]:
    """A target that takes single ops of these kinds."""
    operands = {"add": 2, "sub": 2, "mul": 2, "div": 2}
    composites = [
        Composite(
            f"{target}.{kind}",
            (op(f"graph.{kind}", *(wildcard() for _ in range(operands.get(kind, 1)))),),
        )
        for kind in kinds
    ]
    return toy(target, *composites, policy=policy)


def fused(target: str) -> type[Target]:
    """A target of longer patterns: sums and products with relu, a constant product, and relu."""
    total = optional(op("graph.add", wildcard(), wildcard()), lambda v: op("graph.relu", v))
    scaled = op("graph.mul", total, constant("c"))
    return toy(
        target,
        Composite(f"{target}.scaled", (scaled,)),
        Composite(f"{target}.sum", (total,)),
        Composite(f"{target}.relu", (op("graph.relu", wildcard()),)),
    )


def parsed(text: str, *targets: type[Target]) -> ModuleOp:
    """The module of a text, with these targets in order of preference."""
    module = parse_module(text)
    set_targets(module, [attr_of(target()) for target in targets])
    return module


def run(module: ModuleOp, passes: str = HAND_OFF) -> ModuleOp:
    """The module after these passes, each verified."""
    run_passes(module, load_context(), passes)
    return module


def handed_off(lines: Sequence[str], results: Sequence[str], *targets: type[Target]) -> ModuleOp:
    return run(parsed(program(lines, results), *targets))


def main_of(module: ModuleOp, name: str = "main") -> Block:
    functions = [o for o in module.body.block.ops if isinstance(o, FuncOp)]
    (found,) = [f for f in functions if f.sym_name.data == name]
    return found.body.block


def kinds(block: Block) -> list[str]:
    """The ops of a block but constants and return, without `graph.`; calls by their symbol."""
    found: list[str] = []
    for o in block.ops:
        if isinstance(o, CallOp):
            found.append(f"@{o.callee.root_reference.data}")
        elif o.name not in ("graph.constant", "func.return", "byoc.yield"):
            found.append(o.name.removeprefix("graph."))
    return found


def region_functions(module: ModuleOp) -> dict[str, FuncOp]:
    functions = [o for o in module.body.block.ops if isinstance(o, FuncOp)]
    return {f.sym_name.data: f for f in functions if TARGET in f.attributes}


def composites(inside: Operation | Block) -> list[str]:
    """The patterns of the composites inside."""
    return [o.pattern.data for o in inside.walk() if isinstance(o, CompositeOp)]


def regions(module: ModuleOp) -> list[RegionOp]:
    return [o for o in module.walk() if isinstance(o, RegionOp)]


def trail(module: ModuleOp) -> list[tuple[str, str, tuple[str, ...], str]]:
    """Decisions as (pattern, outcome, nodes, reason)."""
    return [
        (d.pattern.data, d.outcome.data, tuple(n.data for n in d.nodes), d.reason.data)
        for o in module.body.block.ops
        if isinstance(o, TrailOp)
        for d in o.decisions
    ]


def text_of(module: ModuleOp) -> str:
    return print_module(module)


def values(module: ModuleOp, inputs: Sequence[str] = "xyz") -> dict[str, np.ndarray]:
    """What the module computes for fixed inputs."""
    numbers = np.random.default_rng(3)
    arrays = [numbers.normal(size=4).astype(np.float32) for _ in inputs]
    return evaluate_module(module, {f"arg{i}": a for i, a in enumerate(arrays)})


def assert_same(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    assert list(found) == list(expected)
    for name, array in found.items():
        assert array.tobytes() == expected[name].tobytes()
