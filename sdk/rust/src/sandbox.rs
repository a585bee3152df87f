//! One sandbox, and how it is made.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use reqwest::Method;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::exec::{Attached, Background, Exec, ExecStream};
use crate::files::FileSystem;
use crate::managers::{
    CodeInterpreter, EnvManager, GitManager, MonitorManager, PortManager, ProcessManager, QueueManager, StreamManager,
};
use crate::sse::EventStream;
use crate::terminal::TerminalManager;
use crate::types::{
    self, Command, CreateEvent, Diff, ExecInfo, Image, ImageCommitRequest, Metrics, NetworkSetting, Patch, PortRequest,
    SandboxCloneRequest, SandboxCreateRequest, SandboxDiffQuery, SandboxForkRequest, SandboxRenewRequest, SandboxStatus,
    SandboxStopRequest, Snapshot, SnapshotCreateRequest, SnapshotListQuery, SnapshotRestoreRequest, VolumeMount,
};

/// A sandbox that is about to be made; [`Client::create`] gives one. Awaiting it makes it.
///
/// It carries a key of its own, so a request whose connection broke is sent again and makes no second sandbox.
#[derive(Debug, Clone)]
#[must_use = "it is made when it is awaited"]
pub struct CreateSandbox {
    client: Client,
    request: SandboxCreateRequest,
    key: Option<String>,
}

impl CreateSandbox {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, request: SandboxCreateRequest::default(), key: None }
    }

    /// What it starts from: a reference (`python:3.12-slim`), a short name, or `host`.
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.request.image = Some(image.into());
        self
    }

    /// A template, by id or name: what is not said here is taken from it.
    pub fn template(mut self, template: impl Into<String>) -> Self {
        self.request.template = Some(template.into());
        self
    }

    /// To use in place of the id.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.request.name = Some(name.into());
        self
    }

    /// Fails with `name_taken` when another has that name.
    pub fn unique(mut self) -> Self {
        self.request.unique = Some(true);
        self
    }

    /// So long it lives. Then it is stopped and keeps its files, unless [`on_timeout`](Self::on_timeout) says otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request.timeout = Some(timeout.as_secs() as i64);
        self
    }

    /// What happens when its time is over.
    pub fn on_timeout(mut self, what: types::OnTimeout) -> Self {
        self.request.on_timeout = Some(what);
        self
    }

    /// After so long without any use it is stopped.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.request.idle_timeout = Some(timeout.as_secs() as i64);
        self
    }

    /// MB of memory.
    pub fn memory(mut self, megabytes: u32) -> Self {
        self.request.memory = Some(megabytes.into());
        self
    }

    /// Cores.
    pub fn cpu(mut self, cores: f64) -> Self {
        self.request.cpu = Some(cores);
        self
    }

    /// MB of disk.
    pub fn disk(mut self, megabytes: u32) -> Self {
        self.request.disk = Some(megabytes.into());
        self
    }

    /// Processes and threads at a time.
    pub fn pids(mut self, count: u32) -> Self {
        self.request.pids = Some(count.into());
        self
    }

    /// What it may reach: `true` is the public internet, a string a preset, or a policy. Nothing otherwise.
    pub fn network(mut self, network: impl Into<NetworkSetting>) -> Self {
        self.request.network = Some(network.into());
        self
    }

    /// A variable of every command.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.env.get_or_insert_with(Default::default).insert(name.into(), value.into());
        self
    }

    /// Where commands start.
    pub fn workdir(mut self, path: impl Into<String>) -> Self {
        self.request.workdir = Some(path.into());
        self
    }

    /// Kept with it, and to find it by.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.metadata.get_or_insert_with(Default::default).insert(name.into(), value.into());
        self
    }

    /// The main process.
    pub fn entrypoint<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.request.entrypoint = Some(words.into_iter().map(Into::into).collect());
        self
    }

    /// A volume or folder to mount.
    pub fn volume(mut self, mount: VolumeMount) -> Self {
        self.request.volumes.get_or_insert_with(Vec::new).push(mount);
        self
    }

    /// A port of it to reach on the host; one that is free is chosen there.
    pub fn port(mut self, port: u16) -> Self {
        let request = PortRequest { container_port: port, ..Default::default() };
        self.request.ports.get_or_insert_with(Vec::new).push(request);
        self
    }

    /// A change to its files before anything runs.
    pub fn patch(mut self, patch: Patch) -> Self {
        self.request.patches.get_or_insert_with(Vec::new).push(patch);
        self
    }

    /// Anything else that a create can say.
    pub fn with(mut self, change: impl FnOnce(&mut SandboxCreateRequest)) -> Self {
        change(&mut self.request);
        self
    }

    /// Takes all of it from a request.
    pub fn request(mut self, request: SandboxCreateRequest) -> Self {
        self.request = request;
        self
    }

    /// A key of your own choice: the same request with the same key gives the same sandbox, for a day.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Makes it, and tells how far the image is. The last event is the sandbox, or the error.
    pub async fn events(self) -> Result<EventStream<CreateEvent>> {
        let call = self.client.call(Method::POST, "/sandboxes").keyed().key(self.key).json(&self.request)?;
        call.send_events().await
    }
}

