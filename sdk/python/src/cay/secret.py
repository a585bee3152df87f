"""Credentials that a sandbox can use and not see. The daemon cannot put them into requests yet: a sandbox that is asked for
with secrets is refused before anything is made, with ``UnsupportedError(operation="secrets")``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Optional, TypedDict, Union

from cay.enums import ViolationAction, checked
from cay.errors import InvalidConfigError

PLACEHOLDER_MAX = 1024


@dataclass(frozen=True)
class SecretInjection:
    """Where in a request a placeholder becomes the value."""

    headers: bool = True
    basic_auth: bool = True
    query_params: bool = False
    body: bool = False


@dataclass(frozen=True)
class ViolationPolicy:
    """What happens when a placeholder goes to a host that may not have the value."""

    fallback: ViolationAction = ViolationAction.BLOCK_AND_LOG
    passthrough_hosts: tuple[str, ...] = ()
    passthrough_host_patterns: tuple[str, ...] = ()
    passthrough_all_hosts: bool = False

    @classmethod
    def block(cls) -> ViolationPolicy:
        return cls(ViolationAction.BLOCK)

    @classmethod
    def block_and_log(cls) -> ViolationPolicy:
        return cls(ViolationAction.BLOCK_AND_LOG)

    @classmethod
    def block_and_terminate(cls) -> ViolationPolicy:
        return cls(ViolationAction.BLOCK_AND_TERMINATE)

    @classmethod
    def passthrough(
        cls, *, hosts: Iterable[str] = (), host_patterns: Iterable[str] = (), all_hosts: bool = False
    ) -> ViolationPolicy:
        return cls(ViolationAction.BLOCK_AND_LOG, tuple(hosts), tuple(host_patterns), all_hosts)


@dataclass(frozen=True)
class SecretEntry:
    """One secret; made by :meth:`Secret.env`, which checks it. The value is in no text of it."""

    env_var: str
    value: str = field(repr=False)
    allow_hosts: tuple[str, ...] = ()
    allow_host_patterns: tuple[str, ...] = ()
    placeholder: Optional[str] = None
    require_tls: bool = True
    on_violation: Union[ViolationAction, ViolationPolicy] = ViolationAction.BLOCK_AND_LOG
    injection: SecretInjection = field(default_factory=SecretInjection)


class SecretModifySpec(TypedDict, total=False):
    """What :meth:`Sandbox.modify` changes of a secret: exactly one of ``env``, ``value`` and ``store``."""

    env: str
    value: str
    store: str
    placeholder: str
    allowed_hosts: list[str]


class Secret:
    """Makes secrets."""

    @staticmethod
    def env(
        env_var: str,
        *,
        value: str,
        allow_hosts: Iterable[str] = (),
        allow_host_patterns: Iterable[str] = (),
        placeholder: Optional[str] = None,
        require_tls: bool = True,
        on_violation: Union[ViolationAction, ViolationPolicy] = ViolationAction.BLOCK_AND_LOG,
        injection: Optional[SecretInjection] = None,
    ) -> SecretEntry:
        """The variable *env_var* holds a placeholder in the sandbox, which becomes *value* on the way to *allow_hosts*."""
        hosts, patterns = tuple(allow_hosts), tuple(allow_host_patterns)
        if not env_var or "=" in env_var or "\0" in env_var:
            raise InvalidConfigError(f"{env_var!r} is no name of a variable")
        if not hosts and not patterns:
            raise InvalidConfigError(f"the secret {env_var} may go to no host: allow_hosts is empty")
        if not isinstance(on_violation, ViolationPolicy):
            checked(on_violation, ViolationAction, "on_violation")
        word = f"$MSB_{env_var}" if placeholder is None else placeholder
        if not word or len(word.encode()) > PLACEHOLDER_MAX or any(c in word for c in "\0\r\n"):
            raise InvalidConfigError(f"the placeholder of {env_var} must be one line of 1 to {PLACEHOLDER_MAX} bytes")
        return SecretEntry(
            env_var, value, hosts, patterns, word, require_tls, on_violation, injection or SecretInjection()
        )
