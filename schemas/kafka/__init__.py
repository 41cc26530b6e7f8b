"""Kafka's messages and the records of `__consumer_offsets`, defined once: by Kafka's own JSON definitions."""
