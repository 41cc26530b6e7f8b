"""The dashboard: what happened in every group, to look at in a browser; live, or as one file.

It reads the history topic or what a replay wrote, never the coordinator. `server` shows a source (of `sources` or
`kafka_source`), `report` writes the same pages into one HTML file. `documents` answers the API.
"""
