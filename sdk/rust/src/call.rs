//! One request: how it is made, sent, sent again where that is safe, and read.

use std::fmt::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use reqwest::header::{HeaderValue, ACCEPT, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, UPGRADE};
use reqwest::{Method, Response};
use serde::de::DeserializeOwned;
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, Instant};

use crate::client::Client;
use crate::error::{ApiError, Error, Result};
use crate::id;
use crate::sse::EventStream;
use crate::websocket::WebSocket;

pub use reqwest::Upgraded;

/// So long a daemon that was there and is away is waited for: one that is being replaced is back sooner.
pub(crate) const BACK: Duration = Duration::from_secs(10);
pub(crate) const TRY: Duration = Duration::from_millis(100);
/// A daemon that is busy is asked again so often.
const BUSY_TRIES: u32 = 4;
/// What says that nothing was done and that another time will do; other refusals are what the work itself came to.
const NOT_NOW: [&str; 7] =
    ["busy", "unavailable", "sandbox_busy", "rate_limited", "launcher_lost", "gateway_down", "idempotency_in_progress"];
/// Who is told to come back later than this would rather hear of it.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);

/// No answer that is read into memory is longer.
const ANSWER_MAX: usize = 256 << 20;

/// A path's segment, percent-encoded.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Bytes to send: those of memory, of a file, or of any stream.
///
/// Bytes of memory can be sent again when the daemon was away; a stream cannot.
#[derive(Debug)]
pub struct Payload(Source);

#[derive(Debug)]
enum Source {
    Bytes(Bytes),
    Stream { body: reqwest::Body, size: Option<u64> },
}

impl Payload {
    /// What a stream yields; its size, where that is known.
    pub fn stream<S, E>(stream: S, size: Option<u64>) -> Self
    where
        S: Stream<Item = std::result::Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        Self(Source::Stream { body: reqwest::Body::wrap_stream(Pieces(Box::pin(stream))), size })
    }

    /// A file of this machine, read while it is sent.
    pub async fn file(path: impl AsRef<std::path::Path>) -> Result<Self> {
        let file = tokio::fs::File::open(path).await?;
        let size = file.metadata().await?.len();
        Ok(Self(Source::Stream { body: file.into(), size: Some(size) }))
    }
}

/// reqwest wants a stream that can be polled by itself.
struct Pieces<S>(Pin<Box<S>>);

impl<S: Stream> Stream for Pieces<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self(Source::Bytes(bytes))
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Self {
        Bytes::copy_from_slice(bytes).into()
    }
}

impl<const N: usize> From<&[u8; N]> for Payload {
    fn from(bytes: &[u8; N]) -> Self {
        bytes.as_slice().into()
    }
}

impl From<&str> for Payload {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

enum Content {
    None,
    Json(Bytes),
    Bytes(Bytes),
    Stream { body: Option<reqwest::Body>, size: Option<u64> },
}

impl Content {
    fn can_be_sent_again(&self) -> bool {
        !matches!(self, Self::Stream { body: None, .. })
    }
}

pub(crate) struct Call<'a> {
    client: &'a Client,
    method: Method,
    /// Below the prefix, with its query.
    path: String,
    key: Option<String>,
    content: Content,
    timeout: Option<Duration>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(client: &'a Client, method: Method, path: String) -> Self {
        let timeout = client.timeout(&method);
        Self { client, method, path, key: None, content: Content::None, timeout }
    }

    /// A POST that makes something: with a key of its own it can be sent again.
    pub(crate) fn keyed(mut self) -> Self {
        self.key = Some(id::key());
        self
    }

    pub(crate) fn key(mut self, key: Option<String>) -> Self {
        self.key = key.or(self.key);
        self
    }

