"""Offsets in transactions: a log on the producers' cluster, and the relay that makes events of it."""
