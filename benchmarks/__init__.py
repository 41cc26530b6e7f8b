"""What it costs: each figure as a ratio taken in one run, since machines differ and are shared."""
