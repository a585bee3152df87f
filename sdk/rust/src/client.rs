//! The connection to a daemon.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;

use crate::address::{self, Address};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::operations::Api;
use crate::sandbox::{CreateSandbox, Sandbox};
use crate::services;
use crate::types::{Health, Info, SandboxList, SandboxListQuery, Template};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A daemon and how to talk to it. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    http: reqwest::Client,
    address: Address,
    /// With the prefix that every route has.
    base: String,
    timeout: Option<Duration>,
    /// It has answered once, so it is worth waiting for when it is away.
    answered: AtomicBool,
}

/// What a [`Client`] is made from; [`Client::builder`] gives one. What is not said is taken from the environment.
#[derive(Debug, Clone, Default)]
pub struct ClientBuilder {
    address: Option<String>,
    token: Option<String>,
    timeout: Option<Duration>,
}

impl ClientBuilder {
    /// `unix:/path`, `http://host:port`, or `https://…` with a feature for TLS. Else `CAY_HOST` or `CAY_URL` counts, else
    /// `$CAY_RUN/cay.sock` if somebody listens there, else port `$CAY_REST_PORT` (3111) of this machine.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// To be let in. Else `CAY_TOKEN` or `CAY_AUTH_TOKEN` counts.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// How long a call may take. Without it, what only looks may take 30 s and what does something as long as it takes.
    /// Commands and streams have times of their own.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Nothing is sent yet.
    pub fn build(self) -> Result<Client> {
        let address = address::find(self.address.as_deref())?;
        let mut http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .user_agent(concat!("cay-rust/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers(self.token.or_else(address::token))?);
        let base = match &address {
            Address::Http(url) => format!("{url}/sandbox"),
            #[cfg(unix)]
            Address::Unix(path) => {
                http = http.unix_socket(path.as_path());
                "http://localhost/sandbox".to_owned()
            }
            #[cfg(not(unix))]
            Address::Unix(path) => return Err(Error::Invalid(format!("{}: there are no unix sockets here", path.display()))),
        };
        let http = http.build().map_err(|error| Error::Invalid(format!("no client for {address}: {error}")))?;
        let inner = Inner { http, address, base, timeout: self.timeout, answered: AtomicBool::new(false) };
        Ok(Client { inner: Arc::new(inner) })
    }
}

fn headers(token: Option<String>) -> Result<reqwest::header::HeaderMap> {
    let mut headers = reqwest::header::HeaderMap::new();
    headers.insert("cay-client", reqwest::header::HeaderValue::from_static(concat!("cay-rust/", env!("CARGO_PKG_VERSION"))));
    if let Some(token) = token {
        let mut value = reqwest::header::HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Error::Invalid("the token has characters that no token has".into()))?;
        value.set_sensitive(true);
        headers.insert(reqwest::header::AUTHORIZATION, value);
    }
    Ok(headers)
}

impl Client {
    /// The daemon that the environment names, or that of this machine: see [`ClientBuilder`].
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// For a daemon elsewhere, or with a token.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Where the daemon is looked for, as `unix:/path` or a URL.
    pub fn address(&self) -> String {
        self.inner.address.to_string()
    }

    /// Every operation of the daemon, as it is.
    pub fn api(&self) -> Api<'_> {
        Api { client: self }
    }

    /// Makes a sandbox from an image: a reference (`python:3.12-slim`), a short name, or `host`.
    ///
    /// ```no_run
    /// # async fn f() -> cay::Result<()> {
    /// let client = cay::Client::new()?;
    /// let sandbox = client.create("host").name("demo").memory(512).env("LANG", "C.UTF-8").await?;
    /// # Ok(()) }
    /// ```
    pub fn create(&self, image: impl Into<String>) -> CreateSandbox {
        CreateSandbox::new(self.clone()).image(image)
    }

    /// Makes a sandbox from a template, by its id or name.
    pub fn create_from_template(&self, template: impl Into<String>) -> CreateSandbox {
        CreateSandbox::new(self.clone()).template(template)
    }

    /// The sandbox of that id or name.
    pub async fn get(&self, id: &str) -> Result<Sandbox> {
        Ok(Sandbox::new(self.clone(), self.api().sandbox_get(id).await?))
    }

    /// All sandboxes, page after page.
    pub async fn list(&self) -> Result<Vec<Sandbox>> {
        self.list_where(SandboxListQuery::default()).await
    }

    /// The sandboxes with that status or metadata, page after page.
    pub async fn list_where(&self, mut query: SandboxListQuery) -> Result<Vec<Sandbox>> {
        query.page_size = query.page_size.or(Some(200));
        let mut all = Vec::new();
        loop {
            let page = self.api().sandbox_list(&query).await?;
            all.extend(page.items.into_iter().map(|info| Sandbox::new(self.clone(), info)));
            match page.next_cursor {
                Some(cursor) => query.cursor = Some(cursor),
                None => return Ok(all),
            }
        }
    }

    /// One page of sandboxes, with how many there are.
    pub async fn list_page(&self, query: &SandboxListQuery) -> Result<SandboxList> {
        self.api().sandbox_list(query).await
    }

    /// All templates.
    pub async fn templates(&self) -> Result<Vec<Template>> {
        Ok(self.api().template_list().await?.templates)
    }

    /// Is the daemon well?
    pub async fn health(&self) -> Result<Health> {
        self.api().metrics_health().await
    }

    /// What the daemon is and can do.
    pub async fn info(&self) -> Result<Info> {
        self.api().system_info().await
    }

    /// What happens, and what happened.
    pub fn events(&self) -> services::EventManager<'_> {
        services::EventManager { client: self }
    }

    /// Networks that sandboxes see each other by.
    pub fn networks(&self) -> services::NetworkManager<'_> {
        services::NetworkManager { client: self }
    }

    /// Traces of calls, and what they add up to.
    pub fn observability(&self) -> services::ObservabilityClient<'_> {
        services::ObservabilityClient { client: self }
    }

    /// Folders that outlive sandboxes.
    pub fn volumes(&self) -> services::VolumeManager<'_> {
        services::VolumeManager { client: self }
    }

    /// What a call takes that only looks, unless the caller said otherwise.
    pub(crate) fn timeout(&self, method: &Method) -> Option<Duration> {
        self.inner.timeout.or((*method == Method::GET).then_some(READ_TIMEOUT))
    }

    pub(crate) fn call(&self, method: Method, path: impl Into<String>) -> Call<'_> {
        Call::new(self, method, path.into())
    }

    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.inner.http
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.inner.base)
    }

    pub(crate) fn has_answered(&self) -> bool {
        self.inner.answered.load(Ordering::Relaxed)
    }

    pub(crate) fn note_answer(&self) {
        self.inner.answered.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.inner.address).finish_non_exhaustive()
    }
}
