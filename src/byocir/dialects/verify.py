"""Every rule a module must meet: xDSL's own, definitions before uses, and calls that fit."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.byoc import CallOp
from byocir.dialects.dominance import InvalidOp, verify_dominance


def verify_module(module: ModuleOp) -> None:
    """Raises InvalidOp, one sentence, for the first op that breaks a rule."""
    try:
        module.verify()
    except VerifyException as error:
        invalid = InvalidOp(str(error), _culprit(module))
        for note in getattr(error, "__notes__", ()):  # the module, marked at the op
            invalid.add_note(note)
        raise invalid from error
    verify_dominance(module)
    verify_calls(module)


def verify_calls(module: ModuleOp) -> None:
    """Raises InvalidOp for a `byoc.call` whose function is missing or of another type."""
    symbols = {
        name.data: op
        for op in module.body.block.ops
        if isinstance(name := op.properties.get("sym_name"), StringAttr)
    }
    for op in module.walk():
        if not isinstance(op, CallOp):
            continue
        name = op.callee.root_reference.data
        if name not in symbols:
            raise InvalidOp(f"expected a function @{name} to call, found none", op)
        callee = symbols[name]
        if not isinstance(callee, FuncOp):
            continue  # encoded code; its interface is the device's
        try:
            op.verify_type(callee.function_type)
        except VerifyException as error:
            raise InvalidOp(str(error), op) from error


def _culprit(module: ModuleOp) -> Operation:
    """The first op that does not verify by itself, else the module."""
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException:
            return op
    return module
