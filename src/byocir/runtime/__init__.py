"""The results of a compilation: the package, its file, its report, and running it."""
