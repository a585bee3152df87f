//! Sandboxes of a cay daemon: made in milliseconds, for code that nobody trusts.
//!
//! ```no_run
//! #[tokio::main]
//! async fn main() -> cay::Result<()> {
//!     let client = cay::Client::new()?;
//!     let sandbox = client.create("host").memory(256).await?;
//!     let output = sandbox.exec("echo hello").await?;
//!     print!("{}", output.stdout());
//!     sandbox.kill().await
//! }
//! ```
//!
//! [`Client`] is the daemon, [`Sandbox`] one box of it. Commands are [`Exec`]: awaited, streamed, attached to, or left in
//! the background. Streams have an async `next()`, and are [`futures_core::Stream`]s too. Whatever is awaited can be
//! dropped: a command ends with its future or stream, unless it is detached.
//!
//! [`Client::api`] has every operation of the daemon by the name that `/openapi.json` gives it, with [`types`] made from
//! the same.
//!
//! Requests are sent again only where nothing can happen twice: what only looks, what carries a key (everything that
//! makes something), and commands, which have an id of the client's choice and are come back to after a restart of the
//! daemon.
//!
//! # Features
//!
//! Daemons listen on a unix socket or on plain HTTP. For `https://` in front of one there are `rustls` and `native-tls`,
//! both off.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod address;
mod call;
mod client;
mod error;
mod exec;
mod files;
mod frames;
mod id;
mod managers;
mod open;
#[rustfmt::skip]
mod operations;
mod sandbox;
mod services;
mod sse;
mod terminal;
#[rustfmt::skip]
pub mod types;
mod websocket;

pub use call::{ByteStream, Payload, Upgraded};
pub use client::{Client, ClientBuilder};
pub use error::{ApiError, Error, Result};
pub use exec::{Attached, Background, Exec, ExecEvent, ExecInput, ExecOutput, ExecStream};
pub use files::{AnyFiles, FileSystem};
pub use frames::End;
pub use managers::{
    CodeInterpreter, EnvManager, GitManager, MonitorManager, PortManager, ProcessManager, QueueManager, StreamManager,
};
pub use operations::{Api, LEFT_OUT, OPERATIONS};
pub use sandbox::{CreateSandbox, Sandbox};
pub use services::{EventManager, NetworkManager, ObservabilityClient, VolumeManager};
pub use sse::EventStream;
pub use terminal::{TerminalManager, TerminalSession};
pub use types::{Command, NetworkSetting, Sandbox as SandboxInfo};
pub use websocket::{Message, WebSocket};

/// What [`create_sandbox`] and its kin talk to: [`Client::builder`].
pub type ClientConfig = ClientBuilder;
/// What [`GitManager::clone_repo`] can be told.
pub type GitCloneOptions = types::GitCloneRequest;
/// What [`GitManager::commit`] can be told.
pub type GitCommitOptions = types::GitCommitRequest;
/// What [`GitManager::diff`] can be told.
pub type GitDiffOptions = types::GitDiffQuery;
/// What [`EventManager::history`] can be told.
pub type EventHistoryOptions = types::EventHistoryQuery;
/// What [`ObservabilityClient::traces`] can be told.
pub type TraceOptions = types::ObservabilityTracesQuery;
/// What [`QueueManager::submit`] can be told.
pub type QueueSubmitOptions = types::QueueSubmitRequest;

/// Makes a sandbox: [`Client::create`] with a client of its own.
pub async fn create_sandbox(options: types::SandboxCreateRequest, config: Option<ClientConfig>) -> Result<Sandbox> {
    CreateSandbox::new(config.unwrap_or_default().build()?).request(options).await
}

/// All sandboxes: [`Client::list`] with a client of its own.
pub async fn list_sandboxes(config: Option<ClientConfig>) -> Result<Vec<Sandbox>> {
    config.unwrap_or_default().build()?.list().await
}

/// The sandbox of that id or name: [`Client::get`] with a client of its own.
pub async fn get_sandbox(id: &str, config: Option<ClientConfig>) -> Result<Sandbox> {
    config.unwrap_or_default().build()?.get(id).await
}

/// All templates: [`Client::templates`] with a client of its own.
pub async fn list_templates(config: Option<ClientConfig>) -> Result<Vec<types::Template>> {
    config.unwrap_or_default().build()?.templates().await
}
