"""What is easily done wrong is answered with what to do."""

from __future__ import annotations

import uuid
from typing import Any, Callable

import pytest

import cay
import cay.sync
from cay.errors import from_answer


def test_a_call_that_is_not_awaited_says_so() -> None:
    pending: Any = cay.Sandbox.create("never")
    with pytest.raises(AttributeError, match="write `await`"):
        pending.exec("true")
    with pytest.raises(TypeError, match="`async with`"), pending:
        pass


@pytest.mark.parametrize("timeout", ["5m", 0, -1])
def test_a_timeout_is_a_number_of_seconds(run: Callable[[Any], Any], box: cay.sync.Sandbox, timeout: Any) -> None:
    with pytest.raises(cay.InvalidConfigError, match="number of seconds"):
        box.exec("true", timeout=timeout)
    with pytest.raises(cay.InvalidConfigError, match="number of seconds"):
        cay.sync.Sandbox.create(timeout=timeout)


def test_a_name_that_is_taken_can_be_taken_over(daemon: cay.sync.Client) -> None:
    name = f"taken-{uuid.uuid4().hex}"
    with (
        cay.sync.Sandbox.create(name, client=daemon),
        pytest.raises(cay.SandboxAlreadyExistsError, match="replace=True"),
    ):
        cay.sync.Sandbox.create(name, client=daemon)


@pytest.mark.parametrize("status, code", [(401, "unauthorized"), (403, "invalid_token")])
def test_who_has_no_token_is_told_where_to_give_it(status: int, code: str) -> None:
    assert "CAY_TOKEN" in str(from_answer(status, {"error": "no", "code": code}))


def test_limits_are_limits(box: cay.sync.Sandbox) -> None:
    wrong: Any = {"nofile": 1024}
    with pytest.raises(TypeError, match="a list of Rlimit"):
        box.exec("true", rlimits=wrong)


def test_what_is_listed_can_be_read(daemon: cay.sync.Client) -> None:
    name = f"listed-{uuid.uuid4().hex}"
    with cay.sync.Sandbox.create(name, client=daemon):
        assert name in repr(cay.sync.Sandbox.list(client=daemon))
