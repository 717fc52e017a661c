"""Tunes composites: tries schedules and keeps the best."""
