"""One family of errors for users: each says what is wrong, why, and what to try."""

from typing import ClassVar


class SundaeError(Exception):
    """An error that the user can mend; `exit_code` is what the command line returns for it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, why: str = "", hint: str = "") -> None:
        self.what, self.why, self.hint = what, why, hint
        super().__init__(self.line())

    def line(self) -> str:
        """The whole error as one line for a terminal."""
        because = f": {self.why}" if self.why else ""
        advice = f" (try: {self.hint})" if self.hint else ""
        return " ".join(f"{self.what}{because}{advice}".split())


class UsageError(SundaeError):
    """A wrong flag, preset, key or value."""

    exit_code = 2


class DataError(SundaeError):
    """A file, corpus or checkpoint that cannot be used."""

    exit_code = 3


class CapabilityError(SundaeError):
    """Something that this machine or installation cannot do."""

    exit_code = 4
