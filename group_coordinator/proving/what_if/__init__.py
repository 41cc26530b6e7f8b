"""A recorded log under other settings: what its group would have done."""
