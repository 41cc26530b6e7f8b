"""Where it runs: Spark, the topics, the ticker, the sink, batch replay, and the embedded Kafka."""
