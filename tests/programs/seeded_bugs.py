"""Bugs, each a small change of a toy target that is right, which `conform` must find."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOY = ROOT / "examples" / "toy_npu.py"
TILE = ROOT / "examples" / "tile_npu.py"
C = ROOT / "tests" / "programs" / "c_npu.py"
BYTE = ROOT / "tests" / "programs" / "byte_npu.py"


KEPT = "SUMS, SEEN, SHARED = {}, {}, [None]"
"""What bugs keep from call to call."""


@dataclass(frozen=True)
class Bug:
    """One text in place of another, in a copy of a target, and the code that tells of it, or those
    of which the first program that shows it has one."""

    name: str
    source: Path
    old: str
    new: str
    code: str = "B380"

    def write(self, folder: Path) -> str:
        """Writes the target with its bug into a folder; gives its path."""
        text = self.source.read_text()
        assert text.count(self.old) == 1, f"{text.count(self.old)} of {self.old}"
        path = folder / f"{self.source.stem}_{self.name.replace(' ', '_')}.py"
        path.write_text(f"{text.replace(self.old, self.new)}\n\n{KEPT}\n")
        return str(path)


RELU = "return np.maximum(result, 0) if len(step.steps) > 1 else result"
TOTALS = "result = np.zeros(step.output_types[0].shape, np.float32)"
BIAS = "result += sum(b.reshape(-1, 1, 1) for b in bias)"
PAD = "x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))"
PART = "part, weights = x[:, c : c + CHANNELS, rows, columns], w[:, c : c + CHANNELS, r, s]"
METHOD = "    def passes(self, point: str)"
HOOK = "    def schedule(self"
RUN = (
    """    def load(self, blobs):
        run = super().load(blobs)
        return lambda symbol, inputs: {}

"""
    + HOOK
)
"""A tile target whose results, or what it is given, are changed."""

CONVOLUTIONS = [
    Bug("off by one tile", TOY, "range(0, w.shape[1], CHANNELS)", "range(0, 17, CHANNELS)"),
    Bug(
        "last tile lost",
        TOY,
        "range(0, w.shape[1], CHANNELS)",
        "range(0, max(8, w.shape[1] - CHANNELS), CHANNELS)",
    ),
    Bug("one stride for both", TOY, "(width - 1) * sw + 1, sw", "(width - 1) * sh + 1, sh", "B380 or B381"),  # noqa: E501
    Bug("dilation ignored", TOY, "rows = slice(", "down = along = 1\n            rows = slice("),
    Bug("groups ignored", TOY, ", group=1) @", ") @"),
    Bug(
        "batch ignored",
        TOY,
        RELU,
        f"result[1:] = result[:1]\n    {RELU}",
    ),
    Bug("relu missing", TOY, RELU, "return result"),
    Bug("relu always", TOY, RELU, "return np.maximum(result, 0)"),
    Bug("wrong pad value", TOY, PAD, PAD.replace("right)))", "right)), constant_values=1)")),
    Bug("pads in another order", TOY, "(top, left, bottom, right), (down", "(top, bottom, left, right), (down", "B381"),  # noqa: E501
    Bug("kernel transposed", TOY, "c : c + CHANNELS, r, s]", "c : c + CHANNELS, -1 - r, -1 - s]"),
    Bug("bias dropped", TOY, BIAS, "pass"),
    Bug("bias of the first channel", TOY, "b.reshape(-1, 1, 1)", "b[0]"),
    Bug("NaN lost", TOY, "np.maximum(result, 0)", "np.fmax(result, 0)"),
    Bug("infinity lost", TOY, PAD, f"x = np.nan_to_num(x, nan=np.nan)\n    {PAD}"),
    Bug("low precision", TOY, TOTALS, TOTALS.replace("np.float32", "np.float16") + ".astype(np.float32)\n    x = x.astype(np.float16).astype(np.float32)"),  # noqa: E501
    Bug("dtype rule missing", TOY, 'wildcard("x", dtype=f32)', 'wildcard("x")', "B381"),
    Bug("rule that never refuses", TOY, "return channels % CHANNELS == 0,", "return True,", "B387"),
    Bug("rule that fails", TOY, 'channels = m["w"].type', 'channels = m["b"].type', "B202"),
    Bug("pass too eager", TOY, ' or "max" in m["clip"].attrs', ""),
]  # fmt: skip

CONDUCT = [
    Bug("sums kept between calls", TOY, TOTALS, f"result = SUMS.setdefault(step, {TOTALS[9:]})", "B384"),  # noqa: E501
    Bug("result of the first call", TOY, RELU, f"{RELU.replace('return', 'result =')}\n    return SEEN.setdefault(step, result)", "B384"),  # noqa: E501
    Bug("input written", TOY, PAD, f"x.setflags(write=True)\n    x *= 2\n    x /= 2\n    x += 0.5\n    {PAD}", "B383"),  # noqa: E501
    Bug("scratch shared by threads", TOY, BIAS, f"SHARED[:1] = [result]\n    {BIAS}\n    result = SHARED[0]", "B385"),  # noqa: E501
    Bug("emit differs", TOY, METHOD, """    def emit(self, module, symbols):
        import random

        return {**super().emit(module, symbols), "id": str(random.random()).encode()}

