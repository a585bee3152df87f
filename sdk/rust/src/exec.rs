//! Commands: run and waited for, streamed, attached to, left in the background.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::future::{poll_fn, Future, IntoFuture};
use std::io;
use std::pin::Pin;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use reqwest::Method;
use tokio::io::{split, AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{sleep, Instant};

use crate::call::{escape, Upgraded, BACK, TRY};
use crate::client::Client;
use crate::error::{ApiError, Error, Result};
use crate::frames::{self, End, Frame, Reader};
use crate::id;
use crate::types::{
    BackgroundExec, CmdAttachRequest, CmdBackgroundLogsQuery, CmdBackgroundRequest, CmdGetAttachRequest, CmdGetStreamQuery,
    CmdRunRequest, Command, ExecEventType, ExecLogs, ExecResult, Reason, Rlimit, RlimitResource, StdinEncoding,
};
use crate::websocket::base64;

/// So much of each stream is collected, as the daemon does.
const OUTPUT_MAX: usize = 10 << 20;
/// Input of up to so much goes with the request; more is written while the command runs.
const STDIN_MAX: usize = 1 << 20;
/// A frame of input.
const INPUT_MAX: usize = 64 << 10;
/// The client waits so much longer than the command may run.
const GRACE: Duration = Duration::from_secs(30);

/// A command that is about to run; [`Sandbox::exec`](crate::Sandbox::exec) gives one. Awaiting it runs it.
///
/// Dropping the future, or the stream, ends the command in the sandbox, unless [`detach`](Self::detach) was asked for.
/// When the daemon is restarted or replaced meanwhile, the same command is come back to: it runs once, and nothing of
/// its output is lost.
///
/// ```no_run
/// # async fn f(sandbox: cay::Sandbox) -> cay::Result<()> {
/// let output = sandbox.exec("wc -c").stdin("hello").env("LC_ALL", "C").await?;
/// assert_eq!(output.stdout(), "5\n");
/// let output = sandbox.exec(["python3", "-c", "print(6 * 7)"]).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "it runs when it is awaited, streamed or attached to"]
pub struct Exec {
    client: Client,
    sandbox: String,
    command: Command,
    cwd: Option<String>,
    env: BTreeMap<String, String>,
    user: Option<String>,
    timeout: Option<Duration>,
    detach: bool,
    stdin: Option<Bytes>,
    rlimits: Vec<Rlimit>,
    id: String,
}

impl Exec {
    pub(crate) fn new(client: &Client, sandbox: &str, command: Command) -> Self {
        Self {
            client: client.clone(),
            sandbox: sandbox.to_owned(),
            command,
            cwd: None,
            env: BTreeMap::new(),
            user: None,
            timeout: None,
            detach: false,
            stdin: None,
            rlimits: Vec::new(),
            id: id::exec_id(),
        }
    }

    /// Where it starts; the sandbox's workdir otherwise.
    pub fn cwd(mut self, path: impl Into<String>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// A variable beside those of the sandbox.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Who runs it: a name or uid, with `:group` or `:gid`.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// After so long it is ended. Awaited, that is the error `command_timeout` with what was put out; streamed, its end
    /// has [`Reason::Timeout`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// It goes on when the caller is gone.
    pub fn detach(mut self) -> Self {
        self.detach = true;
        self
    }

    /// What it reads from its input.
    pub fn stdin(mut self, bytes: impl Into<Bytes>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// A limit of its process, as `nofile` or `cpu`; -1 is none.
    pub fn rlimit(mut self, resource: impl Into<RlimitResource>, soft: i64, hard: Option<i64>) -> Self {
        self.rlimits.push(Rlimit { resource: resource.into(), soft, hard, ..Default::default() });
        self
    }

    /// By which it is known, also afterwards: `ex_` and 24 hex digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Chooses that id, instead of a random one.
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Runs it, and gives its output as it comes, byte by byte what it wrote.
    ///
    /// ```no_run
    /// # async fn f(sandbox: cay::Sandbox) -> cay::Result<()> {
    /// let mut events = sandbox.exec("make").stream().await?;
    /// while let Some(event) = events.next().await {
    ///     match event? {
    ///         cay::ExecEvent::Stdout(bytes) => print!("{}", String::from_utf8_lossy(&bytes)),
    ///         cay::ExecEvent::Exited(end) => println!("ended with {}", end.exit_code),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn stream(self) -> Result<ExecStream> {
        match &self.stdin {
            None => self.open(false, None).await.map(|upgraded| ExecStream::new(&self, Link::Whole(upgraded), true)),
            Some(bytes) => {
                let bytes = bytes.clone();
                let Attached { mut input, mut events } = self.attach().await?;
                events.feed = Some(Box::pin(async move {
                    // A command that ends before it has read everything is no failure.
                    let _ = input.write_all(&bytes).await;
                    let _ = input.shutdown().await;
                    Some(input)
                }));
                Ok(events)
            }
        }
    }

    /// Runs it with its input open: bytes go in and come out, signals too.
    pub async fn attach(self) -> Result<Attached> {
        let upgraded = self.open(true, None).await?;
        Ok(Attached::new(&self, upgraded))
    }

    /// Runs it on a terminal of that many rows and columns; its output is then one stream.
    pub async fn attach_terminal(self, rows: u16, cols: u16) -> Result<Attached> {
        let upgraded = self.open(true, Some((rows, cols))).await?;
        Ok(Attached::new(&self, upgraded))
    }

    /// Starts it and leaves it running.
    pub async fn background(self) -> Result<Background> {
        let request = CmdBackgroundRequest {
            command: self.command,
            cwd: self.cwd,
            env: (!self.env.is_empty()).then_some(self.env),
            user: self.user,
            timeout: self.timeout.map(|timeout| timeout.as_secs_f64()),
            rlimits: (!self.rlimits.is_empty()).then_some(self.rlimits),
            stdin: self.stdin.as_deref().map(base64),
            stdin_encoding: self.stdin.as_deref().map(|_| StdinEncoding::Base64),
            ..Default::default()
        };
        let info = self.client.api().cmd_background(&self.sandbox, &request).await?;
        Ok(Background { client: self.client, info })
    }

    async fn open(&self, stdin: bool, size: Option<(u16, u16)>) -> Result<Upgraded> {
        let request = CmdAttachRequest {
            command: self.command.clone(),
            cwd: self.cwd.clone(),
            env: (!self.env.is_empty()).then(|| self.env.clone()),
            user: self.user.clone(),
            timeout: self.timeout.map(|timeout| timeout.as_secs_f64()),
            tty: size.map(|_| true),
            rows: size.map(|(rows, _)| rows),
            cols: size.map(|(_, cols)| cols),
            stdin: Some(stdin),
            detach: Some(self.detach),
            exec_id: Some(self.id.clone()),
            rlimits: (!self.rlimits.is_empty()).then(|| self.rlimits.clone()),
            ..Default::default()
        };
        let begin = Instant::now();
        let mut was_lost = false;
        loop {
            let error = match self.client.api().cmd_attach(&self.sandbox, &request).await {
                Ok(upgraded) => return Ok(upgraded),
                Err(error) => error,
            };
            let is_back = |error: &Error| error.code() == Some("exec_exists");
            let waits = match &error {
                Error::Connect { .. } => self.client.has_answered(),
                Error::Lost { .. } => true,
                // It was heard the first time: this is the same command.
                error if is_back(error) && was_lost => return self.again(0, stdin).await,
                _ => false,
            };
            was_lost |= matches!(error, Error::Lost { .. });
            if !waits || begin.elapsed() > BACK {
                return Err(error.of_exec(&self.id));
            }
            sleep(TRY).await;
        }
    }

    /// Comes back to the command, wherever its output has got to.
    async fn again(&self, cursor: u64, stdin: bool) -> Result<Upgraded> {
        come_back(&self.client, &self.sandbox, &self.id, cursor, stdin).await
    }

    async fn run(self) -> Result<ExecOutput> {
        if self.stdin.as_ref().is_some_and(|bytes| bytes.len() > STDIN_MAX) {
            return self.collect().await;
        }
        let request = CmdRunRequest {
            command: self.command.clone(),
            cwd: self.cwd.clone(),
            env: (!self.env.is_empty()).then(|| self.env.clone()),
            user: self.user.clone(),
            timeout: self.timeout.map(|timeout| timeout.as_secs_f64()),
            detach: self.detach.then_some(true),
            exec_id: Some(self.id.clone()),
            rlimits: (!self.rlimits.is_empty()).then(|| self.rlimits.clone()),
            stdin: self.stdin.as_deref().map(base64),
            stdin_encoding: self.stdin.as_deref().map(|_| StdinEncoding::Base64),
            ..Default::default()
        };
        let path = format!("/sandboxes/{}/exec", escape(&self.sandbox));
        let begin = Instant::now();
        let mut was_lost = false;
        loop {
            let call = self.client.call(Method::POST, path.as_str()).json(&request)?;
            let error = match call.timeout(self.timeout.map(|timeout| timeout + GRACE)).send_json::<ExecResult>().await {
                Ok(result) => return self.exact(result).await,
                Err(error) => error,
            };
            // It was heard the first time: this is the same command.
            let was_heard = was_lost && error.code() == Some("exec_exists");
            if !matches!(error, Error::Lost { .. }) && !was_heard {
                return Err(error.of_exec(&self.id));
            }
            was_lost = true;
            match self.again(0, false).await {
                Ok(upgraded) => return self.output(ExecStream::new(&self, Link::Whole(upgraded), true).ended_with_us()).await,
                // It was never heard of, so it is sent again: under the same id it cannot run twice.
                Err(error) if error.code() == Some("exec_not_found") && begin.elapsed() < BACK => sleep(TRY).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Text has U+FFFD for what is none: then the bytes are had by the command's id, while they are kept.
    async fn exact(&self, result: ExecResult) -> Result<ExecOutput> {
        let mut output = ExecOutput::from(result, &self.id);
        if !output.stdout().contains('\u{fffd}') && !output.stderr().contains('\u{fffd}') {
            return Ok(output);
        }
        if let Ok(upgraded) = self.again(0, false).await {
            let (stdout, stderr, _) = gather(ExecStream::new(self, Link::Whole(upgraded), false)).await?;
            // Not when some of it is not kept any more.
            if same_text(&stdout, &output.stdout) && same_text(&stderr, &output.stderr) {
                (output.stdout, output.stderr) = (stdout, stderr);
            }
        }
        Ok(output)
    }

    async fn collect(self) -> Result<ExecOutput> {
        let events = self.clone().stream().await?;
        self.output(events).await
    }

    async fn output(&self, events: ExecStream) -> Result<ExecOutput> {
        let (stdout, stderr, end) = gather(events).await?;
        let output = ExecOutput {
            exit_code: end.exit_code,
            stdout,
            stderr,
            duration: end.duration,
            reason: end.reason,
            oom: end.oom,
            message: None,
            hint: None,
            truncated: end.truncated,
            exec_id: self.id.clone(),
        };
        if output.reason == Reason::Timeout {
            return Err(self.timed_out(&output));
        }
        Ok(output)
    }

    /// As the daemon says it of a command that is waited for.
    fn timed_out(&self, output: &ExecOutput) -> Error {
        let message = format!("Command timed out after {}ms", self.timeout.unwrap_or_default().as_millis());
        let body = serde_json::json!({
            "error": message, "code": "command_timeout", "execId": self.id, "exitCode": 124,
            "stdout": output.stdout(), "stderr": output.stderr(), "truncated": output.truncated,
        });
        Error::Api(Box::new(ApiError {
            code: "command_timeout".into(),
            status: 408,
            message,
            method: "POST".into(),
            path: format!("/sandboxes/{}/exec", self.sandbox),
            exec_id: Some(self.id.clone()),
            retry_after: None,
            body,
        }))
    }
}

impl IntoFuture for Exec {
    type Output = Result<ExecOutput>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

fn same_text(exact: &[u8], text: &[u8]) -> bool {
    String::from_utf8_lossy(exact).as_bytes() == text || exact.len() == OUTPUT_MAX
}

/// Attaches to a command that runs or ran; waits for a daemon that is away.
async fn come_back(client: &Client, sandbox: &str, id: &str, cursor: u64, stdin: bool) -> Result<Upgraded> {
    let request = CmdGetAttachRequest { cursor: Some(cursor as i64), stdin: Some(stdin), ..Default::default() };
    let begin = Instant::now();
    loop {
        match client.api().cmd_get_attach(sandbox, id, &request).await {
            Ok(upgraded) => return Ok(upgraded),
            // Nobody listens, or it does not know the sandbox yet, or the old connection has not been seen to end.
            Err(error) if (error.is_away() || matches!(error.status(), Some(409 | 503))) && begin.elapsed() < BACK => {
                sleep(TRY).await;
            }
            Err(error) => return Err(error.of_exec(id)),
        }
    }
}

async fn gather(mut events: ExecStream) -> Result<(Vec<u8>, Vec<u8>, End)> {
    let (mut stdout, mut stderr, mut is_cut) = (Vec::new(), Vec::new(), false);
    while let Some(event) = events.next().await {
        let (to, bytes) = match event? {
            ExecEvent::Stdout(bytes) => (&mut stdout, bytes),
            ExecEvent::Stderr(bytes) => (&mut stderr, bytes),
            ExecEvent::Lost(_) => {
                is_cut = true;
                continue;
            }
            ExecEvent::Started { .. } => continue,
            ExecEvent::Exited(mut end) => {
                end.truncated |= is_cut;
                return Ok((stdout, stderr, end));
            }
        };
        let room = OUTPUT_MAX - to.len();
        is_cut |= bytes.len() > room;
        to.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
    Err(Error::Protocol("the stream of a command has no end".into()))
}

/// What a command put out and how it ended.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ExecOutput {
    /// 128 and the signal's number after a signal.
    pub exit_code: i64,
    /// As it was written; [`stdout()`](Self::stdout) is the text of it.
    pub stdout: Vec<u8>,
    /// As it was written; [`stderr()`](Self::stderr) is the text of it.
    pub stderr: Vec<u8>,
    /// How long it ran.
    pub duration: Duration,
    /// Why it ended.
    pub reason: Reason,
    /// While it ran the kernel killed for lack of memory.
    pub oom: bool,
    /// How it ended, in words; `None` when it ended by itself.
    pub message: Option<String>,
    /// What may be the matter with one that failed.
    pub hint: Option<String>,
    /// There was more output than is kept.
    pub truncated: bool,
    /// By which it is known.
    pub exec_id: String,
}

impl ExecOutput {
    fn from(result: ExecResult, id: &str) -> Self {
        Self {
            exit_code: result.exit_code,
            stdout: result.stdout.into_bytes(),
            stderr: result.stderr.into_bytes(),
            duration: Duration::from_secs_f64((result.duration / 1000.0).max(0.0)),
            reason: result.reason,
            oom: result.oom.unwrap_or(false),
            message: result.message,
            hint: result.hint,
            truncated: result.truncated,
            exec_id: result.exec_id.unwrap_or_else(|| id.to_owned()),
        }
    }

    /// Did it end with 0?
    pub fn success(&self) -> bool {
        self.exit_code == 0
    }

    /// As text; what is no UTF-8 is replaced.
    pub fn stdout(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    /// As text; what is no UTF-8 is replaced.
    pub fn stderr(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }
}

impl fmt::Debug for ExecOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecOutput")
            .field("exit_code", &self.exit_code)
            .field("reason", &self.reason)
            .field("stdout", &self.stdout())
            .field("stderr", &self.stderr())
            .field("truncated", &self.truncated)
            .field("exec_id", &self.exec_id)
            .finish_non_exhaustive()
    }
}

/// What happens to a command.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ExecEvent {
    /// It runs, or is attached to.
    Started {
        /// In the sandbox.
        pid: u32,
    },
    /// A piece of its output.
    Stdout(Bytes),
    /// A piece of its other output.
    Stderr(Bytes),
    /// So many bytes of output are not kept any more.
    Lost(u64),
    /// The last one.
    Exited(End),
}

/// The connection of a stream: all of it, or what is left when the input has its own half.
enum Link {
    Whole(Upgraded),
    Half(ReadHalf<Upgraded>),
}

impl AsyncRead for Link {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut tokio::io::ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Whole(upgraded) => Pin::new(upgraded).poll_read(cx, to),
            Self::Half(half) => Pin::new(half).poll_read(cx, to),
        }
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum State {
    Reading(Reader<Link>),
    Back(Boxed<Result<Upgraded>>),
    Ended,
}

/// The events of a command, which end with [`ExecEvent::Exited`]. Dropping it ends the command, unless that is detached.
///
/// [`next`](Self::next) gives one after the other; it is a [`Stream`] too.
pub struct ExecStream {
    state: State,
    client: Client,
    sandbox: String,
    id: String,
    /// Of the output that has come.
    cursor: u64,
    /// After a lost connection it goes on by itself. Not with input: what of it has arrived nobody knows.
    comes_back: bool,
    /// The daemon does not end it when we leave, so we must say so.
    ends_with_us: bool,
    is_detached: bool,
    /// Sends the input that was given, and then keeps that half of the connection.
    feed: Option<Boxed<Option<ExecInput>>>,
    input: Option<ExecInput>,
}

impl ExecStream {
    fn new(exec: &Exec, link: Link, comes_back: bool) -> Self {
        Self::open(&exec.client, &exec.sandbox, &exec.id, link, comes_back, exec.detach)
    }

    fn open(client: &Client, sandbox: &str, id: &str, link: Link, comes_back: bool, is_detached: bool) -> Self {
        Self {
            state: State::Reading(Reader::new(link, format!("/sandboxes/{sandbox}/exec/attach"))),
            client: client.clone(),
            sandbox: sandbox.to_owned(),
            id: id.to_owned(),
            cursor: 0,
            comes_back,
            ends_with_us: false,
            is_detached,
            feed: None,
            input: None,
        }
    }

    fn ended_with_us(mut self) -> Self {
        self.ends_with_us = !self.is_detached;
        self
    }

    /// By which the command is known, also afterwards.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How many bytes of output have come: [`Sandbox::attach`](crate::Sandbox::attach) goes on there.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The next event; `None` after the end. It can be dropped and called again: nothing is lost.
    pub async fn next(&mut self) -> Option<Result<ExecEvent>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Waits for the end and passes over the output.
    pub async fn wait(mut self) -> Result<End> {
        while let Some(event) = self.next().await {
            if let ExecEvent::Exited(end) = event? {
                return Ok(end);
            }
        }
        Err(Error::Protocol("the stream of a command has no end".into()))
    }

    fn event(&mut self, frame: Frame) -> Result<ExecEvent> {
        Ok(match frame {
            Frame::Started { pid } => ExecEvent::Started { pid },
            Frame::Stdout(bytes) => {
                self.cursor += bytes.len() as u64;
                ExecEvent::Stdout(bytes)
            }
            Frame::Stderr(bytes) => {
                self.cursor += bytes.len() as u64;
                ExecEvent::Stderr(bytes)
            }
            Frame::Lost(count) => {
                self.cursor += count;
                ExecEvent::Lost(count)
            }
            Frame::Exit(end) => {
                self.finish();
                ExecEvent::Exited(end)
            }
            Frame::Error(error) => {
                self.finish();
                return Err(error.of_exec(&self.id));
            }
        })
    }

    fn finish(&mut self) {
        self.state = State::Ended;
        self.ends_with_us = false;
        self.feed = None;
        self.input = None;
    }

    /// The connection has ended, and the command has not been seen to.
    fn lost(&mut self, error: io::Error) -> Option<Error> {
        if self.comes_back {
            let (client, sandbox, id, cursor) = (self.client.clone(), self.sandbox.clone(), self.id.clone(), self.cursor);
            self.ends_with_us = !self.is_detached;
            self.state = State::Back(Box::pin(async move { come_back(&client, &sandbox, &id, cursor, false).await }));
            return None;
        }
        self.finish();
        Some(Error::lost("POST", &format!("/sandboxes/{}/exec/attach", self.sandbox), error).of_exec(&self.id))
    }
}

impl Stream for ExecStream {
    type Item = Result<ExecEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(feed) = &mut self.feed {
            if let Poll::Ready(input) = feed.as_mut().poll(cx) {
                self.input = input;
                self.feed = None;
            }
        }
        loop {
            match &mut self.state {
                State::Ended => return Poll::Ready(None),
                State::Back(future) => match ready!(future.as_mut().poll(cx)) {
                    Ok(upgraded) => {
                        let path = format!("/sandboxes/{}/exec/{}/attach", self.sandbox, self.id);
                        self.state = State::Reading(Reader::new(Link::Whole(upgraded), path));
                    }
                    Err(error) => {
                        self.finish();
                        return Poll::Ready(Some(Err(error)));
                    }
                },
                State::Reading(reader) => match ready!(reader.poll_frame(cx)) {
                    Ok(Some(frame)) => return Poll::Ready(Some(self.event(frame))),
                    end => {
                        let error = end.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into());
                        if let Some(error) = self.lost(error) {
                            return Poll::Ready(Some(Err(error)));
                        }
                    }
                },
            }
        }
    }
}

impl Drop for ExecStream {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.ends_with_us {
            let (client, sandbox, id) = (self.client.clone(), std::mem::take(&mut self.sandbox), std::mem::take(&mut self.id));
            runtime.spawn(async move {
                let _ = client.api().cmd_kill(&sandbox, &id).await;
            });
        }
    }
}

impl fmt::Debug for ExecStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecStream").field("id", &self.id).field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

/// A command with its input open. Dropping both parts ends it, unless it is detached.
#[derive(Debug)]
pub struct Attached {
    /// Bytes for it, and signals.
    pub input: ExecInput,
    /// What it puts out, and its end.
    pub events: ExecStream,
}

impl Attached {
    fn new(exec: &Exec, upgraded: Upgraded) -> Self {
        let (read, write) = split(upgraded);
        Self { input: ExecInput::new(write), events: ExecStream::new(exec, Link::Half(read), false) }
    }

    /// To one that runs already; leaving it again does not end it.
    pub(crate) async fn to(client: &Client, sandbox: &str, id: &str, cursor: u64) -> Result<Self> {
        let (read, write) = split(come_back(client, sandbox, id, cursor, true).await?);
        let mut events = ExecStream::open(client, sandbox, id, Link::Half(read), false, true);
        events.cursor = cursor;
        Ok(Self { input: ExecInput::new(write), events })
    }
}

/// The input of a command: what is written here it reads, and [`shutdown`](AsyncWriteExt::shutdown) is the end of it.
#[derive(Debug)]
pub struct ExecInput {
    to: WriteHalf<Upgraded>,
    /// Frames that are not written yet. There is room for another as long as there are none.
    output: BytesMut,
    has_ended: bool,
}

impl ExecInput {
    fn new(to: WriteHalf<Upgraded>) -> Self {
        Self { to, output: BytesMut::new(), has_ended: false }
    }

    /// Sends a signal, by its number, to all processes of the command.
    pub async fn signal(&mut self, number: u32) -> io::Result<()> {
        self.send(frames::SIGNAL, &number.to_le_bytes()).await
    }

    /// The terminal has another size.
    pub async fn resize(&mut self, rows: u16, cols: u16) -> io::Result<()> {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&u32::from(rows).to_le_bytes());
        payload[4..].copy_from_slice(&u32::from(cols).to_le_bytes());
        self.send(frames::RESIZE, &payload).await
    }

    async fn send(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        frames::put(&mut self.output, kind, payload);
        self.flush().await
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let count = ready!(Pin::new(&mut self.to).poll_write(cx, &self.output))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let _ = self.output.split_to(count);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ExecInput {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_drain(cx))?;
        let count = bytes.len().min(INPUT_MAX);
        if count > 0 {
            frames::put(&mut self.output, frames::STDIN, &bytes[..count]);
            if let Poll::Ready(Err(error)) = self.poll_drain(cx) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.to).poll_flush(cx)
    }

    /// An empty frame is the end of the input; the connection stays, for the output.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.has_ended {
            self.has_ended = true;
            frames::put(&mut self.output, frames::STDIN, &[]);
        }
        self.poll_flush(cx)
    }
}

