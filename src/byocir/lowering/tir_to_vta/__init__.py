"""From blocks to VTA: one pass per step, each leaving a program that can be evaluated.

In order: `vta-legalise`, `vta-pack`, `vta-bufferize`, `vta-tile`, `vta-stage`, `vta-tensorise`,
`vta-insert-tokens`, `vta-encode`. They act on the functions whose target is named "vta" and leave
everything else alone.
"""
