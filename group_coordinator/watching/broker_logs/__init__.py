"""Lines of a broker's own log, and what they say of groups."""
