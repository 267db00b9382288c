"""The family of user errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundae.errors import CapabilityError, DataError, SundaeError, UsageError


@pytest.mark.parametrize(("kind", "code"), [(SundaeError, 1), (UsageError, 2), (DataError, 3), (CapabilityError, 4)])
def test_each_kind_has_its_exit_code_and_is_caught_as_one_family(kind: type[SundaeError], code: int) -> None:
    assert kind.exit_code == code
    with pytest.raises(SundaeError):
        raise kind("broken")


def test_the_line_says_what_then_why_then_what_to_try() -> None:
    error = UsageError("steps=-1", why="must not be negative", hint="--steps 10")
    assert error.line() == "steps=-1: must not be negative (try: --steps 10)"
    assert str(error) == error.line()
    assert (error.what, error.why, error.hint) == ("steps=-1", "must not be negative", "--steps 10")


def test_parts_that_are_not_given_leave_no_trace() -> None:
    assert DataError("no such file").line() == "no such file"
    assert DataError("no such file", hint="a.toml").line() == "no such file (try: a.toml)"
    assert DataError("no such file", why="it is gone").line() == "no such file: it is gone"


@given(what=st.text(), why=st.text(), hint=st.text())
def test_any_error_is_exactly_one_line(what: str, why: str, hint: str) -> None:
    assert len(UsageError(what, why=why, hint=hint).line().splitlines()) <= 1
