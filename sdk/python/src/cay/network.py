"""What a sandbox may reach, and who may reach it.

The types are turned into the daemon's ``NetworkPolicy`` (docs/network-policy.md). Its rules are read from the first to
the last, and what is general never reaches what is special: to allow everything is to allow public and private addresses,
never the host or a cloud's metadata service, which take a rule of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from cay.enums import (
    Action,
    DestGroup,
    Direction,
    NetworkDestinationKind,
    NetworkProfile,
    PortProtocol,
    Protocol,
    ViolationAction,
    VsockSocketType,
    checked,
)
from cay.errors import InvalidConfigError, UnsupportedError
from cay.secret import ViolationPolicy

DNS = "dns"  # a destination of the daemon's: to ask for names


@dataclass(frozen=True)
class NetworkDestination:
    """Where a rule leads to; made by :class:`Destination`."""

    kind: NetworkDestinationKind
    value: Optional[str] = None

    def to_wire(self) -> str:
        if self.kind is NetworkDestinationKind.ANY:
            return "*"
        if not self.value:
            raise InvalidConfigError(f"a destination of kind {self.kind} needs a value")
        if self.kind is NetworkDestinationKind.DOMAIN_SUFFIX:
            return "*." + self.value.removeprefix("*").removeprefix(".")
        return self.value


NetworkDestinationLike = Union[NetworkDestination, str, None]


class Destination:
    """Makes destinations of rules."""

    @staticmethod
    def any() -> NetworkDestination:
        return NetworkDestination(NetworkDestinationKind.ANY)

    @staticmethod
    def ip(ip: str) -> NetworkDestination:
        return NetworkDestination(NetworkDestinationKind.IP, ip)

    @staticmethod
    def cidr(cidr: str) -> NetworkDestination:
        return NetworkDestination(NetworkDestinationKind.CIDR, cidr)

    @staticmethod
    def domain(domain: str) -> NetworkDestination:
        return NetworkDestination(NetworkDestinationKind.DOMAIN, domain)

    @staticmethod
    def domain_suffix(suffix: str) -> NetworkDestination:
        """The name itself and all below it."""
        return NetworkDestination(NetworkDestinationKind.DOMAIN_SUFFIX, suffix)

    @staticmethod
    def group(group: DestGroup) -> NetworkDestination:
        return NetworkDestination(NetworkDestinationKind.GROUP, str(checked(group, DestGroup, "group")))


_PROTOCOLS = {Protocol.TCP: "tcp", Protocol.UDP: "udp", Protocol.ICMPV4: "icmp", Protocol.ICMPV6: "icmpv6"}


@dataclass(frozen=True)
class Rule:
    """One rule of a policy. ``port`` is a number or ``"8000-8100"``; no destination is any."""

    action: Action
    direction: Direction = Direction.EGRESS
    destination: NetworkDestinationLike = None
    protocol: Optional[Protocol] = None
    port: Union[int, str, None] = None

    def __post_init__(self) -> None:
        checked(self.action, Action, "action")
        checked(self.direction, Direction, "direction")
        if self.protocol is not None:
            checked(self.protocol, Protocol, "protocol")

    @classmethod
    def allow(
        cls,
        *,
        direction: Direction = Direction.EGRESS,
        protocol: Optional[Protocol] = None,
        port: Union[int, str, None] = None,
        destination: NetworkDestinationLike = None,
    ) -> Rule:
        return cls(Action.ALLOW, direction, destination, protocol, port)

    @classmethod
    def deny(
        cls,
        *,
        direction: Direction = Direction.EGRESS,
        protocol: Optional[Protocol] = None,
        port: Union[int, str, None] = None,
        destination: NetworkDestinationLike = None,
    ) -> Rule:
        return cls(Action.DENY, direction, destination, protocol, port)

    @classmethod
    def allow_dns(cls) -> tuple[Rule, Rule]:
        """Lets every name be asked for."""
        return cls._dns(Action.ALLOW)

    @classmethod
    def deny_dns(cls) -> tuple[Rule, Rule]:
        """Lets no name be asked for that no rule before it is about."""
        return cls._dns(Action.DENY)

    @classmethod
    def _dns(cls, action: Action) -> tuple[Rule, Rule]:
        return (
            cls(action, destination=DNS, protocol=Protocol.UDP, port=53),
            cls(action, destination=DNS, protocol=Protocol.TCP, port=53),
        )

    def to_wire(self) -> dict[str, Any]:
        where = self.destination
        wire: dict[str, Any] = {
            "action": str(self.action),
            "direction": str(self.direction),
            "destination": "*" if where is None else where if isinstance(where, str) else where.to_wire(),
        }
        if wire["destination"] == DNS:
            return wire  # the gateway answers on both protocols, and knows the port
        if self.protocol is not None:
            wire["protocol"] = _PROTOCOLS[self.protocol]
        if self.port is not None:
            wire["port"] = str(self.port)
        return wire


@dataclass(frozen=True)
class NetworkPolicy:
    """What a sandbox may reach: rules in their order, then profiles, then the default.

    ``profiles`` are the daemon's lists of names, as ``("pypi", "npm")``.
    """

    default_egress: Action = Action.DENY
    default_ingress: Action = Action.ALLOW
    rules: tuple[Rule, ...] = ()
    profiles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checked(self.default_egress, Action, "default_egress")
        checked(self.default_ingress, Action, "default_ingress")

    @classmethod
    def none(cls) -> NetworkPolicy:
        """Nothing gets out, and nobody in."""
        return cls(Action.DENY, Action.DENY)

    @classmethod
    def public_only(cls) -> NetworkPolicy:
        """The public internet: never the host, private networks or metadata services."""
        return cls.from_profiles([NetworkProfile.PUBLIC])

    @classmethod
    def allow_all(cls) -> NetworkPolicy:
        """The public internet and private networks; never the host and metadata services."""
        return cls(Action.ALLOW, Action.ALLOW)

    @classmethod
    def from_profiles(cls, profiles: Iterable[Union[NetworkProfile, str]]) -> NetworkPolicy:
        """The groups of *profiles*, with DNS; words that are none of them name the daemon's own profiles."""
        named = list(profiles)
        groups = [p for p in NetworkProfile if p in named]
        rules = tuple(Rule.allow(destination=Destination.group(DestGroup(str(p)))) for p in groups)
        if rules:
            rules = (*Rule.allow_dns(), *rules)
        return cls(rules=rules, profiles=tuple(str(p) for p in named if p not in groups))

    def to_wire(self) -> dict[str, Any]:
        rules: list[dict[str, Any]] = []
        for rule in self.rules:
            if (wire := rule.to_wire()) not in rules[-1:]:  # the pair of a DNS rule is one here
                rules.append(wire)
        profiles = list(self.profiles)
        if self.default_egress is Action.ALLOW:
            profiles += [p for p in ("public", "private") if p not in profiles]
        wire_policy: dict[str, Any] = {
            "default": str(self.default_egress),
            "defaultIngress": str(self.default_ingress),
            "rules": rules,
        }
        if profiles:
            wire_policy["profiles"] = profiles
        return wire_policy


