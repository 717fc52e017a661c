"""Transforms of signals, and the windows for them."""

from __future__ import annotations

from onnx_fuzz.draft import Draft, Unfit
from onnx_fuzz.rules.movement import drawn_dtype
from onnx_fuzz.rules.registry import rule


@rule("HannWindow", "HammingWindow", "BlackmanWindow")
def window(d: Draft) -> None:
    d.say("size", d.draws.upto(12), d.bind("size"))
    d.attr("periodic", d.draws.upto(1, 0), 1)
    drawn_dtype(d, "output_datatype", optional=True)


@rule("MelWeightMatrix")
def mel(d: Draft) -> None:
    kind = d.bind("num_mel_bins")
    for name, number in (
        ("num_mel_bins", 4),
        ("dft_length", d.draws.one([8, 16])),
        ("sample_rate", 4000),
    ):
        d.say(name, number, kind)
    for name, number in (
        ("lower_edge_hertz", 0.0),
        ("upper_edge_hertz", d.draws.one([1000.0, 1999.0])),
    ):
        d.say(name, number, d.bind("lower_edge_hertz"))
    drawn_dtype(d, "output_datatype", optional=True)


@rule("DFT")
def dft(d: Draft) -> None:
    inverse = d.attr("inverse", d.draws.upto(1, 0), 0)
    parts = 2 if inverse or d.maybe() else 1
    shape = [*(d.draws.upto(6) for _ in range(d.draws.upto(3))), parts]
    if len(shape) < 3:
        shape = [1, *shape]
    d.take("input", shape=shape)
    onesided = d.attr("onesided", int(parts == 1 and d.maybe()), 0)
    del onesided
    axis = d.draws.upto(len(shape) - 2)
    if d.maybe():
        d.say("dft_length", d.draws.upto(7), d.bind("dft_length"))
    if d.has_input("axis") or not d.has("axis"):
        if d.maybe(0.7):
            d.say("axis", axis - len(shape) if d.maybe() else axis)
    else:
        d.attributes["axis"] = axis


@rule("STFT")
def stft(d: Draft) -> None:
    length, frame = d.draws.upto(20, 8), d.draws.upto(8, 2)
    x = d.take("signal", shape=[d.draws.upto(2), length, 1])
    kind = d.bind("frame_step")
    d.say("frame_step", d.draws.upto(4), kind)
    if d.maybe():
        d.put("window", d.draws.array(x.dtype, (frame,), 0, 1), 0.9)
    if not d.maybe(0.3) or not d.has_operand("window"):
        d.say("frame_length", frame, kind)
    d.attr("onesided", d.draws.upto(1, 0), 1)
    if frame > length:
        raise Unfit
