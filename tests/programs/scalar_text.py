"""Writes the bodies of blocks as text: one op after the other, each on numbers of one type."""


class Scalars:
    """The ops of a body on integers of a wide type. Methods add ops and give the name of the last
    one's result.
    """

    def __init__(self, type_: str = "i64") -> None:
        self.type = type_
        self.lines: list[str] = []

    def line(self, op: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {op}")
        return name

    def number(self, number: int) -> str:
        return self.line(f"arith.constant {number} : {self.type}")

    def put(self, kind: str, one: str | int, other: str | int) -> str:
        """An op of two operands, each of which may be a number."""
        pair = [self.number(each) if isinstance(each, int) else each for each in (one, other)]
        return self.line(f"arith.{kind} {', '.join(pair)} : {self.type}")

    def clamp(self, value: str, low: int, high: int) -> str:
        return self.put("minsi", self.put("maxsi", value, low), high)

    def wide(self, value: str, element: str) -> str:
        """A number of fewer bits in the wide type."""
        return self.line(f"arith.extsi {value} : {element} to {self.type}")

    def narrow(self, value: str, element: str) -> str:
        return self.line(f"arith.trunci {value} : {self.type} to {element}")

    def shift_to_even(self, value: str, shift: int) -> str:
        """`value / 2^shift`, rounded half to even."""
        bits = self.number(shift)
        quotient = self.put("shrsi", value, bits)
        odd = self.put("subi", quotient, self.put("muli", self.put("shrsi", quotient, 1), 2))
        above = self.put("addi", self.put("addi", value, (1 << shift - 1) - 1), odd)
        return self.put("shrsi", above, bits)

    def slopes(self, value: str, factor: int) -> str:
        """A number below 0 as it is, and one above 0 times a factor."""
        above, below = self.put("maxsi", value, 0), self.put("minsi", value, 0)
        return self.put("addi", below, self.put("muli", above, factor))

    def text(self, value: str, element: str = "i8") -> str:
        """The body that gives a value as a number of fewer bits."""
        result = self.narrow(value, element)
        return "\n".join([*self.lines, f"tir.yield {result} : {element}"])
