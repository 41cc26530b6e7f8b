"""The commands that need neither a coordinator nor Spark."""
