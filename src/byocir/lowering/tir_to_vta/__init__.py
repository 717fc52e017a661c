"""The passes that bring blocks to VTA, one per step, each leaving a program that can be evaluated.

In order: `vta-legalise`, `vta-pack`, `vta-bufferize`, `vta-tile`, `vta-stage`, `vta-tensorise`,
`vta-insert-tokens`, `vta-encode`. They act on the functions of targets whose `machine` is
"vta", whatever they are called, and leave everything else alone.
"""
