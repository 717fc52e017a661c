"""Tuning: schedules of composites that are tried, and the best kept."""
