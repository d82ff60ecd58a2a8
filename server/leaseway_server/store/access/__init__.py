"""The store of who may do what: one small file beside those of the queues."""

from leaseway_server.store.access.store import AccessStore

__all__ = ["AccessStore"]
