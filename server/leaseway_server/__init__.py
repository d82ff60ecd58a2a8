"""The Leaseway server."""