@dataclass(frozen=True)
class DnsConfig:
    """How names are asked for. ``nameservers`` are asked in place of the host's."""

    rebind_protection: bool = True
    nameservers: tuple[str, ...] = ()
    query_timeout_ms: Optional[int] = None

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"rebindProtection": self.rebind_protection}
        if self.nameservers:
            wire["nameservers"] = list(self.nameservers)
        if self.query_timeout_ms is not None:
            wire["queryTimeout"] = self.query_timeout_ms
        return wire


@dataclass(frozen=True)
class ScopedUpstreamCACert:
    pattern: str
    path: str


@dataclass(frozen=True)
class ScopedVerifyUpstream:
    pattern: str
    verify: bool


@dataclass(frozen=True)
class TlsConfig:
    """Interception of TLS, which cay does not do: a sandbox with one is refused."""

    bypass: tuple[str, ...] = ()
    verify_upstream: bool = True
    intercepted_ports: tuple[int, ...] = (443,)
    block_quic: bool = False
    upstream_ca_certs: tuple[str, ...] = ()
    scoped_upstream_ca_certs: tuple[ScopedUpstreamCACert, ...] = ()
    scoped_verify_upstream: tuple[ScopedVerifyUpstream, ...] = ()
    ca_cert: Optional[str] = None
    ca_key: Optional[str] = None
    ca_cn: Optional[str] = None


@dataclass(frozen=True)
class PortBinding:
    """A port of the host that leads into the sandbox. ``host_port`` 0 takes any that is free."""

    host_port: int
    guest_port: int
    bind: str = "127.0.0.1"
    protocol: PortProtocol = PortProtocol.TCP

    def __post_init__(self) -> None:
        checked(self.protocol, PortProtocol, "protocol")

    @classmethod
    def tcp(cls, host_port: int, guest_port: int, *, bind: str = "127.0.0.1") -> PortBinding:
        return cls(host_port, guest_port, bind)

    @classmethod
    def udp(cls, host_port: int, guest_port: int, *, bind: str = "127.0.0.1") -> PortBinding:
        return cls(host_port, guest_port, bind, PortProtocol.UDP)

    def to_wire(self) -> dict[str, Any]:
        return {
            "containerPort": self.guest_port,
            "hostPort": self.host_port,  # without it, it is the same as in the sandbox
            "protocol": str(self.protocol),
            "hostAddress": self.bind,
        }


Ports = Union[Mapping[int, int], Sequence[PortBinding]]