""" + METHOD, "B382"),
    Bug("outputs in another order", TOY, METHOD, """    def load(self, blobs):
        run = super().load(blobs)
        return lambda symbol, inputs: run(symbol, inputs)[::-1]

""" + METHOD),
]  # fmt: skip

TILES = [
    Bug("factor not turned", TILE, HOOK, RUN.format("run(symbol, [x.T if x.shape[0] == x.shape[-1] else x for x in inputs])")),  # noqa: E501
    Bug("rest of a tile lost", TILE, "for size in range(SIDE, 0, -1) if extent % size == 0", "for size in [min(extent, SIDE)]", "B381"),  # noqa: E501
    Bug("start from one", TILE, HOOK, RUN.format("[sums + 1 for sums in run(symbol, inputs)]")),
    Bug("one output alone", TILE, HOOK, RUN.format("run(symbol, inputs)[:1]"), "B381"),
]  # fmt: skip

BYTES = [
    Bug("saturation missing", BYTE, "np.clip(shifted, info.min, info.max)", "shifted.astype(np.int64)"),  # noqa: E501
    Bug("rounds down", BYTE, "np.rint(np.asarray", "np.floor(np.asarray"),
    Bug("rounds half up", BYTE, "np.rint(np.asarray(sums).astype(np.float32) * before / after)", "np.floor(np.asarray(sums).astype(np.float32) * before / after + 0.5)"),  # noqa: E501
    Bug("ui8 as i8", BYTE, "x.astype(np.int32) @", "x.astype(np.int8).astype(np.int32) @"),
    Bug("zero point dropped", BYTE, 'step.steps[-1].attributes["zero_point"]', "0"),
    Bug("sums of 16 bits", BYTE, "np.asarray(sums).astype", "np.asarray(sums).astype(np.int16).astype"),  # noqa: E501
    Bug("scales swapped", BYTE, "before, after = (given", "after, before = (given"),
    Bug("scale of the first channel", BYTE, "* before / after", "* before.flat[0] / after"),
    Bug("axis assumed last", BYTE, '(x,), axis = inputs, step.steps[0].attributes["axis"]', "(x,), axis = inputs, -1"),  # noqa: E501
    Bug("exponent overflows", BYTE, "x - np.max(x, axis, keepdims=True)", "x"),
    Bug("pool padded with zero", BYTE, "constant_values=-np.inf", "constant_values=0"),
    Bug("pool of a mean", BYTE, "np.max(windows", "np.mean(windows"),
]  # fmt: skip

IN_C = [
    Bug("C writes its input", C, "y[i] = x", "((float *)x)[i] += 1, y[i] = x", "B383"),
    Bug("C keeps a count", C, "    return 0;", "static int n; y[0] += n++; return 0;", "B384"),
    # what is not written holds what was there: another run may see other numbers
    Bug("last of four lost", C, "i < {count}; i++", "i < {count} / 4 * 4; i++", "B380 or B384"),
    Bug("project of other code", C, "    def define(", """    def device(self, blobs):
        made = super().device(blobs)
        return type(made)(made.functions, made.source.replace(b" ? ", b" ? -"), made.files)

    def load(self, blobs):  # by the right code: projects alone are wrong
        right = {"device": CTarget.device, "load": CTarget.load}
        return type("Right", (Leaky,), right)().load(blobs)

    def define(""", "B386"),
]  # fmt: skip

BUGS = [*CONVOLUTIONS, *CONDUCT, *TILES, *BYTES, *IN_C]