/// A command that was left running.
#[derive(Debug, Clone)]
pub struct Background {
    client: Client,
    info: BackgroundExec,
}

impl Background {
    /// One that was started before, by its id.
    pub(crate) async fn get(client: &Client, id: &str) -> Result<Self> {
        Ok(Self { client: client.clone(), info: client.api().cmd_background_status(id).await? })
    }

    /// `bg_` and 24 hex digits.
    pub fn id(&self) -> &str {
        &self.info.id
    }

    /// How it was when it was last asked for.
    pub fn info(&self) -> &BackgroundExec {
        &self.info
    }

    /// How it is now.
    pub async fn status(&mut self) -> Result<&BackgroundExec> {
        self.info = self.client.api().cmd_background_status(&self.info.id).await?;
        Ok(&self.info)
    }

    /// Its output from a cursor on, both streams as text.
    pub async fn logs(&self, cursor: i64) -> Result<ExecLogs> {
        self.client
            .api()
            .cmd_background_logs(&self.info.id, &CmdBackgroundLogsQuery { cursor: Some(cursor), ..Default::default() })
            .await
    }

    /// Waits for its end, and gives how it ended and what it put out, both streams in one.
    pub async fn wait(mut self) -> Result<(BackgroundExec, String)> {
        let mut output = String::new();
        let mut cursor = 0;
        let mut tries = 0;
        while let Err(error) = self.follow(&mut output, &mut cursor).await {
            // The daemon was restarted: the calls wait for it themselves.
            tries += 1;
            if !error.is_away() || tries > 10 {
                return Err(error);
            }
        }
        self.status().await?;
        Ok((self.info, output))
    }

    async fn follow(&self, output: &mut String, cursor: &mut i64) -> Result<()> {
        let query = CmdGetStreamQuery { cursor: Some(*cursor), ..Default::default() };
        let mut events = self.client.api().cmd_get_stream(&self.info.sandbox_id, &self.info.id, &query).await?;
        while let Some(event) = events.next().await {
            let event = event?;
            *cursor = event.cursor.unwrap_or(*cursor);
            match event.r#type {
                ExecEventType::Stdout | ExecEventType::Stderr => output.push_str(&event.data),
                ExecEventType::Exit | ExecEventType::Error => return Ok(()),
                _ => {}
            }
        }
        Err(Error::lost("GET", &format!("/exec/{}/stream", self.info.id), io::Error::from(io::ErrorKind::UnexpectedEof)))
    }

    /// Ends it, with all that it started.
    pub async fn kill(&self) -> Result<()> {
        self.client.api().cmd_kill(&self.info.sandbox_id, &self.info.id).await.map(drop)
    }
}
