"""Bodies with the same parts are the same, and print as if each were printed by itself."""

from io import StringIO

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, IntegerAttr, StringAttr, i32
from xdsl.printer import Printer

from byocir.dialects.body_facts import BodyFacts, computation_of, parts_of
from byocir.dialects.locations import named
from byocir.dialects.text import ModulePrinter, parse_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import f32

BODIES = [
    "^bb0(%0: i32, %1: i32):\n %2 = arith.addi %0, %1 : i32\n tir.yield %2 : i32",
    "^bb0(%0: i32, %1: i32):\n %2 = arith.addi %1, %0 : i32\n tir.yield %2 : i32",
    '^bb0(%0: i32 loc("0\\00%1"), %1: i32):\n %2 = arith.muli %0, %1 : i32 loc("%2")\n'
    " %3 = arith.constant 3 : i32\n %4 = arith.addi %2, %3 : i32\n tir.yield %4 : i32",
    "^bb0(%e: i32, %1: i32):\n %2 = arith.addi %e, %1 : i32\n tir.yield %2 : i32",
    "^bb0(%0: i32, %1: i32):\n %sum = arith.addi %0, %1 {note} : i32\n tir.yield %sum : i32",
    "^bb0(%0: i32, %1: i32):\n tir.yield %0 : i32",
]


def program(drawn) -> str:
    """A program of blocks with some of these bodies, at either depth."""
    lines = []
    for body, inside in drawn:
        block = (
            "tir.block [i: 4] ins(%x[i] : memref<4xi32>) outs(%y[i] : memref<4xi32>) "
            f'{{\n{BODIES[body]}\n}} loc("a")'
        )
        lines.append(f'tir.intrinsic "npu.do" {{\n{block}\n}}' if inside else block)
        lines.append(f"%c{len(lines)} = arith.constant 1 : i32")
    text = "\n".join(lines)
    return f"func.func @f(%x: memref<4xi32>, %y: memref<4xi32>) {{\n{text}\nfunc.return\n}}"


def printed(kind, module, debuginfo):
    stream = StringIO()
    kind(stream=stream, debuginfo=debuginfo).print_op(module)
    return stream.getvalue()


class EachByItself(ModulePrinter):
    print_region = Printer.print_region


DRAWN = st.lists(st.tuples(st.integers(0, len(BODIES) - 1), st.booleans()), max_size=8)


@settings(max_examples=15 if settings.default.max_examples < 100 else 500)
@given(DRAWN, st.booleans())
def test_bodies_print_as_if_each_were_printed_by_itself(drawn, debuginfo):
    module = parse_module(program(drawn))
    expected = printed(EachByItself, module, debuginfo)
    assert printed(ModulePrinter, module, debuginfo) == expected


@settings(max_examples=10 if settings.default.max_examples < 100 else 500)
@given(DRAWN)
def test_bodies_that_share_facts_are_the_same(drawn):
    module = parse_module(program(drawn))
    blocks = [op for op in module.walk() if isinstance(op, BlockOp)]
    blocks += [block.clone() for block in blocks]
    facts = BodyFacts[object]()
    found = [facts.of(each.body.block, object) for each in blocks]
    for one, first in zip(blocks, found, strict=True):
        for other, second in zip(blocks, found, strict=True):
            if first is not None and first is second:
                assert one.body.is_structurally_equivalent(other.body)
    for one, clone in zip(found, found[len(found) // 2 :], strict=False):
        assert one is clone


def test_whatever_changes_a_body_changes_its_parts():
    module = parse_module(program([(2, False)]))
    (block,) = (op for op in module.walk() if isinstance(op, BlockOp))
    body = block.body.block
    product, number, total, _ = body.ops
    seen = []

    def different():
        parts = parts_of(body)
        assert parts is not None
        assert all(parts != each for each in seen)
        seen.append(parts)

    different()
    product.operands = [*reversed(product.operands)]
    different()
    number.properties["value"] = IntegerAttr(4, i32)
    different()
    total.properties["note"] = StringAttr("")
    different()
    total.location = FileLineColLoc(StringAttr("f"), IntAttr(1), IntAttr(2))
    different()
    body.args[0].location = named("b")
    different()
    body.args[1].name_hint = "old"
    different()
    body.insert_arg(f32, 2)
    different()
    total.detach()
    body.insert_op_before(total, product)
    assert parts_of(body) is None  # it reads what comes later
    total.detach()
    body.insert_op_after(total, number)
    assert parts_of(body) == seen[-1]
    number.attributes["note"] = StringAttr("")
    assert parts_of(body) is None


@settings(max_examples=10 if settings.default.max_examples < 100 else 500)
@given(st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=4))
def test_bodies_compute_the_same_if_only_names_and_locations_differ(drawn):
    module = parse_module(program([(body, False) for body in drawn]))
    bodies = [op.body for op in module.walk() if isinstance(op, BlockOp)]
    for one in bodies:
        for other in bodies:
            same = computation_of(one.block) == computation_of(other.block)
            assert same == one.is_structurally_equivalent(other)


def test_a_body_with_regions_computes_what_no_other_does():
    one, other = (parse_module(program([(0, False)])).body.block for _ in range(2))
    assert computation_of(one) == computation_of(one) != computation_of(other)
