"""The coordinator as a service: everything around the core and its stream job."""
