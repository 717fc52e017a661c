"""The tree of C statements: how it prints, and what of it is dropped."""

from byocir.lowering.tir_to_c.tree import Block, Declare, For, If, definition, live


def test_functions_print_as_they_are_nested():
    body = [
        "#ifdef LOUD",
        If("n > 0", ["f();"], [For("i", "n", ["g(i);"], start=2, step=3, kind="int64_t")]),
        "#endif",
        Block([For("j", 4, ["h(j);"], is_apart=True)], "last"),
    ]
    assert definition("void it(int n)", body).splitlines() == [
        "void it(int n)",
        "{",
        "#ifdef LOUD",
        "    if (n > 0) {",
        "        f();",
        "    } else {",
        "        for (int64_t i = 2; i < n; i += 3) {",
        "            g(i);",
        "        }",
        "    }",
        "#endif",
        "    { /* last */",
        "        for (ptrdiff_t j = 0; j < apart(4); j++) {",
        "            h(j);",
        "        }",
        "    }",
        "}",
    ]


def test_declarations_that_nothing_reads_are_dropped():
    a, b, c = Declare("int", "a", "1"), Declare("int", "b", "a"), Declare("int", "c", "b")
    assert live([a, b, c, "f(b);"]) == [a, b, "f(b);"]
    loop = For("i", "b", ["f(i);"])
    assert live([a, b, c, loop]) == [a, b, loop]
    assert live([a, Block([c, "g();"]), If("x", ["g();"], ["f(a);"])]) == [
        *(a, Block(["g();"]), If("x", ["g();"], ["f(a);"])),
    ]
    assert live(["f(a);", a]) == ["f(a);"]
    x1 = Declare("float", "x1", "2.0f")
    assert live([x1, "y = 0x1p-3f;"]) == ["y = 0x1p-3f;"]
