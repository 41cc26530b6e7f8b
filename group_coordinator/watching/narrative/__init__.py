"""History told: a sentence for each record, rebalances put together, what led to them step by step. Pure."""
