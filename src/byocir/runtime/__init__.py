"""Holds the results of a compilation: the package, its file, its report, and what runs it."""
