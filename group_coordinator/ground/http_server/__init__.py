"""The HTTP server of the dashboard, and of metrics and health: who may look (`access`), and the server (`server`)."""
