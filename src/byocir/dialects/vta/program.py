"""Defines the encoded form of a function, which a package carries and the simulator runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    IntAttr,
    IntegerAttr,
    LocationAttr,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    i64,
)
from xdsl.dialects.builtin import ArrayAttr as ListAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface

from byocir.dialects.array import Array, ArrayAttr
from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.dialects.vta_config import config_of
from byocir.vta_sim import Port, VTAConfig
from byocir.vta_sim.isa import INSN_BYTES


@irdl_attr_definition
class PortAttr(ParametrizedAttribute):
    """Gives the place of an input or output in DRAM: byte address and type, e.g. `#vta.port<4096,
    memref<1x4x14x14x16xi8>>`."""

    name = "vta.port"

    address: IntAttr
    type: MemRefType

    @staticmethod
    def of(address: int, type_: MemRefType) -> PortAttr:
        return PortAttr(IntAttr(address), type_)

    @property
    def place(self) -> Port:
        """Gives the port's address, shape and dtype as the simulator takes them."""
        return Port(self.address.data, shape_of(self.type), dtype_of(element_type_of(self.type)))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            address = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")
            type_ = parser.parse_type()
        if not isinstance(type_, MemRefType):
            parser.raise_error("expected a memref type")
        return [IntAttr(address), cast(Attribute, type_)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.address.data}, ")
            printer.print_attribute(self.type)


@irdl_attr_definition
class SpanAttr(ParametrizedAttribute):
    """Says how many consecutive instructions come from the same nodes, and names the nodes, e.g.
    `#vta.span<12, "Conv_3", "Relu_4">`.
    """

    name = "vta.span"

    count: IntAttr
    nodes: ListAttr[StringAttr]

    @staticmethod
    def of(count: int, nodes: Sequence[str]) -> SpanAttr:
        return SpanAttr(IntAttr(count), ListAttr([StringAttr(node) for node in nodes]))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(node.data for node in self.nodes)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        nodes: list[StringAttr] = []
        with parser.in_angle_brackets():
            count = parser.parse_integer(allow_boolean=False, allow_negative=False)
            while parser.parse_optional_punctuation(",") is not None:
                nodes.append(StringAttr(parser.parse_str_literal()))
        return [IntAttr(count), ListAttr(nodes)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.count.data))
            for node in self.nodes:
                printer.print_string(", ")
                printer.print_attribute(node)


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """Holds a function as bytes: instructions and the DRAM they run on, e.g.

    ```mlir
    vta.program @vta_0 insns <"…" : tensor<40x16xui8>>
        image <"…" : tensor<9216xui8>> dram 20480
        inputs [#vta.port<12288, memref<1x1x4x4x16xi8>>]
        outputs [#vta.port<16384, memref<1x1x4x4x16xi8>>]
        spans [#vta.span<40, "Conv_0">] attributes {byoc.target = #byoc.target<"vta", {}>}
    ```

    `image` is the start of DRAM, with constants and micro-ops at their addresses; the rest of the
    `dram` bytes is not read before it is written. `spans` cover the instructions in order. `tiles`,
    if there, has the indices of the loops that each instruction was made in, -1 past them.
    """

    name = "vta.program"

    sym_name = prop_def(SymbolNameConstraint())
    insns = prop_def(ArrayAttr)
    image = prop_def(ArrayAttr)
    dram = prop_def(IntegerAttr.constr(i64))
    inputs = prop_def(ListAttr[PortAttr])
    outputs = prop_def(ListAttr[PortAttr])
    spans = prop_def(ListAttr[SpanAttr])
    tiles = opt_prop_def(ArrayAttr)
    traits = traits_def(SymbolOpInterface())
    assembly_format = (
        "$sym_name `insns` $insns `image` $image `dram` $dram `inputs` $inputs `outputs` $outputs "
        "`spans` $spans (`tiles` $tiles^)? attr-dict-with-keyword"
    )

    @staticmethod
    def of(
        name: str,
        insns: np.ndarray,
        image: np.ndarray,
        dram: int,
        inputs: Sequence[PortAttr],
        outputs: Sequence[PortAttr],
        spans: Sequence[SpanAttr],
        tiles: np.ndarray,
        attributes: dict[str, Attribute],
        location: LocationAttr = UNKNOWN_LOC,
    ) -> ProgramOp:
        """Makes the op from uint8 [N, 16] instructions, a uint8 [B] image, B <= dram, and int32 [N,
        R] tiles.
        """
        known = {"tiles": ArrayAttr(Array.of(tiles))} if tiles.size else {}
        return ProgramOp.create(
            properties={
                **known,
                "sym_name": StringAttr(name),
                "insns": ArrayAttr(Array.of(insns)),
                "image": ArrayAttr(Array.of(image)),
                "dram": IntegerAttr(dram, i64),
                "inputs": ListAttr(list(inputs)),
                "outputs": ListAttr(list(outputs)),
                "spans": ListAttr(list(spans)),
            },
            attributes=attributes,
            location=location,
        )

    @property
    def config(self) -> VTAConfig:
        return config_of(self)

    def verify_(self) -> None:
        insns, image = self.insns.data, self.image.data
        byte = np.dtype(np.uint8)
        expect(
            insns.dtype == byte and len(insns.shape) == 2 and insns.shape[1] == INSN_BYTES,
            f"expected instructions as tensor<Nx{INSN_BYTES}xui8>, found {insns.type}",
        )
        expect(
            image.dtype == byte and len(image.shape) == 1,
            f"expected the image as tensor<Bxui8>, found {image.type}",
        )
        dram = self.dram.value.data
        expect(image.size <= dram, f"expected an image of at most {dram} bytes, found {image.size}")
        for port in (*self.inputs, *self.outputs):
            end = port.place.bytes.stop
            expect(end <= dram, f"expected a port within {dram} bytes, found its end at {end}")
        covered = sum(span.count.data for span in self.spans)
        found = insns.shape[0]
        expect(covered == found, f"expected spans over {found} instructions, found {covered}")
        if self.tiles is not None:
            tiles = self.tiles.data
            expect(
                tiles.dtype == np.dtype(np.int32)
                and len(tiles.shape) == 2
                and tiles.shape[0] == found,
                f"expected tiles as tensor<{found}xRxi32>, found {tiles.type}",
            )
