"""Encoding: addresses, bytes and where they came from; and running the result."""

from __future__ import annotations

import numpy as np
import pytest
from vta_mutations import apply, dropped_edges
from vta_staged import Conv, function, parse
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.dialects.context import load_context
from byocir.dialects.tir import ConstantOp
from byocir.dialects.vta import InstructionOp, ProgramOp
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate
from byocir.evaluate.vta import run_program
from byocir.lowering.tir_to_vta.encode import VtaEncodePass
from byocir.lowering.tir_to_vta.insert_tokens import VtaInsertTokensPass
from byocir.lowering.tir_to_vta.tensorise import VtaTensorisePass
from byocir.targets.vta import Vta
from byocir.vta_sim import DEFAULT_CONFIG, Memory, VTAError, decode

LAYERS = [
    Conv((2, 5, 5), 2, (3, 3), 1, 1, 1, (1, 2, 1), (("shrsi", 7), ("minsi", 127))),
    Conv((2, 5, 5), 1, (1, 1), 1, 0, 1, (1, 5, 2), (("shrsi", 7), ("maxsi", -128))),
]


def instructions() -> ModuleOp:
    module, context = parse(function(LAYERS)), load_context()
    VtaTensorisePass().apply(context, module)
    VtaInsertTokensPass().apply(context, module)
    return module


def encoded(module: ModuleOp) -> ProgramOp:
    VtaEncodePass().apply(load_context(), module)
    module.verify()
    (program,) = (op for op in module.ops if isinstance(op, ProgramOp))
    return program


def test_the_bytes_decode_to_the_instructions() -> None:
    module = instructions()
    ops = [op for op in module.walk() if isinstance(op, InstructionOp)]
    expected = [(op.OPCODE, op.fields()) for op in ops]
    program = encoded(module)
    decoded = decode(program.insns.data.values()).instructions()
    assert len(decoded) == len(expected)
    for instruction, (opcode, fields) in zip(decoded, expected, strict=True):
        assert instruction.opcode == opcode
        for name, value in instruction.fields.items():
            if name != "dram_base":
                assert value == fields.get(name, 0)


def test_the_same_function_gives_the_same_bytes() -> None:
    first, second = encoded(instructions()), encoded(instructions())
    assert first.properties == second.properties


def test_everything_has_an_address_of_its_own() -> None:
    program = encoded(instructions())
    image, dram = program.image.data.size, program.dram.value.data
    ports = [*program.inputs, *program.outputs]
    edges = [
        4096,
        image,
        *(edge for p in ports for edge in (p.place.bytes.start, p.place.bytes.stop)),
        dram,
    ]
    assert edges == sorted(edges)
    assert all(port.place.bytes.start % 256 == 0 for port in ports)
    assert not program.image.data.values()[:4096].any()


def test_equal_constants_share_an_address() -> None:
    module = instructions()
    (first, *_) = (op for op in module.walk() if isinstance(op, ConstantOp))
    alone = encoded(instructions()).image.data.size
    copy = first.clone()
    parent = first.parent
    assert parent is not None
    parent.insert_op_after(copy, first)
    assert encoded(module).image.data.size == alone


def test_loads_address_the_constants_they_were_given() -> None:
    module = instructions()
    values = {
        op.value.data.digest: op.value.data.values()
        for op in module.walk()
        if isinstance(op, ConstantOp)
    }
    program = encoded(module)
    decoded = decode(program.insns.data.values())
    loads = [i for i in decoded.instructions() if i.fields.get("memory_type") == Memory.WGT]
    first = min(load.fields["dram_base"] for load in loads) * 256
    weights = next(v for v in values.values() if v.ndim == 6)
    stored = program.image.data.values()[first : first + weights.size]
    np.testing.assert_array_equal(stored.view(np.int8), weights.ravel())


def test_spans_name_the_nodes_of_the_instructions() -> None:
    program = encoded(instructions())
    names = list(dict.fromkeys(span.names for span in program.spans))
    assert names == [("conv_0",), ("conv_1",), ()]
    assert program.spans.data[-1].count.data == 1


