"""Recordings of other coordinators, Kafka's request logs and recorded histories, are imported as events and compared.
"""
