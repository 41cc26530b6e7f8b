"""What the coordinator is held against: recordings of others, other settings, a broker on this machine."""
