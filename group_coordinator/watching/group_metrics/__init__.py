"""Metrics that are counted from the history of groups."""
