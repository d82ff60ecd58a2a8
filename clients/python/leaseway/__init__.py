"""Leaseway's client and worker: `Client` posts and watches, `Worker` works, `errors` says what went wrong."""

from leaseway.asking import Reason, Why
from leaseway.attempt import Attempt, ThreadAttempt
from leaseway.client import Client
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
    WrongShape,
)
from leaseway.job import Job
from leaseway.posting import Options, Post
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
    "Options",
    "Permanent",
    "Post",
    "PostUnknown",
    "Reason",
    "Rejected",
    "Release",
    "Retry",
    "ThreadAttempt",
    "Unauthorized",
    "UnknownItem",
    "View",
    "Why",
    "Worker",
    "WrongShape",
]