    pub(crate) fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// The members of an object, each as text; objects and lists as JSON.
    pub(crate) fn query(mut self, query: &impl Serialize) -> Result<Self> {
        let serde_json::Value::Object(members) = to_json(query)? else { return Ok(self) };
        for (i, (name, value)) in members.into_iter().enumerate() {
            let text = match value {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            let _ = write!(self.path, "{}{name}={}", if i == 0 { '?' } else { '&' }, escape(&text));
        }
        Ok(self)
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Result<Self> {
        let text = serde_json::to_vec(body).map_err(|error| Error::Invalid(error.to_string()))?;
        self.content = Content::Json(text.into());
        Ok(self)
    }

    pub(crate) fn payload(mut self, payload: Payload) -> Self {
        self.content = match payload.0 {
            Source::Bytes(bytes) => Content::Bytes(bytes),
            Source::Stream { body, size } => Content::Stream { body: Some(body), size },
        };
        self
    }

    // ---- answers ----

    pub(crate) async fn send_json<T: DeserializeOwned>(mut self) -> Result<T> {
        let response = self.send("application/json").await?;
        let path = self.path;
        let bytes = whole(response, &self.method, &path).await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::Protocol(format!("{} {path}: the answer is not what was expected: {error}", self.method)))
    }

    pub(crate) async fn send_text(mut self) -> Result<String> {
        let response = self.send("text/plain").await?;
        let bytes = whole(response, &self.method, &self.path).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) async fn send_bytes(mut self, accept: &'static str) -> Result<ByteStream> {
        self.timeout = None;
        let response = self.send(accept).await?;
        Ok(ByteStream::new(response, &self.method, self.path))
    }

    pub(crate) async fn send_events<T: DeserializeOwned>(mut self) -> Result<EventStream<T>> {
        self.timeout = None;
        let response = self.send("text/event-stream").await?;
        Ok(EventStream::new(ByteStream::new(response, &self.method, self.path)))
    }

    /// The connection becomes another one.
    pub(crate) async fn send_upgrade(mut self, word: &'static str) -> Result<Upgraded> {
        self.timeout = None;
        let request = self.request("application/json")?;
        let request = request.header(CONNECTION, "Upgrade").header(UPGRADE, word);
        let response = self.finish(request.send().await).await?;
        self.upgraded(response).await
    }

    pub(crate) async fn send_websocket(mut self) -> Result<WebSocket> {
        self.timeout = None;
        let key = WebSocket::key();
        let request = self.request("application/json")?;
        let request = request.header(CONNECTION, "Upgrade").header(UPGRADE, "websocket");
        let request = request.header("sec-websocket-version", "13").header("sec-websocket-key", &key);
        let response = self.finish(request.send().await).await?;
        let accept = response.headers().get("sec-websocket-accept").and_then(|value| value.to_str().ok());
        if response.status() == 101 && accept != Some(WebSocket::accept(&key).as_str()) {
            return Err(Error::Protocol(format!("{}: the answer is no WebSocket's", self.path)));
        }
        Ok(WebSocket::new(self.upgraded(response).await?, self.path))
    }

    async fn upgraded(&self, response: Response) -> Result<Upgraded> {
        if response.status() != 101 {
            return Err(Error::Protocol(format!("{}: the connection was not upgraded: is it a cay daemon?", self.path)));
        }
        response.upgrade().await.map_err(|error| failure(&self.method, &self.path, error))
    }

    // ---- sending ----

    fn request(&mut self, accept: &'static str) -> Result<reqwest::RequestBuilder> {
        let mut request = self.client.http().request(self.method.clone(), self.client.url(&self.path));
        request = request.header(ACCEPT, HeaderValue::from_static(accept));
        if let Some(key) = &self.key {
            request = request.header("idempotency-key", key);
        }
        if let Some(timeout) = self.timeout {
            request = request.timeout(timeout);
        }
        Ok(match &mut self.content {
            Content::None => request,
            Content::Json(text) => request.header(CONTENT_TYPE, "application/json").body(text.clone()),
            Content::Bytes(bytes) => request.header(CONTENT_TYPE, "application/octet-stream").body(bytes.clone()),
            Content::Stream { body, size } => {
                let body = body.take().ok_or_else(|| Error::Invalid("a stream can be sent once".into()))?;
                if let Some(size) = size {
                    request = request.header(CONTENT_LENGTH, *size);
                }
                request.header(CONTENT_TYPE, "application/octet-stream").body(body)
            }
        })
    }

    /// Until there is an answer, or a failure after which it would not be safe to send it again.
    async fn send(&mut self, accept: &'static str) -> Result<Response> {
        let begin = Instant::now();
        let mut busy = 0;
        let mut was_lost = false;
        loop {
            let sent = self.request(accept)?.send().await;
            let error = match self.finish(sent).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            was_lost |= matches!(error, Error::Lost { .. });
            let wait = match &error {
                _ if !self.content.can_be_sent_again() => None,
                Error::Api(api) if busy < BUSY_TRIES && self.is_harmless() && NOT_NOW.contains(&api.code.as_str()) => {
                    api.retry_after.filter(|wait| *wait <= RETRY_AFTER_MAX)
                }
                // Nothing has reached a daemon that was there before, or is known to come back.
                Error::Connect { .. } if begin.elapsed() < BACK => (was_lost || self.client.has_answered()).then_some(TRY),
                Error::Lost { .. } if begin.elapsed() < BACK => (self.key.is_some() || self.method == Method::GET).then_some(TRY),
                _ => None,
            };
            let Some(wait) = wait else { return Err(error) };
            busy += u32::from(matches!(error, Error::Api(_)));
            sleep(wait).await;
        }
    }

    /// Can it be sent again after a refusal? What was refused has not been done.
    fn is_harmless(&self) -> bool {
        self.key.is_some() || matches!(self.method, Method::GET | Method::HEAD | Method::DELETE)
    }

    async fn finish(&self, sent: reqwest::Result<Response>) -> Result<Response> {
        let response = sent.map_err(|error| self.not_sent(error))?;
        self.client.note_answer();
        if response.status().is_success() || response.status() == 101 {
            return Ok(response);
        }
        Err(self.refusal(response).await)
    }

    fn not_sent(&self, error: reqwest::Error) -> Error {
        if error.is_connect() && !error.is_timeout() {
            return Error::Connect { address: self.client.address(), source: error.without_url().into() };
        }
        failure(&self.method, &self.path, error)
    }

    async fn refusal(&self, response: Response) -> Error {
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let exec_id = header("x-exec-id");
        let is_busy = matches!(status, 429 | 503 | 409);
        let seconds = header(RETRY_AFTER.as_str()).filter(|_| is_busy).and_then(|text| text.parse().ok());
        let text = whole(response, &self.method, &self.path).await.unwrap_or_default();
        let body: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let word = |key: &str| body.get(key).and_then(|value| value.as_str()).map(str::to_owned);
        Error::Api(Box::new(ApiError {
            code: word("code").unwrap_or_default(),
            status,
            message: word("error").unwrap_or_else(|| String::from_utf8_lossy(&text).into_owned()),
            method: self.method.to_string(),
            path: self.path.clone(),
            exec_id: word("execId").or(exec_id),
            retry_after: seconds.map(Duration::from_secs),
            body,
        }))
    }
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(value).map_err(|error| Error::Invalid(error.to_string()))
}

/// An answer that is read into memory.
async fn whole(mut response: Response, method: &Method, path: &str) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| failure(method, path, error))? {
        if all.len() + piece.len() > ANSWER_MAX {
            return Err(Error::Protocol(format!("{method} {path}: the answer is longer than {ANSWER_MAX} bytes")));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

fn failure(method: &Method, path: &str, error: reqwest::Error) -> Error {
    if error.is_timeout() {
        return Error::Timeout { method: method.to_string(), path: path.to_owned() };
    }
    Error::lost(method.as_str(), path, error.without_url())
}

type Chunks = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

/// Bytes as they come: a file, an archive. Dropping it ends the transfer.
pub struct ByteStream {
    chunks: Chunks,
    pub(crate) method: Method,
    pub(crate) path: String,
    size: Option<u64>,
}

impl ByteStream {
    fn new(response: Response, method: &Method, path: String) -> Self {
        let size = response.content_length();
        Self { chunks: Box::pin(response.bytes_stream()), method: method.clone(), path, size }
    }

    /// How many there will be, if that was said.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// All of them, in memory.
    pub async fn collect(mut self) -> Result<Vec<u8>> {
        let mut all = Vec::with_capacity(self.size.unwrap_or(0).min(16 << 20) as usize);
        while let Some(piece) = self.next().await {
            all.extend_from_slice(&piece?);
        }
        Ok(all)
    }

    /// Writes all of them, piece by piece; how many there were.
    pub async fn write_to(mut self, to: &mut (impl AsyncWrite + Unpin)) -> Result<u64> {
        let mut count = 0;
        while let Some(piece) = self.next().await {
            let piece = piece?;
            to.write_all(&piece).await?;
            count += piece.len() as u64;
        }
        to.flush().await?;
        Ok(count)
    }
}

impl Stream for ByteStream {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = std::task::ready!(self.chunks.as_mut().poll_next(cx));
        Poll::Ready(piece.map(|piece| piece.map_err(|error| failure(&self.method, &self.path, error))))
    }
}

impl std::fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByteStream").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_escaped_whole() {
        assert_eq!(super::escape("a b/c?d#e%ü"), "a%20b%2Fc%3Fd%23e%25%C3%BC");
    }
}
