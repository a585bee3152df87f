# Made from cay/services.py by tools/unasync.py: change that one.
"""What a daemon has beside sandboxes. Each takes a client, or none for the usual daemon: `VolumeManager().list()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Dict, Mapping, Optional, Sequence, Union

from ._http import Client, Content, default_client

if TYPE_CHECKING:
    from cay import _models as m

    from ._api import Api

__all__ = [
    "AuditLog",
    "EventManager",
    "ImageManager",
    "NetworkManager",
    "ObservabilityClient",
    "PoolManager",
    "SnapshotManager",
    "SystemManager",
    "TemplateManager",
    "TokenManager",
    "VolumeManager",
    "WebhookManager",
]


class _Service:
    def __init__(self, client: Optional[Client] = None) -> None:
        self._given = client

    @property
    def _client(self) -> Client:
        return self._given or default_client()

    @property
    def _api(self) -> Api:
        return self._client.api


class EventManager(_Service):
    """What has happened, and what happens."""

    def history(
        self,
        *,
        sandbox_id: Optional[str] = None,
        topic: Optional[str] = None,
        since: Optional[int] = None,
        until: Optional[int] = None,
        limit: Optional[int] = None,
        offset: Optional[int] = None,
    ) -> m.EventList:
        """Events, the newest first, in `.events`."""
        return self._api.event_history(
            sandbox_id=sandbox_id, topic=topic, since=since, until=until, limit=limit, offset=offset
        )

    def publish(self, topic: str, sandbox_id: str, data: Optional[Mapping[str, Any]] = None) -> m.Event:
        """Tells all who listen."""
        return self._api.event_publish(topic, sandbox_id, data=data)

    def stream(
        self,
        *,
        topic: Optional[str] = None,
        sandbox_id: Optional[str] = None,
        since: Optional[int] = None,
        last_event_id: Optional[str] = None,
    ) -> Iterator[m.Event]:
        """Events as they happen; with `last_event_id` first all that came after that one."""
        return self._api.stream_events(topic=topic, sandbox_id=sandbox_id, since=since, last_event_id=last_event_id)


class NetworkManager(_Service):
    """Networks between sandboxes."""

    def create(self, name: str, driver: Optional[str] = None) -> m.Network:
        """A network with that name."""
        return self._api.network_create(name, driver=driver)

    def list(self) -> m.NetworkList:
        """Those that there are, in `.networks`."""
        return self._api.network_list()

    def get(self, network_id: str) -> m.Network:
        """One, by its id or name."""
        return self._api.network_get(network_id)

    def connect(self, network_id: str, sandbox_id: str) -> m.NetworkConnected:
        """Lets a sandbox reach the others of a network."""
        return self._api.network_connect(network_id, sandbox_id)

    def disconnect(self, network_id: str, sandbox_id: str) -> m.NetworkDisconnected:
        """Takes it out again."""
        return self._api.network_disconnect(network_id, sandbox_id)

    def delete(self, network_id: str) -> m.NetworkDeleted:
        """Removes a network; its sandboxes stay."""
        return self._api.network_delete(network_id)


class ObservabilityClient(_Service):
    """What the daemon has been asked, and how long it took."""

    def traces(
        self,
        *,
        sandbox_id: Optional[str] = None,
        function_id: Optional[str] = None,
        status: Optional[str] = None,
        trace_id: Optional[str] = None,
        since: Optional[int] = None,
        limit: Optional[int] = None,
        offset: Optional[int] = None,
    ) -> m.Traces:
        """Calls, the newest first, in `.traces`."""
        return self._api.observability_traces(
            sandbox_id=sandbox_id,
            function_id=function_id,
            status=status,
            trace_id=trace_id,
            since=since,
            limit=limit,
            offset=offset,
        )

    def metrics(self) -> m.ObservabilityMetrics:
        """How many, how long, how many failed."""
        return self._api.observability_metrics()

    def clear(self, before: Optional[int] = None) -> m.TracesCleared:
        """Forgets calls before a time, in Unix milliseconds."""
        return self._api.observability_clear(before=before)

    def prometheus(self) -> str:
        """The daemon's figures in the text format of Prometheus."""
        return self._api.metrics_prometheus()


