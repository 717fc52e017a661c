"""The code that comes from outside: files and classes of vendors, calls of them, engines. It
imports no compiler, so that packages run without one."""
