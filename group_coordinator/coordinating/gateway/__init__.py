"""The Kafka wire protocol: unmodified clients in, events out; answers back in the order of their requests."""
