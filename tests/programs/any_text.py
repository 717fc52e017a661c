"""Letters for random texts."""

from hypothesis import strategies as st

LETTERS = st.characters(exclude_categories=["Cs"])
"""All letters but surrogates. `st.text()` draws the same ones, but first encodes each letter there
is, which takes every process that draws texts a second."""
