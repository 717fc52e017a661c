"""The table: what is known to differ, by operator.

A row is no excuse for a bug of ours: the standard says what byocir gives, or says nothing.
`docs/differences.md` is made from these rows, and a test shows each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from byocir.frontend.onnx.differences import conditions as on
from byocir.frontend.onnx.differences.conditions import Condition

Reference = Literal["onnxruntime", "reference"]
"""Who is compared with: ONNX Runtime without graph optimisations, or onnx's reference evaluator."""

SILENT = "the standard is silent"


@dataclass(frozen=True)
class Difference:
    """A row: where byocir and others give different results, what each gives, and who is right.
    `onnxruntime` or `reference` is empty where that one gives what byocir does."""

    name: str
    operators: tuple[str, ...]
    when: str
    holds: Condition
    byocir: str
    why: str
    onnxruntime: str = ""
    reference: str = ""


TABLE = (
    # -- windows
    Difference(
        "same-dilated",
        ("MaxPool", "AveragePool", "LpPool"),
        "`auto_pad` SAME with `dilations` over 1",
        on.is_same_dilated,
        "pads for the whole reach of a window: one result for each stride",
        "the standard counts the reach, (kernel - 1) * dilation + 1",
        onnxruntime="pads for the kernel alone: fewer results",
        reference="pads for the kernel alone, or as for SAME_UPPER, or refuses",
    ),
    Difference(
        "same-lower",
        ("MaxPool",),
        "`auto_pad` SAME_LOWER with an odd number of pads along one spatial dimension",
        on.is_same_lower_odd,
        "pads more in front",
        "the standard says so",
        reference="pads more behind",
    ),
    Difference(
        "same-sparse",
        ("MaxPool", "AveragePool", "LpPool"),
        "`auto_pad` SAME where strides leave elements out",
        on.is_same_sparse,
        "pads nothing: windows begin at the first element",
        f"{SILENT} on pads below zero",
        onnxruntime="crops the input, or refuses",
        reference="crops the input, or refuses",
    ),
    Difference(
        "conv-same-sparse",
        ("Conv",),
        "`auto_pad` SAME where strides leave elements out",
        on.is_same_sparse,
        "pads nothing: windows begin at the first element",
        f"{SILENT} on pads below zero; onnx's reference does so, too",
        onnxruntime="SAME_UPPER crops the input",
    ),
    Difference(
        "max-of-padding",
        ("MaxPool",),
        "a window lies in padding alone",
        on.has_window_of_padding,
        "-infinity, or the least integer",
        SILENT,
        onnxruntime="the lowest finite number",
        reference="NaN, or refuses",
    ),
    Difference(
        "mean-of-padding",
        ("AveragePool",),
        "a window lies in padding alone, which is not counted",
        on.both(on.counts_no_pads, on.has_window_of_padding),
        "NaN: the mean of nothing",
        f"{SILENT}; onnx's reference does so, too",
        onnxruntime="0",
    ),
    Difference(
        "max-pool-of-infinities",
        ("MaxPool",),
        "a window holds -infinity alone",
        on.has_window_of_least,
        "-infinity",
        "the greatest value of the window is -infinity",
        onnxruntime="the lowest finite number",
    ),
    Difference(
        "max-pool-nan",
        ("MaxPool",),
        "a NaN in the input",
        on.has_nan,
        "NaN for each window that holds one",
        f"{SILENT}; all have NaN for Max",
        onnxruntime="by place: NaN never compares as greater",
        reference="takes NaN for padding",
    ),
    Difference(
        "global-max-pool-nan",
        ("GlobalMaxPool",),
        "a NaN in the input",
        on.has_nan,
        "NaN",
        f"{SILENT}; all have NaN for Max",
        onnxruntime="by place: NaN never compares as greater",
    ),
    Difference(
        "pool-nan",
        ("AveragePool", "LpPool"),
        "a NaN in the input",
        on.has_nan,
        "NaN for each window that holds one",
        "the sum of a NaN is one; as ONNX Runtime has it",
        reference="takes NaN for padding",
    ),
    Difference(
        "lp-pool-ceil",
        ("LpPool",),
        "`ceil_mode` adds a window that ends outside",
        on.rounds_up,
        "pads count as zeros",
        "as ONNX Runtime has it",
        reference="scales the last norm up by the part outside",
    ),
    Difference(
        "conv-transpose-groups",
        ("ConvTranspose",),
        "`group` over 1",
        on.is_grouped,
        "group by group",
        "as ONNX Runtime has it",
        reference="refuses all but one input and output channel for each group",
    ),
    Difference(
        "conv-transpose-same",
        ("ConvTranspose",),
        "`auto_pad` SAME where the kernel does not reach the next stride",
        on.is_same_short,
        "pads nothing: the result ends with the last kernel",
        f"{SILENT} on pads below zero; ONNX's inference and ONNX Runtime do so, too",
        reference="adds zeros up to size * stride",
    ),
    Difference(
        "max-unpool-output-shape",
        ("MaxUnpool",),
        "`output_shape` is given",
        on.is_given(2),
        "indices count in the given shape",
        "onnx's reference and its own test cases say so",
        onnxruntime="indices count in the shape that the strides give",
    ),
    # -- normalisation
    Difference(
        "lrn-channels",
        ("LRN",),
        "more channels than images",
        on.has_more_channels_than_images,
        "all channels are normalised",
        "the standard's formula; ONNX Runtime does so, too",
        reference="as many channels as there are images",
    ),
    Difference(
        "lrn-not-finite",
        ("LRN",),
        "a NaN or an infinity in the input",
        on.is_not_finite,
        "spreads to the channels in reach",
        "the standard's formula",
        onnxruntime="spreads to all channels behind: sums are kept from one to the next",
    ),
    Difference(
        "normalised-infinities",
        ("BatchNormalization", "LayerNormalization"),
        "an infinity in the inputs",
        on.is_infinite,
        "subtracts, then divides, then scales; the mean is infinite",
        f"{SILENT} on infinities",
        onnxruntime="scales before it subtracts: NaN where infinities meet; the mean NaN by place",
    ),
    Difference(
        "lp-normalization-signs",
        ("LpNormalization",),
        "`p` is 1, with numbers below zero",
        on.has_signs_to_drop,
        "divides by the sum of absolute values",
        "the standard's formula; ONNX Runtime does so, too",
        reference="divides by the sum of the numbers",
    ),
    Difference(
        "flat-variance",
        ("MeanVarianceNormalization",),
        "the input does not vary",
        on.always,
        "0",
        "the standard's function adds an epsilon of 1e-9",
        onnxruntime="NaN: divides by the spread alone",
    ),
    # -- choosing
    Difference(
        "argmax-nan",
        ("ArgMax", "ArgMin", "Hardmax"),
        "a NaN in the input",
        on.has_nan,
        "NaN is chosen",
        f"{SILENT}; onnx's reference does so, too",
        onnxruntime="depends on where the NaN stands: it never compares as greater or less",
    ),
    Difference(
        "reduce-extremes-nan",
        ("ReduceMax", "ReduceMin"),
        "a NaN in the input",
        on.has_nan,
        "NaN",
        f"{SILENT}; onnx's reference, Max and Min do so, too",
        onnxruntime="the extreme of the others, or NaN, by place",
    ),
    Difference(
        "scatter-extremes-nan",
        ("ScatterElements", "ScatterND"),
        "`reduction` max or min, and a NaN",
        on.both(on.takes_extremes, on.has_nan),
        "what onnx's reference gives: ScatterND NaN, ScatterElements by place",
        SILENT,
        onnxruntime="what is compared last, by place",
    ),
    Difference(
        "top-k-unsorted",
        ("TopK",),
        "`sorted` is 0",
        on.is_unsorted,
        "sorted all the same",
        "the standard leaves the order open",
        onnxruntime="an order of its own",
    ),
    Difference(
        "unique-nan",
        ("Unique",),
        "a NaN in the input",
        on.has_nan,
        "NaN is one value, and the last",
        f"{SILENT}; onnx's reference does so, too",
        onnxruntime="NaN swallows what it is compared with",
    ),
    # -- movement
    Difference(
        "slice-greatest-end",
        ("Slice",),
        "a negative step, and 2^31-1 or 2^63-1 as an end",
        on.ends_at_greatest,
        "nothing: the end is clamped to the last element",
        "the standard clamps ends to [-1, size - 1] for negative steps, and has -2^63 for all",
        onnxruntime="all down to the first element",
    ),
    Difference(
        "resize-integers",
        ("Resize", "Upsample"),
        "integers with `mode` linear",
        on.is_linear_of_integers,
        "rounds to the nearest, ties to even",
        f"{SILENT}; onnx's reference rounds, too",
        onnxruntime="cuts the fraction off",
    ),
    Difference(
        "resize-corners",
        ("Resize",),
        "`align_corners` with scales that give no whole size",
        on.has_corners_between,
        "the corner lies at size * scale - 1",
        "onnx's test cases and its reference say so",
        onnxruntime="the corner is the last element of the result",
    ),
    Difference(
        "resize-not-finite",
        ("Resize",),
        "a NaN or an infinity among elements that are interpolated",
        on.interpolates_not_finite,
        "as onnx's reference",
        SILENT,
        onnxruntime="NaN in other places: elements of weight 0 count",
    ),
    Difference(
        "places-not-finite",
        ("Det", "GridSample"),
        "a NaN or an infinity in the inputs",
        on.is_not_finite,
        "what onnx's reference gives, by place, or refuses",
        SILENT,
        onnxruntime="by place: takes NaN for the first element, say",
    ),
    # -- reductions
    Difference(
        "mean-of-nothing",
        ("ReduceMean",),
        "no elements",
        on.has_nothing,
        "0",
        f"{SILENT}; ONNX Runtime has 0, too",
        reference="NaN",
    ),
    Difference(
        "log-sum-exp-infinities",
        ("ReduceLogSumExp",),
        "an infinity in the input",
        on.is_infinite,
        "the limit: -infinity for nothing but -infinity",
        "as ONNX Runtime has it; onnx's reference where the axes are not known at import",
        onnxruntime="the limit",
        reference="NaN: subtracts the greatest value",
    ),
    Difference(
        "fourier-not-finite",
        ("DFT", "STFT"),
        "a NaN or an infinity in the input",
        on.is_not_finite,
        "what numpy's transform gives, by place",
        SILENT,
        onnxruntime="NaN in more places",
    ),
    # -- recurrent
    Difference(
        "recurrent-not-finite",
        ("LSTM", "GRU", "RNN"),
        "a NaN or an infinity in the inputs",
        on.is_not_finite,
        "spreads as the formulas say",
        "the standard's formulas",
        onnxruntime="clamps the arguments of activations, and skips products with no state",
    ),
    Difference(
        "attention-mask",
        ("Attention",),
        "`qk_matmul_output` once masked (mode 2)",
        on.shows_masked_scores,
        "-infinity",
        "onnx's test cases say so",
        onnxruntime="the lowest finite number",
    ),
    # -- numbers
    Difference(
        "clip-open-bound",
        ("Clip",),
        "an infinity, and a bound that is not given",
        on.both(on.has_open_bound, on.is_infinite),
        "infinity stays: there is no bound",
        "as onnx's reference has it",
        onnxruntime="the greatest or lowest finite number",
    ),
    Difference(
        "cast-beyond",
        ("Cast", "CastLike"),
        "floats that the integer type does not hold",
        on.casts_beyond,
        "saturates, NaN is 0",
        "the standard leaves it undefined",
        onnxruntime="what the processor's instruction gives",
        reference="what the processor's instruction gives",
    ),
    Difference(
        "power-beyond",
        ("Pow",),
        "an integer to a power that its type does not hold, or a negative one",
        on.raises_beyond,
        "integers: exact, modulo 2^bits, cut towards 0; by floats: saturates",
        SILENT,
        onnxruntime="computes in f64, and gives what the processor's cast does",
        reference="the same by floats; refuses negative integers",
    ),
    Difference(
        "quantize-beyond",
        ("QuantizeLinear",),
        "quotients that 32 bits do not hold, infinities, NaN",
        on.quantises_beyond,
        "saturates, NaN is the least number",
        "as ONNX Runtime has it: the standard saturates",
        reference="the least number, by a cast to 32 bits",
    ),
    Difference(
        "dynamic-quantize-not-finite",
        ("DynamicQuantizeLinear",),
        "a NaN or an infinity in the input",
        on.is_not_finite,
        "a scale that is not finite, all values 0",
        SILENT,
        onnxruntime="of NaN a scale of the others; of -infinity a zero point of 255",
        reference="a zero point of 255",
    ),
    Difference(
        "matmul-scale-nan",
        ("QLinearMatMul",),
        "a scale that is NaN",
        on.has_nan,
        "the least number",
        "as ONNX Runtime has it",
        reference="0",
    ),
)
