"""What is said: requests, responses, events, records and history; data and their bytes. Imports nothing of ours."""
