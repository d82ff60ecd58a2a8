"""`leaseway top`: the queues of a server, live."""
