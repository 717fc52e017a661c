"""What the tests of a target import: random programs and mutations of them, onnx's own tests.

Strategies need Hypothesis (the extra `byocir[test]`), which is imported when one is made. Every
generator also works without it, from a seed: it draws integers from a `Choose`.
"""
