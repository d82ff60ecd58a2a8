"""Leaseway's client and worker: `Client` posts and watches, `Worker` works, `errors` says what went wrong."""

from leaseway.attempt import Attempt, ThreadAttempt
from leaseway.client import Client, Job
from leaseway.errors import (
    AccessRefused,
    Cancelled,
    ConnectionLost,
    Dead,
    Expired,
    Failed,
    Forbidden,
    HandlerDied,
    LeaseLost,
    LeasewayError,
    NoSuchQueue,
    NotFinished,
    Permanent,
    PostUnknown,
    Rejected,
    Release,
    Retry,
    Unauthorized,
    UnknownItem,
)
from leaseway.protocol import View
from leaseway.worker import Worker

__all__ = [
    "AccessRefused",
    "Attempt",
    "Cancelled",
    "Client",
    "ConnectionLost",
    "Dead",
    "Expired",
    "Failed",
    "Forbidden",
    "HandlerDied",
    "Job",
    "LeaseLost",
    "LeasewayError",
    "NoSuchQueue",
    "NotFinished",
    "Permanent",
    "PostUnknown",
    "Rejected",
    "Release",
    "Retry",
    "ThreadAttempt",
    "Unauthorized",
    "UnknownItem",
    "View",
    "Worker",
]
