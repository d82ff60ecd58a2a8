"""The errors of the notification pipeline: one tree.

    NotifyError
    ├── Refused              what was said cannot be taken; nothing was changed
    │   ├── UnknownRecipient     no profile has this id
    │   └── UnknownType          no policy is registered for this type
    ├── StoreRefused         the store cannot be opened: it says what, where and what to do
    └── StoreAway            the store could not be asked, or its answer did not come; the same call is good later
        └── StoreBusy            others held what was needed for too long

No error holds a password or what a notification says.
"""


class NotifyError(Exception):
    """Whatever this package raises by itself."""


class Refused(NotifyError):
    """What was said cannot be taken, and nothing was changed. `path` names the member, with dots; "" is the whole."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


class UnknownRecipient(Refused):
    """Nobody of this id has a profile."""

    def __init__(self, recipient: str) -> None:
        super().__init__("recipient", f"there is no profile of {recipient!r}; save one before it is notified")


class UnknownType(Refused):
    """No policy says what becomes of events of this type."""


class StoreRefused(NotifyError):
    """The store cannot be opened or is not one of ours."""


class StoreAway(NotifyError):
    """The store could not be asked, or its answer did not come. What was asked may be asked again."""


class StoreBusy(StoreAway):
    """Others held what was needed for too long."""
