"""These are the data of the protocol and their bytes: requests, responses, events, records and history. The package
imports nothing of ours."""
