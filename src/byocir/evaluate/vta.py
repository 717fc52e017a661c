"""Evaluates VTA code, before and after it is encoded.

Instructions are run in program order, without regard to their dependency flags; an encoded program
is run as the accelerator would, with the order that its flags allow. Both give the same results
when the flags cover every hazard.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from byocir.dialects import vta
from byocir.dialects.array import ArrayAttr
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import Interpreter, Values, as_array, evaluates
from byocir.vta_sim import Executable, Instruction, Machine, SimResult, VTAConfig
from byocir.vta_sim import Program as Stream
from byocir.vta_sim.isa import LAYOUT

NO_DRAM: NDArray[np.uint8] = np.zeros(0, np.uint8)


@evaluates(vta.LoadOp, vta.StoreOp, vta.GemmOp, vta.AluOp, vta.FinishOp)
def _instruction(interpreter: Interpreter, op: vta.InstructionOp, arguments: Values) -> Values:
    """Runs one instruction on the machine of its function; DRAM is the memref that it moves."""
    instruction = interpreter.plans.get(op)
    if instruction is None:
        fields = dict.fromkeys((field.name for field in LAYOUT[op.OPCODE]), 0) | op.fields()
        instruction = interpreter.plans[op] = Instruction(0, op.OPCODE, fields)
    machine = _machine(interpreter, op)
    machine.dram = as_array(arguments[0]).reshape(-1).view(np.uint8) if arguments else NO_DRAM
    machine.step(instruction)
    return ()


def _machine(interpreter: Interpreter, op: vta.InstructionOp) -> Machine:
    function = op.parent_op()
    assert function is not None
    machine = interpreter.plans.get(function)
    if machine is None:
        machine = Machine(NO_DRAM, vta.config_of(function), check=True)
        interpreter.plans[function] = machine
    return machine


@evaluates(vta.ProgramOp)
def _program(_: Interpreter, op: vta.ProgramOp, arguments: Values) -> Values:
    return run_program(op, [as_array(argument) for argument in arguments])[0]


def run_program(
    program: vta.ProgramOp, inputs: Sequence[np.ndarray], *, timing: bool = False
) -> tuple[list[np.ndarray], SimResult]:
    """Runs a program in the simulator on packed inputs, in the order of its ports. Gives its
    outputs, and what the simulator measured, with cycles only if `timing` is asked for.

    Raises ByocirError B337 for inputs that do not fit the ports, and VTAError for a program that
    the machine refuses.
    """
    ports = [port.place for port in program.inputs]
    if len(inputs) != len(ports):
        raise _misfit(program, f"{len(ports)} inputs", str(len(inputs)))
    for port, array in zip(ports, inputs, strict=True):
        if not port.fits(array):
            found = f"{array.dtype} of shape {list(array.shape)}"
            raise _misfit(program, f"{port.dtype} of shape {list(port.shape)}", found)
    executable = Executable(
        _stream(program.insns, program.config),
        program.image.data.values(),
        program.dram.value.data,
        ports,
        [port.place for port in program.outputs],
    )
    return executable.run(inputs, timing=timing)


def _misfit(program: vta.ProgramOp, expected: str, found: str) -> ByocirError:
    message = f"expected {expected}, found {found}"
    return ByocirError("B337", message, where=f"program @{program.sym_name.data}")


@lru_cache(maxsize=32)
def _stream(insns: ArrayAttr, config: VTAConfig) -> Stream:
    return Stream(insns.data.values(), config)
