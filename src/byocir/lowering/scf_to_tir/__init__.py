"""Loops of scf, affine and memref up to the tensor level."""

from byocir.lowering.scf_to_tir.raise_pass import RaiseScfToTirPass

__all__ = ["RaiseScfToTirPass"]
