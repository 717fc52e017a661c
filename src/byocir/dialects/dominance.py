"""Checks that values are defined before they are used: the rule of SSA that xDSL's verifier leaves
unchecked.

An op may use a value that is defined earlier in its own block, or earlier than the op around it in
an enclosing block, unless an op between the two is isolated from above. In regions of several
blocks the defining block must dominate the using one.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.locations import names
from byocir.dialects.traits import is_isolated
from byocir.dialects.walk import ops_in


class InvalidOp(VerifyException):
    """Says which rule is broken, and by which op."""

    def __init__(self, message: str, op: Operation) -> None:
        super().__init__(message)
        self.op = op


def verify_dominance(module: ModuleOp) -> None:
    """Raises InvalidOp, one sentence that names the op, when an op uses a value that is not defined
    before it."""
    if _all_reach(module):
        return
    order = {op: index for index, op in enumerate(module.walk())}
    regions: dict[Region, DominanceInfo] = {}
    for user in order:
        for position, value in enumerate(user.operands):
            problem = _problem(value, user, order, regions)
            if problem:
                raise InvalidOp(
                    f"expected operand {position} of {describe(user)} to be defined before it, "
                    f"found {problem}",
                    user,
                )


def _all_reach(module: ModuleOp) -> bool:
    """Tells if a walk in the order of the text meets every value before its uses. In a correct
    program that is so, unless control flow goes from block to block.
    """
    visible: set[int] = set()
    return all(_reach(op, visible) for op in module.body.block.ops)


def _reach(op: Operation, visible: set[int]) -> bool:
    """Tells if the operands of an op, and of those inside it, are visible; then makes its results
    visible. Values are known by their identity: hashing one calls Python.
    """
    operands = op._operands  # pyrefly: ignore[protected-access]
    if not visible.issuperset(map(id, operands)):
        return False
    if op.regions:
        outside: set[int] = set() if is_isolated(op) else visible
        if not all(_reach_inside(region, outside) for region in op.regions):
            return False
    visible.update(map(id, op.results))
    return True


def _reach_inside(region: Region, visible: set[int]) -> bool:
    """Tells if the operands of all ops in a region are visible. What these ops define is not
    visible behind the region.
    """
    block = region.first_block
    if block is None:
        return True
    visible.update(map(id, block.args))
    ops = ops_in(block)
    if block.next_block is not None or not all([_reach(op, visible) for op in ops]):
        return False
    visible.difference_update(map(id, block.args))
    visible.difference_update([id(result) for op in ops for result in op.results])
    return True


def describe(op: Operation) -> str:
    """Words an op for messages: its name and, when known, the nodes it came from."""
    nodes = ", ".join(f'"{name}"' for name in names(op.location))
    return f"{op.name} ({nodes})" if nodes else op.name


def _problem(
    value: SSAValue,
    user: Operation,
    order: dict[Operation, int],
    regions: dict[Region, DominanceInfo],
) -> str:
    """Says why a value cannot be used by an op; empty when it can."""
    home = value.owner.parent if isinstance(value, OpResult) else value.owner
    if not isinstance(home, Block) or (isinstance(value, OpResult) and value.op not in order):
        return "a value of an op that is not in the module"
    holder, wall = _holder(user, home.parent)
    if holder is None:
        return "a value that is defined inside another op"
    if wall is not None:
        return f"a value from outside {describe(wall)}, which is isolated from above"
    if holder.parent is not home:
        return _across_blocks(home, holder.parent, regions)
    if isinstance(value, OpResult) and order[value.op] >= order[holder]:
        return f"a result of {describe(value.op)}, which comes later"
    return ""


def _holder(user: Operation, region: Region | None) -> tuple[Operation | None, Operation | None]:
    """Gives the op of a region that is a user, or has it inside, None when the user is not in the
    region; and the innermost op between the two that is isolated from above, if any.
    """
    wall: Operation | None = None
    holder: Operation | None = user
    while holder is not None and holder.parent_region() is not region:
        holder = holder.parent_op()
        if holder is not None and is_isolated(holder):
            wall = wall or holder
    return holder, wall


def _across_blocks(home: Block, using: Block | None, regions: dict[Region, DominanceInfo]) -> str:
    """Says why a value of one block cannot be used in another block of the same region; empty when
    it can.
    """
    region = home.parent
    assert region is not None
    assert using is not None
    if region not in regions:
        regions[region] = DominanceInfo(region)
    if regions[region].strictly_dominates(home, using):
        return ""
    return "a value of a block that control flow need not have passed"
