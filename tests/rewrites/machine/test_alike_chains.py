"""Chains of one form get the same tiles: a search for one of them serves for all."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from random_machines import Drawn, machine_by, machines, product_module
from xdsl.dialects.builtin import ModuleOp

from byocir.compiler import partition
from byocir.dialects.byoc import CompositeOp
from byocir.dialects.tir import BlockOp
from byocir.errors import ByocirError
from byocir.rewrites.machine import search_schedule
from byocir.rewrites.machine.schedule_script import Choice
from byocir.rewrites.machine.stages import Chain

sizes = st.sampled_from([1, 8, 12, 16])
products = st.tuples(sizes, sizes, sizes, st.booleans())
REFUSED = "B270"
"""The error of a machine that its description rules out."""


def chains_on(drawn: Drawn, module: ModuleOp) -> list[Chain]:
    """Makes the chains of what a machine takes of a module."""
    partition(module, targets=[drawn.register()()], levels=("tensor",))
    bodies = [op.body.block for op in module.walk() if isinstance(op, CompositeOp)]
    blocks = [[op for op in body.ops if isinstance(op, BlockOp)] for body in bodies]
    return [Chain(drawn.machine, each) for each in blocks]


def searched(chain: Chain) -> tuple[Choice, float] | str:
    """Searches for tiles anew."""
    search = search_schedule._Search(chain)
    try:
        return search.fastest(), search.least()
    except ByocirError as error:
        return error.code


@settings(max_examples=6 if settings.default.max_examples < 100 else 500)
@given(machines(), st.lists(products, min_size=3, max_size=3))
def test_chains_of_one_form_get_the_same_tiles(drawn, shapes) -> None:
    found: dict[int, tuple[Choice, float] | str] = {}
    for m, n, k, relu in [*shapes, shapes[0]]:
        try:
            chains = chains_on(drawn, product_module(m, n, k, relu=relu))
        except ByocirError as error:
            if error.code != REFUSED:
                raise
            return
        for chain in chains:
            here = searched(chain)
            assert found.setdefault(chain.form, here) == here


def test_equal_layers_share_a_search() -> None:
    drawn = machine_by(lambda options: options[0])
    one, other = (chains_on(drawn, product_module(16, 8, 8, relu=False)) for _ in range(2))
    assert [chain.form for chain in one] == [chain.form for chain in other] != []
