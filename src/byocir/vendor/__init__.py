"""Holds what comes from outside: files and classes of vendors, calls of their code, engines. It
imports no compiler, so that packages run without one.
"""
