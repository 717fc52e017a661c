"""unroll, vectorise, parallel and vthread: say how the iterations of a loop may run.

A kind is a promise that code generators may use. All but `unroll` let iterations run in any order
or at once, so they must not depend on each other.
"""

from __future__ import annotations

from byocir.dialects.tir import ForOp, LoopKind, LoopKindAttr
from byocir.dialects.tir.loop import IN_ORDER
from byocir.rewrites.schedule.dependence import conflict, described
from byocir.rewrites.schedule.requests import check_loop, refused


def unroll(loop: ForOp) -> None:
    """Marks a loop whose iterations are to be written out one after the other."""
    check_loop(loop)
    loop.properties["kind"] = LoopKindAttr(LoopKind.UNROLL)


def vectorise(loop: ForOp) -> None:
    """Marks a loop whose iterations are to be the lanes of vectors. Raises ByocirError B254 unless
    the loop is an innermost one, B255 where iterations depend on each other.
    """
    check_loop(loop)
    inner = next((op for op in loop.body.block.walk() if isinstance(op, ForOp)), None)
    if inner is not None:
        raise refused("B254", "expected an innermost loop, found one with a loop inside it", loop)
    _set(loop, LoopKind.VECTORIZE)


def parallel(loop: ForOp) -> None:
    """Marks a loop whose iterations may run on several threads. Raises ByocirError B255 where they
    depend on each other.
    """
    check_loop(loop)
    _set(loop, LoopKind.PARALLEL)


def vthread(loop: ForOp) -> None:
    """Marks a loop whose iterations take turns on one device, so that one loads while another
    computes; each has buffers of its own. Raises ByocirError B255 where they depend on each other.
    """
    check_loop(loop)
    _set(loop, LoopKind.VTHREAD)


def runs_in_order(loop: ForOp) -> bool:
    """Tells if the iterations of a loop run one after the other, as they are written."""
    return loop.kind.data in IN_ORDER


def _set(loop: ForOp, kind: LoopKind) -> None:
    found = conflict(loop)
    if found is not None:
        raise refused(
            "B255",
            f"expected iterations that do not depend on each other, found that all of them may "
            f"access what {described(found.op)} writes",
            loop,
            help="a loop over a reduction, or over tiles that overlap, stays serial; tile a "
            'parallel iterator instead, or with remainder="guard"',
        )
    loop.properties["kind"] = LoopKindAttr(kind)
