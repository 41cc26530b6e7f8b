"""What all houses stand on: readers of Kafka, settings, the HTTP server, metrics and health of a process."""
