"""Tunings make Spark and Hadoop cheaper by reaching into their inside: each has a switch, a reason and a fallback."""