class VolumeManager(_Service):
    """Disks that outlive sandboxes."""

    def create(self, name: str, driver: Optional[str] = None, *, size_mb: Optional[int] = None) -> m.Volume:
        """A volume with that name."""
        return self._api.volume_create(name, driver=driver, size_mb=size_mb)

    def list(self) -> m.VolumeList:
        """Those that there are, in `.volumes`."""
        return self._api.volume_list()

    def get(self, volume_id: str) -> m.Volume:
        """One, by its id or name."""
        return self._api.volume_get(volume_id)

    def delete(self, volume_id: str) -> m.VolumeDeleted:
        """Removes a volume and all that is on it."""
        return self._api.volume_delete(volume_id)

    def attach(
        self,
        volume_id: str,
        sandbox_id: str,
        mount_path: str,
        *,
        read_only: Optional[bool] = None,
        noexec: Optional[bool] = None,
        sub_path: Optional[str] = None,
    ) -> m.VolumeAttached:
        """Mounts it in a sandbox, at once and whenever that is started."""
        return self._api.volume_attach(
            volume_id, sandbox_id, mount_path, read_only=read_only, noexec=noexec, sub_path=sub_path
        )

    def detach(
        self, volume_id: str, sandbox_id: Optional[str] = None, mount_path: Optional[str] = None
    ) -> m.VolumeDetached:
        """Takes it out of a sandbox: of the one that has it, when none is named."""
        return self._api.volume_detach(volume_id, sandbox_id=sandbox_id, mount_path=mount_path)


class TemplateManager(_Service):
    """What sandboxes are made from by one word."""

    def create(
        self,
        name: str,
        config: Union[m.TemplateConfig, Mapping[str, Any]],
        *,
        description: Optional[str] = None,
        **more: Any,
    ) -> m.Template:
        """A template; with `build` it is made ready at once."""
        return self._api.template_create(name, config, description=description, **more)

    def list(self) -> m.TemplateList:
        """Those that there are, in `.templates`."""
        return self._api.template_list()

    def get(self, template_id: str) -> m.Template:
        """One, by its id or name."""
        return self._api.template_get(template_id)

    def delete(self, template_id: str) -> m.TemplateDeleted:
        """Removes one; sandboxes that were made from it stay."""
        return self._api.template_delete(template_id)

    def build(
        self, template_id: str, *, pull: Optional[bool] = None, no_cache: Optional[bool] = None
    ) -> m.Template:
        """Makes one ready, so that sandboxes of it start at once."""
        return self._api.template_build(template_id, pull=pull, no_cache=no_cache)

    def build_directory(self, content: Content, **options: Any) -> m.Template:
        """Builds a Dockerfile with the files of a tar archive. Options are those of `client.api.template_build_directory`."""
        return self._api.template_build_directory(content=content, **options)


class ImageManager(_Service):
    """Images of the daemon."""

    def list(self) -> m.ImageList:
        """Those that there are."""
        return self._api.image_list()

    def catalog(self) -> m.ImageCatalog:
        """Short names that it knows."""
        return self._api.image_catalog()

    def get(self, name: str) -> m.Image:
        """One of them."""
        return self._api.image_get(name)

    def pull(self, reference: str, **options: Any) -> m.Image:
        """Takes one from its registry. Options: name, registry_auth, insecure, platform, policy."""
        return self._api.image_pull(reference, **options)

    def pull_events(self, reference: str, **options: Any) -> Iterator[m.PullEvent]:
        """The same, and tells how far it is."""
        return self._api.image_pull_events(reference, **options)

    def load(self, path: str, name: Optional[str] = None) -> m.Image:
        """Takes one from an archive on the daemon's machine."""
        return self._api.image_import(path, name=name)

    def export(self, name: str) -> Iterator[bytes]:
        """One as an archive, piece by piece."""
        return self._api.image_export(name)

    def tag(self, image: str, name: str) -> m.Image:
        """Another name for one."""
        return self._api.image_tag(image, name)

    def remove(self, name: str) -> m.ImageDeleted:
        """Removes one that nothing is made from."""
        return self._api.image_remove(name)

    def prune(
        self, *, unused_for: Optional[int] = None, keep_mb: Optional[int] = None, dry_run: Optional[bool] = None
    ) -> m.ImagePrune:
        """Removes those that nobody has used for a while."""
        return self._api.image_prune(unused_for=unused_for, keep_mb=keep_mb, dry_run=dry_run)


class SnapshotManager(_Service):
    """Snapshots of all sandboxes."""

    def list(self, *, labels: Optional[Mapping[str, str]] = None) -> m.SnapshotList:
        """Those that there are, in `.snapshots`."""
        return self._api.snapshot_all(labels=labels)

    def get(self, snapshot_id: str) -> m.Snapshot:
        """One, by its id or name."""
        return self._api.snapshot_get(snapshot_id)

    def label(
        self, snapshot_id: str, *, name: Optional[str] = None, labels: Optional[Mapping[str, str]] = None
    ) -> m.Snapshot:
        """Another name, other labels."""
        return self._api.snapshot_label(snapshot_id, name=name, labels=labels)

    def delete(self, snapshot_id: str) -> m.SnapshotDeleted:
        """Removes one."""
        return self._api.snapshot_delete(snapshot_id)

    def export(self, snapshot_id: str) -> Iterator[bytes]:
        """One as an archive, piece by piece."""
        return self._api.snapshot_export(snapshot_id)

    def load(self, path: str, **options: Any) -> m.Snapshot:
        """Takes one from an archive on the daemon's machine. Options: image, name, labels."""
        return self._api.snapshot_import(path, **options)

    def clone(self, snapshot_id: str, *, name: Optional[str] = None, unique: Optional[bool] = None) -> m.Sandbox:
        """A new sandbox that begins where the snapshot was taken."""
        return self._api.snapshot_clone(snapshot_id, name=name, unique=unique)