def test_tiles_are_the_indices_of_the_loops() -> None:
    """Both layers loop over tiles; FINISH is in no loop."""
    program = encoded(instructions())
    assert program.tiles is not None
    tiles = program.tiles.data.values()
    assert len(tiles) == program.insns.data.shape[0]
    assert tiles[-1].tolist() == [-1] * tiles.shape[1]
    first = program.spans.data[0].count.data
    loaded = tiles[:first][(tiles[:first] >= 0).any(axis=1)]
    assert loaded.size
    assert len(np.unique(loaded, axis=0)) > 1
    assert loaded[:, 0].tolist() == sorted(loaded[:, 0].tolist())


def test_hazards_name_nodes_and_tiles() -> None:
    """The target's code with the first wait of compute for load left out."""
    module = instructions()
    encoded(module)
    blobs = dict(Vta().emit(module, ["vta_0"]))
    x = np.ones((1, 2, 5, 5, 16), np.int8)
    (clean,) = Vta().load_checked(blobs)("vta_0", [x])
    (plain,) = Vta().load(blobs)("vta_0", [x])
    np.testing.assert_array_equal(clean, plain)
    insns = np.frombuffer(blobs["vta_0.insns"], np.uint8).reshape(-1, 16)
    edge = next(dropped_edges(insns, DEFAULT_CONFIG))
    blobs["vta_0.insns"] = apply(edge, insns, DEFAULT_CONFIG).tobytes()
    with pytest.raises(VTAError, match=r"S201(.|\n)*load\.\w+ .*\(conv_0, tile 0[ 0]*\)"):
        Vta().load_checked(blobs)("vta_0", [x])


def test_inputs_must_fit_the_ports() -> None:
    program = encoded(instructions())
    with pytest.raises(ByocirError, match=r"expected 1 inputs, found 0"):
        run_program(program, [])
    with pytest.raises(ByocirError, match=r"expected int8 of shape \[1, 2, 5, 5, 16\], found int8"):
        run_program(program, [np.zeros((1, 2, 5, 16), np.int8)])


def test_calls_of_a_program_are_evaluated() -> None:
    type_ = "1x{}x5x5x16xi8"
    x_type, y_type = (f"tensor<{type_.format(c)}>" for c in (2, 1))
    main = f"""
    func.func public @main(%a: {x_type}) -> {y_type} {{
      %0 = byoc.call @vta_0(%a) : ({x_type}) -> {y_type}
      func.return %0 : {y_type}
    }}
    """
    module, context = parse(main + function(LAYERS)), load_context()
    x = np.random.default_rng(3).integers(-128, 128, (1, 2, 5, 5, 16)).astype(np.int8)
    (expected,) = evaluate(module, {"arg0": x}).values()
    for lowering in (VtaTensorisePass(), VtaInsertTokensPass(), VtaEncodePass()):
        lowering.apply(context, module)
    interpreter = Interpreter(module)
    (found,) = evaluate(module, {"arg0": x}, interpreter=interpreter).values()
    np.testing.assert_array_equal(found, expected)


def test_timing_on_demand() -> None:
    program, x = encoded(instructions()), np.ones((1, 2, 5, 5, 16), np.int8)
    (plain,), untimed = run_program(program, [x])
    (again,), timed = run_program(program, [x], timing=True)
    assert untimed.cycles is None
    assert timed.cycles is not None
    assert timed.cycles > 0
    np.testing.assert_array_equal(plain, again)


def test_only_instructions_are_encoded() -> None:
    module = parse(function(LAYERS))
    with pytest.raises(ByocirError, match=r"B336.*found byoc\.composite"):
        VtaEncodePass().apply(load_context(), module)
    assert any(isinstance(op, FuncOp) for op in module.ops)


def test_outputs_come_after_inputs() -> None:
    module = instructions()
    (found,) = (op for op in module.ops if isinstance(op, FuncOp))
    block = found.body.block
    x, y = block.args
    x.replace_all_uses_with(placeholder := block.insert_arg(x.type, 0))
    y.replace_all_uses_with(x)
    placeholder.replace_all_uses_with(y)
    block.erase_arg(block.args[0])
    with pytest.raises(ByocirError, match=r"B336.*an argument that is read after one"):
        VtaEncodePass().apply(load_context(), module)
