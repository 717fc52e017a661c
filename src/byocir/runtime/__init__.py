"""What a compilation leaves behind: the package, its file, its report, and running it."""