impl IntoFuture for CreateSandbox {
    type Output = Result<Sandbox>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let call = self.client.call(Method::POST, "/sandboxes").keyed().key(self.key).json(&self.request)?;
            let info = call.send_json().await?;
            Ok(Sandbox::new(self.client, info))
        })
    }
}

/// A sandbox. It goes on when this value is dropped: [`kill`](Self::kill) ends it, and so does its time.
#[derive(Debug, Clone)]
pub struct Sandbox {
    client: Client,
    info: types::Sandbox,
}

impl Sandbox {
    pub(crate) fn new(client: Client, info: types::Sandbox) -> Self {
        Self { client, info }
    }

    /// Whose it is.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// `sbx_` and 24 hex digits.
    pub fn id(&self) -> &str {
        &self.info.id
    }

    /// For people; the id when none was given.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// What it did when it was last looked at: see [`refresh`](Self::refresh).
    pub fn status(&self) -> &SandboxStatus {
        &self.info.status
    }

    /// All that was known when it was last looked at.
    pub fn info(&self) -> &types::Sandbox {
        &self.info
    }

    /// Looks again.
    pub async fn refresh(&mut self) -> Result<&types::Sandbox> {
        self.info = self.client.api().sandbox_get(self.id()).await?;
        Ok(&self.info)
    }

    // ---- commands ----

    /// A command: a string is for the shell, an array a program with its arguments. Awaiting it runs it.
    pub fn exec(&self, command: impl Into<Command>) -> Exec {
        Exec::new(&self.client, self.id(), command.into())
    }

    /// Runs a command and gives its output as it comes: [`Exec::stream`].
    pub async fn exec_stream(&self, command: impl Into<Command>) -> Result<ExecStream> {
        self.exec(command).stream().await
    }

    /// Comes back to a command that runs, by its id, with its input; the output begins at the cursor. Leaving it again
    /// does not end it.
    pub async fn attach(&self, exec_id: &str, cursor: u64) -> Result<Attached> {
        Attached::to(&self.client, self.id(), exec_id, cursor).await
    }

    /// A command that was left in the background, by its id.
    pub async fn background(&self, exec_id: &str) -> Result<Background> {
        Background::get(&self.client, exec_id).await
    }

    /// The commands that run, and the last that ended.
    pub async fn execs(&self) -> Result<Vec<ExecInfo>> {
        Ok(self.client.api().cmd_list(self.id()).await?.execs)
    }

    // ---- life ----

    /// Stops its processes where they are.
    pub async fn pause(&self) -> Result<types::Sandbox> {
        self.client.api().sandbox_pause(self.id()).await
    }

    /// Lets them go on.
    pub async fn resume(&self) -> Result<types::Sandbox> {
        self.client.api().sandbox_resume(self.id()).await
    }

    /// Ends its processes and keeps its files.
    pub async fn stop(&self) -> Result<types::Sandbox> {
        self.stop_with(&SandboxStopRequest::default()).await
    }

    /// As [`stop`](Self::stop): after the commands that run, or with more time.
    pub async fn stop_with(&self, options: &SandboxStopRequest) -> Result<types::Sandbox> {
        self.client.api().sandbox_stop(self.id(), options).await
    }

    /// It is in use, and its idle time begins anew.
    pub async fn touch(&self) -> Result<types::Sandbox> {
        self.client.api().sandbox_touch(self.id()).await
    }

    /// Starts one that is stopped.
    pub async fn start(&self) -> Result<types::Sandbox> {
        self.client.api().sandbox_start(self.id()).await
    }