class PoolManager(_Service):
    """Sandboxes that are kept ready, so that a create takes one."""

    def status(self) -> m.PoolStatus:
        """How many are ready."""
        return self._api.pool_status()

    def profiles(self) -> m.PoolProfiles:
        """Which kinds are kept."""
        return self._api.pool_profiles()

    def add(self, **profile: Any) -> m.PoolProfile:
        """Keeps a kind: image or template, size, memory, cpu, pids, disk, interpreter, network."""
        return self._api.pool_add(**profile)

    def remove(self, profile_id: str) -> m.Success:
        """Keeps it no longer."""
        return self._api.pool_remove(profile_id)


class TokenManager(_Service):
    """Tokens that may do less than the daemon's own."""

    def create(
        self,
        *,
        scopes: Sequence[str],
        name: Optional[str] = None,
        sandbox_id: Optional[str] = None,
        label: Optional[Mapping[str, str]] = None,
        expires_in: Optional[int] = None,
    ) -> m.Token:
        """A token; its secret is in this answer and in no other."""
        return self._api.token_create(
            scopes=[*scopes], name=name, sandbox_id=sandbox_id, label=label, expires_in=expires_in
        )

    def list(self) -> m.TokenList:
        """Those that there are, without their secrets."""
        return self._api.token_list()

    def revoke(self, token_id: str) -> m.Success:
        """From now on it is none."""
        return self._api.token_revoke(token_id)


class WebhookManager(_Service):
    """Addresses that are told of events."""

    def create(
        self,
        url: str,
        *,
        topics: Optional[Sequence[str]] = None,
        sandbox_id: Optional[str] = None,
        secret: Optional[str] = None,
    ) -> m.WebhookMade:
        """A webhook; its secret is in this answer and in no other."""
        return self._api.webhook_create(
            url, topics=None if topics is None else [*topics], sandbox_id=sandbox_id, secret=secret
        )

    def list(self) -> m.WebhookList:
        """Those that there are."""
        return self._api.webhook_list()

    def get(self, webhook_id: str) -> m.Webhook:
        """One of them."""
        return self._api.webhook_get(webhook_id)

    def set_active(self, webhook_id: str, active: bool) -> m.Webhook:
        """Stops or goes on telling it."""
        return self._api.webhook_update(webhook_id, active)

    def delete(self, webhook_id: str) -> m.WebhookDeleted:
        """Removes one."""
        return self._api.webhook_delete(webhook_id)

    def test(self, webhook_id: str) -> m.Delivery:
        """Sends it a message now, and says how that went."""
        return self._api.webhook_test(webhook_id)

    def deliveries(self, webhook_id: str, limit: Optional[int] = None) -> m.DeliveryList:
        """What it was sent."""
        return self._api.webhook_deliveries(webhook_id, limit=limit)


class AuditLog(_Service):
    """Who did what."""

    def list(
        self,
        *,
        since: Optional[int] = None,
        after: Optional[int] = None,
        sandbox_id: Optional[str] = None,
        who: Optional[str] = None,
        function: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> m.AuditList:
        """Entries in the order in which they were written."""
        return self._api.audit_list(
            since=since, after=after, sandbox_id=sandbox_id, who=who, function=function, limit=limit
        )

    def verify(self, head: Optional[str] = None) -> m.AuditReport:
        """Is it as it was written?"""
        return self._api.audit_verify(head=head)


class SystemManager(_Service):
    """The daemon itself."""

    def info(self) -> m.Info:
        """Version, limits, and what it can do."""
        return self._api.system_info()

    def health(self) -> m.Health:
        """Is it well?"""
        return self._api.metrics_health()

    def metrics(self) -> m.GlobalMetrics:
        """How many sandboxes there are and have been."""
        return self._api.metrics_global()

    def openapi(self) -> Dict[str, Any]:
        """What it can be asked, as an OpenAPI document."""
        return self._api.system_openapi()

    def sweep(self) -> m.Sweep:
        """Removes now what has expired."""
        return self._api.lifecycle_sweep()

    def strays(self) -> m.Strays:
        """What is on the machine and belongs to no sandbox."""
        return self._api.system_strays()
