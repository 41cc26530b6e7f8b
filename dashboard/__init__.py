"""The dashboard: what happened in every group, to look at in a browser; live, or as one file.

It reads the history topic or what a replay wrote, never the coordinator. `serve` and `start_server` show it, `write_report`
writes the same pages into one HTML file.
"""
