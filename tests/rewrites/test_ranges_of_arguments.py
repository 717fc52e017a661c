"""What functions give bounds what others get, where the host only moves it."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.dialects.intervals import Interval
from byocir.dialects.text import parse_module
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
    return {name: found[argument].interval for name, argument in pairs if argument in found}


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


def test_constants_are_known_and_what_several_calls_give_is_joined() -> None:
    known = "%w = tir.constant <[1, -2, 3, 4] : tensor<4xi8>> : tensor<4xi8>"
    other = "%d = byoc.call @second(%w) : (tensor<4xi8>) -> tensor<4xi8>"
    module = module_of(REVERSED, f"{known}\n{other}\n{SECOND}")
    assert ranges(module) == {"second": Interval(-2, 127)}
    alone = module_of(
        REVERSED, f"{known}\n{other}\n%c = byoc.call @first(%b) : (tensor<4xi8>) -> tensor<4xi8>"
    )
    (found,) = [each for v, each in ranges_of_arguments(alone).items() if each.are_known]
    assert found.low.tolist() == [1, -2, 3, 4]
