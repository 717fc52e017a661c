"""Converts the tensor level to loops of scf on memref and arith, for upstream MLIR."""

from byocir.lowering.tir_to_scf.convert import ConvertTirToScfPass

__all__ = ["ConvertTirToScfPass"]
