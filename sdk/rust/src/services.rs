//! What is the daemon's own, not one sandbox's.

use std::collections::BTreeMap;

use crate::call::{ByteStream, Payload};
use crate::client::Client;
use crate::error::Result;
use crate::sse::EventStream;
use crate::types::{
    Event, EventHistoryQuery, EventList, EventPublishRequest, FileInfo, Network, NetworkConnectRequest, NetworkCreateRequest,
    NetworkDisconnectRequest, ObservabilityClearRequest, ObservabilityMetrics, ObservabilityTracesQuery, StreamEventsQuery,
    Traces, Volume, VolumeAttachRequest, VolumeAttached, VolumeCreateRequest, VolumeDetachRequest, VolumeDownloadRequest,
    VolumeFilesRequest, VolumeUploadQuery,
};

macro_rules! service {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name<'a> {
            pub(crate) client: &'a Client,
        }
    };
}

service! {
    /// What happens, and what happened; [`Client::events`] gives it.
    EventManager
}

impl EventManager<'_> {
    /// What happened, the newest first.
    pub async fn history(&self, options: EventHistoryQuery) -> Result<EventList> {
        self.client.api().event_history(&options).await
    }

    /// Says that something of your own has happened.
    pub async fn publish(&self, topic: &str, sandbox_id: &str, data: BTreeMap<String, serde_json::Value>) -> Result<Event> {
        let request = EventPublishRequest {
            topic: topic.to_owned(),
            sandbox_id: sandbox_id.to_owned(),
            data: Some(data.into_iter().collect()),
            ..Default::default()
        };
        self.client.api().event_publish(&request).await
    }

    /// What happens, as it happens. [`EventStream::last_event_id`] goes on where one ended.
    pub async fn stream(&self, options: StreamEventsQuery) -> Result<EventStream<Event>> {
        self.client.api().stream_events(&options).await
    }
}

service! {
    /// Networks that sandboxes see each other by; [`Client::networks`] gives it.
    NetworkManager
}

impl NetworkManager<'_> {
    /// Makes one.
    pub async fn create(&self, name: &str) -> Result<Network> {
        self.client.api().network_create(&NetworkCreateRequest { name: name.to_owned(), ..Default::default() }).await
    }

    /// All of them.
    pub async fn list(&self) -> Result<Vec<Network>> {
        Ok(self.client.api().network_list().await?.networks)
    }

    /// Connects a sandbox to it.
    pub async fn connect(&self, network_id: &str, sandbox_id: &str) -> Result<()> {
        let request = NetworkConnectRequest { sandbox_id: sandbox_id.to_owned(), ..Default::default() };
        self.client.api().network_connect(network_id, &request).await.map(drop)
    }

    /// Takes a sandbox out of it.
    pub async fn disconnect(&self, network_id: &str, sandbox_id: &str) -> Result<()> {
        let request = NetworkDisconnectRequest { sandbox_id: sandbox_id.to_owned(), ..Default::default() };
        self.client.api().network_disconnect(network_id, &request).await.map(drop)
    }

    /// Removes it.
    pub async fn delete(&self, network_id: &str) -> Result<()> {
        self.client.api().network_delete(network_id).await.map(drop)
    }
}

service! {
    /// Traces of calls, and what they add up to; [`Client::observability`] gives it.
    ObservabilityClient
}

impl ObservabilityClient<'_> {
    /// The last calls.
    pub async fn traces(&self, options: ObservabilityTracesQuery) -> Result<Traces> {
        self.client.api().observability_traces(&options).await
    }

    /// How many there were, and how long they took.
    pub async fn metrics(&self) -> Result<ObservabilityMetrics> {
        self.client.api().observability_metrics().await
    }

    /// Forgets them, or those before a time in Unix milliseconds; how many.
    pub async fn clear(&self, before: Option<i64>) -> Result<i64> {
        Ok(self.client.api().observability_clear(&ObservabilityClearRequest { before, ..Default::default() }).await?.cleared)
    }
}

service! {
    /// Folders that outlive sandboxes; [`Client::volumes`] gives it.
    VolumeManager
}

impl VolumeManager<'_> {
    /// Makes one, of so many MB.
    pub async fn create(&self, name: &str, size_mb: Option<i64>) -> Result<Volume> {
        self.client.api().volume_create(&VolumeCreateRequest { name: name.to_owned(), size_mb, ..Default::default() }).await
    }

    /// All of them.
    pub async fn list(&self) -> Result<Vec<Volume>> {
        Ok(self.client.api().volume_list().await?.volumes)
    }

    /// The one of that id or name.
    pub async fn get(&self, volume_id: &str) -> Result<Volume> {
        self.client.api().volume_get(volume_id).await
    }

    /// Removes it.
    pub async fn delete(&self, volume_id: &str) -> Result<()> {
        self.client.api().volume_delete(volume_id).await.map(drop)
    }

    /// Mounts it in a sandbox that runs.
    pub async fn attach(&self, volume_id: &str, sandbox_id: &str, path: &str) -> Result<VolumeAttached> {
        let request =
            VolumeAttachRequest { sandbox_id: sandbox_id.to_owned(), mount_path: path.to_owned(), ..Default::default() };
        self.client.api().volume_attach(volume_id, &request).await
    }

    /// Takes it away from a sandbox, or from all.
    pub async fn detach(&self, volume_id: &str, sandbox_id: Option<&str>) -> Result<()> {
        let request = VolumeDetachRequest { sandbox_id: sandbox_id.map(str::to_owned), ..Default::default() };
        self.client.api().volume_detach(volume_id, &request).await.map(drop)
    }

    /// What is in a folder of it.
    pub async fn files(&self, volume_id: &str, path: &str) -> Result<Vec<FileInfo>> {
        let request = VolumeFilesRequest { path: Some(path.to_owned()), ..Default::default() };
        self.client.api().volume_files(volume_id, &request).await
    }

    /// Makes a file in it, whether a sandbox has it or not.
    pub async fn upload(&self, volume_id: &str, path: &str, bytes: impl Into<Payload>) -> Result<()> {
        let query = VolumeUploadQuery { path: Some(path.to_owned()), ..Default::default() };
        self.client.api().volume_upload_from(volume_id, &query, bytes).await.map(drop)
    }

    /// A file of it, as it comes.
    pub async fn download(&self, volume_id: &str, path: &str) -> Result<ByteStream> {
        let request = VolumeDownloadRequest { path: path.to_owned(), ..Default::default() };
        self.client.api().volume_download_bytes(volume_id, &request).await
    }
}
