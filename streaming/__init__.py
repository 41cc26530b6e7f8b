"""The coordinator runs here on Spark: topics, ticker, sink and batch replay."""
