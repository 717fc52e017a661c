"""Targets: the base class and what byocir brings itself."""
