"""Leaseway's notifications: an event is planned at once, in the caller's process, and delivered by workers of a queue.

Nothing is imported here, so that what is pure (`leaseway_notify.plan`) needs none of what sends.
"""
