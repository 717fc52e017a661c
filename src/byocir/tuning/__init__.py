"""Tunes: tries schedules of composites and keeps the best."""
