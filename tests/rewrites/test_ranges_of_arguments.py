"""What functions give bounds what others get, where the host only moves it."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.intervals import Interval
from byocir.dialects.text import parse_module
from byocir.rewrites.block_ends import ends_of
from byocir.rewrites.ranges_of_arguments import ranges_of_arguments


def rectified(name: str) -> str:
    return f"""
      func.func private @{name}(%x: tensor<4xi8>) -> tensor<4xi8>
          attributes {{byoc.target = #byoc.target<"any", {{}}>}} {{
        %r = byoc.composite "any.relu" at "tensor" (%i = %x : tensor<4xi8>) -> tensor<4xi8> {{
          %e = tir.empty : tensor<4xi8>
          %y = tir.block [i: 4] ins(%i[i] : tensor<4xi8>) outs(%e[i] : tensor<4xi8>) {{
          ^bb0(%a: i8, %old: i8):
            %0 = arith.constant 0 : i8
            %m = arith.maxsi %a, %0 : i8
            tir.yield %m : i8
          }}
          byoc.yield %y : tensor<4xi8>
        }}
        func.return %r : tensor<4xi8>
      }}"""


def module_of(between: str, calls: str) -> ModuleOp:
    return parse_module(f"""
      func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {{
        %a = byoc.call @first(%x) : (tensor<4xi8>) -> tensor<4xi8>
        %z = tir.fill -3 : i8 : tensor<4xi8>
        %b = tir.block {between} {{
        ^bb0(%s: i8, %old: i8):
          tir.yield %s : i8
        }}
        {calls}
        func.return %c : tensor<4xi8>
      }}{rectified("first")}{rectified("second")}""")


def ranges(module: ModuleOp) -> dict[str, Interval]:
    found = ranges_of_arguments(module)
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    pairs = [(op.sym_name.data, op.body.block.args[0]) for op in functions]
    return {name: found[argument] for name, argument in pairs if argument in found}


REVERSED = "[i: 4] ins(%a[-i + 3] : tensor<4xi8>) outs(%z[i] : tensor<4xi8>)"
MOVED_IN = "[i: 3] ins(%a[i] : tensor<4xi8>) outs(%z[i + 1] : tensor<4xi8>)"
SECOND = "%c = byoc.call @second(%b) : (tensor<4xi8>) -> tensor<4xi8>"


def test_arguments_that_other_functions_give_have_their_range() -> None:
    assert ranges(module_of(REVERSED, SECOND)) == {"second": Interval(0, 127)}


def test_numbers_around_what_is_moved_count() -> None:
    assert ranges(module_of(MOVED_IN, SECOND)) == {"second": Interval(-3, 127)}


def test_a_function_that_is_called_with_anything_else_has_no_known_range() -> None:
    other = "%d = byoc.call @second(%x) : (tensor<4xi8>) -> tensor<4xi8>"
    assert ranges(module_of(REVERSED, f"{SECOND}\n{other}")) == {}


KNOWN = """%w = tir.constant <[1, -2, 3, 4] : tensor<4xi8>> : tensor<4xi8>
        %d = byoc.call @second(%w) : (tensor<4xi8>) -> tensor<4xi8>"""


def test_what_several_calls_give_is_joined() -> None:
    assert ranges(module_of(REVERSED, f"{KNOWN}\n{SECOND}")) == {"second": Interval(-2, 127)}


def test_constants_are_known() -> None:
    module = module_of(REVERSED, f"{KNOWN}\n{SECOND.replace('second', 'first')}")
    found = ranges_of_arguments(module)
    (second,) = [f for f in module.ops if isinstance(f, FuncOp) and f.sym_name.data == "second"]
    ends = ends_of(second.body.block.args[0], found)
    assert ends is not None
    assert ends.are_known
    assert ends.low.tolist() == [1, -2, 3, 4]


def test_composites_are_given_what_others_compute() -> None:
    """Those of one function, whatever the first is split into later."""
    text = rectified("both")
    start, end = text.index("%r ="), text.index("func.return")
    again = text[start:end].replace("%r", "%q").replace("%i = %x", "%i = %r")
    module = parse_module(text[:end] + again + text[end:].replace("%r", "%q"))
    first, second = (op for op in module.walk() if isinstance(op, CompositeOp))
    found = ranges_of_arguments(module)
    assert found == {second.body.block.args[0]: Interval(0, 127)}
    assert first.body.block.args[0] not in found
