"""Lowers functions on tensors to C99: buffers, one arena, loops."""

from byocir.lowering.tir_to_c.source import HostCode, emit_host

__all__ = ["HostCode", "emit_host"]
