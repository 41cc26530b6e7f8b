"""One file for each request type: its checks in Kafka's order, then what it does."""