def ports_to_wire(ports: Ports) -> list[dict[str, Any]]:
    if isinstance(ports, Mapping):
        ports = [PortBinding(host, guest) for host, guest in ports.items()]
    return [port.to_wire() for port in ports]


@dataclass(frozen=True)
class TokenBucket:
    """``size`` tokens that are full again after ``refill_time_ms``."""

    size: int
    refill_time_ms: int
    one_time_burst: int = 0

    def to_wire(self) -> dict[str, Any]:
        if self.size <= 0 or self.refill_time_ms <= 0:
            raise InvalidConfigError("size and refill_time_ms of a TokenBucket must be more than 0")
        if self.one_time_burst:
            raise UnsupportedError(operation="one_time_burst", hint="a bucket may always burst to its size")
        return {"bytesPerSecond": max(1, self.size * 1000 // self.refill_time_ms), "burst": self.size}


@dataclass(frozen=True)
class RateLimiter:
    """Of one direction; ``bandwidth`` is in bytes."""

    bandwidth: Optional[TokenBucket] = None
    ops: Optional[TokenBucket] = None


@dataclass(frozen=True)
class NetworkRateLimiter:
    egress: Optional[RateLimiter] = None
    ingress: Optional[RateLimiter] = None

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {}
        for name, one in (("egress", self.egress), ("ingress", self.ingress)):
            if one is not None and one.ops is not None:
                raise UnsupportedError(operation="rate_limiter.ops", hint="limit the bandwidth")
            if one is not None and one.bandwidth is not None:
                wire[name] = one.bandwidth.to_wire()
        return wire


@dataclass(frozen=True)
class VsockRoute:
    """A socket of the host for a virtual machine; cay's sandboxes are none, so it is refused."""

    host_socket: str
    port: int
    socket_type: VsockSocketType = VsockSocketType.STREAM

    @classmethod
    def stream(cls, host_socket: str, port: int) -> VsockRoute:
        return cls(host_socket, port)

    @classmethod
    def dgram(cls, host_socket: str, port: int) -> VsockRoute:
        return cls(host_socket, port, VsockSocketType.DGRAM)


@dataclass(frozen=True)
class Network:
    """A policy, and what belongs to it: ports of the host, names that are denied, DNS, limits."""

    policy: Optional[NetworkPolicy] = None
    ports: Ports = field(default_factory=dict)
    deny_domains: tuple[str, ...] = ()
    deny_domain_suffixes: tuple[str, ...] = ()
    dns: Optional[DnsConfig] = None
    tls: Optional[TlsConfig] = None
    ipv4_pool: Optional[str] = None
    ipv6_pool: Optional[str] = None
    max_connections: Optional[int] = None
    rate_limiter: Optional[NetworkRateLimiter] = None
    on_secret_violation: Union[ViolationAction, ViolationPolicy] = ViolationAction.BLOCK_AND_LOG

    @classmethod
    def none(cls) -> Network:
        return cls(NetworkPolicy.none())

    @classmethod
    def public_only(cls) -> Network:
        return cls(NetworkPolicy.public_only())

    @classmethod
    def allow_all(cls) -> Network:
        return cls(NetworkPolicy.allow_all())

    @classmethod
    def from_profiles(cls, *profiles: Union[NetworkProfile, str]) -> Network:
        return cls(NetworkPolicy.from_profiles(profiles))

    def to_wire(self) -> dict[str, Any]:
        for name in ("tls", "ipv4_pool", "ipv6_pool"):
            if getattr(self, name) is not None:
                raise UnsupportedError(
                    operation=f"network.{name}",
                    hint="cay intercepts no TLS"
                    if name == "tls"
                    else "addresses of sandboxes are chosen by the daemon (CAY_NETWORK_POOL)",
                )
        wire = (self.policy or NetworkPolicy.public_only()).to_wire()
        denied = [Rule.deny(destination=Destination.domain(name)) for name in self.deny_domains]
        denied += [Rule.deny(destination=Destination.domain_suffix(name)) for name in self.deny_domain_suffixes]
        wire["rules"] = [rule.to_wire() for rule in denied] + wire["rules"]
        if self.dns is not None:
            wire["dns"] = self.dns.to_wire()
        if self.max_connections is not None:
            wire["maxConnections"] = self.max_connections
        if self.rate_limiter is not None:
            wire["rateLimit"] = self.rate_limiter.to_wire()
        return wire


NetworkLike = Union[Network, NetworkPolicy, Mapping[str, Any], str, bool, None]


def network_to_wire(network: NetworkLike) -> Union[dict[str, Any], str, bool, None]:
    """What goes into ``network`` of a create: a word or an object of the daemon's own passes as it is."""
    if isinstance(network, (Network, NetworkPolicy)):
        return network.to_wire()
    if network is None or isinstance(network, (bool, str)):
        return network
    if isinstance(network, Mapping):
        return dict(network)
    raise TypeError(f"network must be a Network or a NetworkPolicy, not {type(network).__name__}")
