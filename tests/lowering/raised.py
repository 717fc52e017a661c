"""What is left of loops when they were raised, and what they leave in memory."""

from byocir.evaluate.interpreter import Interpreter


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
