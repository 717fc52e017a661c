"""Meaning of VTA code, before and after it is encoded.

Instructions are run in program order, without regard to their dependency flags; an encoded program
is run as the accelerator would, with the order that its flags allow. Both give the same results
when the flags cover every hazard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from byocir.dialects.array import ArrayAttr
from byocir.dialects.vta import (
    AluOp,
    FinishOp,
    GemmOp,
    InstructionOp,
    LoadOp,
    ProgramOp,
    StoreOp,
    config_of,
)
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import Interpreter, Value, as_array, evaluates
from byocir.vta_sim import Instruction, Machine, SimResult, VTAConfig
from byocir.vta_sim import Program as Stream
from byocir.vta_sim.isa import LAYOUT

NO_DRAM: NDArray[np.uint8] = np.zeros(0, np.uint8)


@evaluates(LoadOp, StoreOp, GemmOp, AluOp, FinishOp)
def _instruction(
    interpreter: Interpreter, op: InstructionOp, arguments: Sequence[Value]
) -> Sequence[Value]:
    """One instruction on the machine of its function; DRAM is the memref that it moves."""
    instruction = interpreter.plans.get(op)
    if instruction is None:
        fields = dict.fromkeys((field.name for field in LAYOUT[op.OPCODE]), 0) | op.fields()
        instruction = interpreter.plans[op] = Instruction(0, op.OPCODE, fields)
    machine = _machine(interpreter, op)
    machine.dram = as_array(arguments[0]).reshape(-1).view(np.uint8) if arguments else NO_DRAM
    machine.step(instruction)
    return ()


def _machine(interpreter: Interpreter, op: InstructionOp) -> Machine:
    function = op.parent_op()
    assert function is not None
    machine = interpreter.plans.get(function)
    if machine is None:
        machine = Machine(NO_DRAM, config_of(function), check=True)
        interpreter.plans[function] = machine
    return machine


@evaluates(ProgramOp)
def _program(_: Interpreter, op: ProgramOp, arguments: Sequence[Value]) -> Sequence[Value]:
    return run_program(op, [as_array(argument) for argument in arguments]).outputs


@dataclass(frozen=True)
class ProgramRun:
    """The outputs of a program, and what the simulator measured."""

    outputs: list[np.ndarray]
    result: SimResult


def run_program(
    program: ProgramOp, inputs: Sequence[np.ndarray], *, timing: bool = False
) -> ProgramRun:
    """Runs a program in the simulator on packed inputs, in the order of its ports.

    With `timing`, `result.cycles` and `result.timeline` are there. Raises ByocirError B337 for
    inputs that do not fit the ports, and VTAError for a program that the machine refuses.
    """
    dram = np.zeros(program.dram.value.data, np.uint8)
    dram[: program.image.data.size] = program.image.data.values()
    if len(inputs) != len(program.inputs):
        raise _misfit(program, f"{len(program.inputs)} inputs", str(len(inputs)))
    for port, array in zip(program.inputs, inputs, strict=True):
        if (array.shape, array.dtype) != (port.shape, port.dtype):
            found = f"{array.dtype} of shape {list(array.shape)}"
            raise _misfit(program, f"{port.dtype} of shape {list(port.shape)}", found)
        dram[port.bytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    result = _stream(program.insns, program.config).run(dram, timing=timing)
    outputs = [
        result.dram[port.bytes].view(port.dtype).reshape(port.shape) for port in program.outputs
    ]
    return ProgramRun(outputs, result)


def _misfit(program: ProgramOp, expected: str, found: str) -> ByocirError:
    message = f"expected {expected}, found {found}"
    return ByocirError("B337", message, where=f"program @{program.sym_name.data}")


@lru_cache(maxsize=32)
def _stream(insns: ArrayAttr, config: VTAConfig) -> Stream:
    return Stream(insns.data.values(), config)
