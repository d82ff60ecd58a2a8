"""The store of who may do what: tokens and tickets, with a file of its own or in the queues' database."""

from leaseway_server.store.access.base import AccessStore
from leaseway_server.store.access.sqlite import SqliteAccess

__all__ = ["AccessStore", "SqliteAccess"]
