"""What is left of loops when they were raised, and what they leave in memory."""

from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.ports import port_names


def reasons(module):
    """Why ops were left."""
    return [
        op.attributes["tir.not_raised"].data
        for op in module.walk()
        if "tir.not_raised" in op.attributes
    ]


def only_blocks(module):
    names = {op.name.partition(".")[0] for op in module.walk()}
    return not names & {"scf", "affine", "memref"}


def on_memory(module, arrays):
    """What a function leaves in its last argument."""
    arrays = [array.copy() for array in arrays]
    interpreter = Interpreter(module)
    interpreter.call(interpreter.function("main"), arrays)
    return arrays[-1]


def contents_after(module, arrays):
    """What the buffers of @main hold in the end, be it on memory or on tensors, by name."""
    interpreter = Interpreter(module)
    function = interpreter.function("main")
    held = {name: array.copy() for name, array in arrays.items()}
    names = port_names(function.arg_attrs, len(function.function_type.inputs), "arg")
    results = interpreter.call(function, [held[name] for name in names])
    count = len(function.function_type.outputs)
    return held | dict(zip(port_names(function.res_attrs, count, "res"), results, strict=True))
