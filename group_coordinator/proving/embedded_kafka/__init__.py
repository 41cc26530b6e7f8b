"""A real Kafka broker on this machine: for the demo, for tests, and for `run --embedded`."""
