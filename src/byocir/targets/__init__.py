"""Holds the base class of targets, and the targets that byocir itself brings."""
