"""The tables of a history, written and read by Spark."""