    /// It lives so long from now on.
    pub async fn renew(&self, timeout: Duration) -> Result<types::Sandbox> {
        let end = SystemTime::now() + timeout;
        let since = end.duration_since(SystemTime::UNIX_EPOCH).map_err(|error| Error::Invalid(error.to_string()))?;
        let request = SandboxRenewRequest { expires_at: since.as_millis() as i64, ..Default::default() };
        self.client.api().sandbox_renew(self.id(), &request).await
    }

    /// Ends it, with all that is in it.
    pub async fn kill(&self) -> Result<()> {
        self.client.api().sandbox_kill(self.id()).await.map(drop)
    }

    /// What it uses.
    pub async fn metrics(&self) -> Result<Metrics> {
        self.client.api().metrics_sandbox(self.id()).await
    }

    // ---- copies ----

    /// Another sandbox with the same files.
    pub async fn clone_sandbox(&self, name: Option<&str>) -> Result<Sandbox> {
        let request = SandboxCloneRequest { name: name.map(str::to_owned), ..Default::default() };
        let info = self.client.api().sandbox_clone(self.id(), &request).await?;
        Ok(Self::new(self.client.clone(), info))
    }

    /// So many sandboxes with the same files.
    pub async fn fork(&self, count: u32) -> Result<Vec<Sandbox>> {
        let request = SandboxForkRequest { count: Some(count.into()), ..Default::default() };
        let fork = self.client.api().sandbox_fork(self.id(), &request).await?;
        Ok(fork.sandboxes.into_iter().map(|info| Self::new(self.client.clone(), info)).collect())
    }

    /// Keeps what its disk is now.
    pub async fn snapshot(&self, name: Option<&str>) -> Result<Snapshot> {
        let request = SnapshotCreateRequest { name: name.map(str::to_owned), ..Default::default() };
        self.client.api().snapshot_create(self.id(), &request).await
    }

    /// Makes its disk what it was.
    pub async fn restore(&self, snapshot_id: &str) -> Result<types::Sandbox> {
        let request = SnapshotRestoreRequest { snapshot_id: snapshot_id.to_owned(), ..Default::default() };
        self.client.api().snapshot_restore(self.id(), &request).await
    }

    /// Its snapshots.
    pub async fn list_snapshots(&self) -> Result<Vec<Snapshot>> {
        Ok(self.client.api().snapshot_list(self.id(), &SnapshotListQuery::default()).await?.snapshots)
    }

    /// What differs from its image, or from a snapshot.
    pub async fn diff(&self, snapshot_id: Option<&str>) -> Result<Diff> {
        let query = SandboxDiffQuery { snapshot_id: snapshot_id.map(str::to_owned), ..Default::default() };
        self.client.api().sandbox_diff(self.id(), &query).await
    }

    /// Makes an image of it.
    pub async fn commit(&self, request: &ImageCommitRequest) -> Result<Image> {
        self.client.api().image_commit(self.id(), request).await
    }

    // ---- what is in it ----

    /// Its environment.
    pub fn env(&self) -> EnvManager<'_> {
        EnvManager { sandbox: self }
    }

    /// Its files.
    pub fn filesystem(&self) -> FileSystem<'_> {
        FileSystem { sandbox: self }
    }

    /// Repositories in it.
    pub fn git(&self) -> GitManager<'_> {
        GitManager { sandbox: self }
    }

    /// Code in it.
    pub fn interpreter(&self) -> CodeInterpreter<'_> {
        CodeInterpreter { sandbox: self }
    }

    /// Its processes.
    pub fn processes(&self) -> ProcessManager<'_> {
        ProcessManager { sandbox: self }
    }

    /// Its ports.
    pub fn ports(&self) -> PortManager<'_> {
        PortManager { sandbox: self }
    }

    /// Commands that run one after the other.
    pub fn queue(&self) -> QueueManager<'_> {
        QueueManager { sandbox: self }
    }

    /// What it says and uses, as it comes.
    pub fn streams(&self) -> StreamManager<'_> {
        StreamManager { sandbox: self }
    }

    /// Alerts.
    pub fn monitor(&self) -> MonitorManager<'_> {
        MonitorManager { sandbox: self }
    }

    /// Terminals.
    pub fn terminal(&self) -> TerminalManager<'_> {
        TerminalManager { sandbox: self }
    }
}
