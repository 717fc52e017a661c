"""Rewrites of blocks in value form for processors: what their C code is then made of."""
