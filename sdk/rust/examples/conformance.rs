//! The adapter by which the cases of sdk/conformance reach this crate: a JSON object a line on stdin, one a line on stdout.
//! It translates and does nothing else.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use cay::types::*;
use cay::{Client, Error, ExecEvent, Payload, Sandbox};
use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::AbortHandle;

const SHORT: usize = 64 << 10;

/// What an operation fails with: an error of the crate, or one that only adapters know.
enum Failure {
    Of(Error),
    Own(&'static str, String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Of(error)
    }
}

type Answer = Result<Value, Failure>;

impl Failure {
    fn json(&self) -> Value {
        match self {
            Self::Own(code, message) => json!({"code": code, "message": message}),
            Self::Of(Error::Api(api)) => {
                let mut told = json!({"code": api.code, "status": api.status, "message": api.message});
                for key in ["stdout", "stderr"] {
                    if let Some(text) = api.text(key) {
                        told[key] = text.into();
                    }
                }
                told
            }
            Self::Of(Error::Invalid(message)) => json!({"code": "invalid", "status": 400, "message": message}),
            Self::Of(error) => json!({"code": "unreachable", "message": error.to_string()}),
        }
    }
}

/// Reads the arguments of an operation; those that it does not name are an error.
macro_rules! args {
    ($args:ident, $($name:ident: $kind:ty),* $(,)?) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Args { $($name: $kind),* }
        let Args { $($name),* } = read($args)?;
    };
}

fn read<T: DeserializeOwned>(args: Value) -> Result<T, Failure> {
    serde_json::from_value(args).map_err(|error| Failure::Own("bad_args", error.to_string()))
}

// ---- data ----

#[derive(Deserialize, Clone)]
#[serde(untagged)]
enum Data {
    Base64 { base64: String },
    Pattern { pattern: usize, size: u64 },
}

/// 64 KiB of the pattern, after which it begins again.
fn block(n: usize) -> Bytes {
    (0..SHORT).map(|i| (i * 31 + (i >> 8) * 17 + n) as u8).collect::<Vec<_>>().into()
}

struct Pattern {
    block: Bytes,
    left: u64,
}

impl futures_core::Stream for Pattern {
    type Item = std::io::Result<Bytes>;

    fn poll_next(mut self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<Option<Self::Item>> {
        let count = self.left.min(SHORT as u64);
        self.left -= count;
        std::task::Poll::Ready((count > 0).then(|| Ok(self.block.slice(..count as usize))))
    }
}

impl Data {
    fn payload(self) -> Result<Payload, Failure> {
        Ok(match self {
            Self::Base64 { base64 } => from_base64(&base64)?.into(),
            Self::Pattern { pattern, size } => Payload::stream(Pattern { block: block(pattern), left: size }, Some(size)),
        })
    }

    fn bytes(self) -> Result<Vec<u8>, Failure> {
        Ok(match self {
            Self::Base64 { base64 } => from_base64(&base64)?,
            Self::Pattern { pattern, size } => block(pattern).iter().copied().cycle().take(size as usize).collect(),
        })
    }
}

fn from_base64(text: &str) -> Result<Vec<u8>, Failure> {
    let (mut bytes, mut word, mut bits) = (Vec::new(), 0u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(Failure::Own("bad_args", "this is no base64".into())),
        };
        (word, bits) = (word << 6 | u32::from(value), bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
        }
    }
    Ok(bytes)
}

fn to_base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |piece: &[u8], i: usize| {
        let word = piece.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - piece.len()));
        if i <= piece.len() {
            LETTERS[(word >> (18 - 6 * i)) as usize & 63] as char
        } else {
            '='
        }
    };
    bytes.chunks(3).flat_map(|piece| (0..4).map(move |i| letter(piece, i))).collect()
}

/// Data of a result, gathered piece by piece: the beginning is kept, all of it counted and digested.
#[derive(Default)]
struct Told {
    start: Vec<u8>,
    size: u64,
    digest: hmac_sha256::Hash,
}

impl Told {
    fn add(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
        self.digest.update(bytes);
        let room = (SHORT + 1).saturating_sub(self.start.len());
        self.start.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn json(self, is_exact: bool) -> Value {
        if self.size > SHORT as u64 {
            let digest: String = self.digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            return json!({"size": self.size, "sha256": digest});
        }
        match String::from_utf8(self.start) {
            Ok(text) => text.into(),
            Err(error) if is_exact => json!({"base64": to_base64(error.as_bytes())}),
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned().into(),
        }
    }
}

fn told(bytes: &[u8], is_exact: bool) -> Value {
    let mut told = Told::default();
    match is_exact {
        true => told.add(bytes),
        false => told.add(String::from_utf8_lossy(bytes).as_bytes()),
    }
    told.json(is_exact)
}

// ---- operations ----

fn sandbox_json(sandbox: &cay::SandboxInfo) -> Value {
    json!({"id": sandbox.id, "name": sandbox.name, "image": sandbox.image, "status": sandbox.status, "metadata": sandbox.metadata})
}

fn status_json(sandbox: &cay::SandboxInfo) -> Answer {
    Ok(json!({"status": sandbox.status}))
}

fn ids<'a>(ids: impl Iterator<Item = &'a String>) -> Answer {
    Ok(json!({"ids": ids.collect::<Vec<_>>()}))
}

/// As most do: the sandbox that is meant, and what else there is to say of it.
async fn find(client: &Client, sandbox: &str) -> Result<Sandbox, Failure> {
    Ok(client.get(sandbox).await?)
}

async fn perform(client: &Client, op: &str, args: Value) -> Answer {
    match op.split('_').next().unwrap_or(op) {
        "create" | "get" | "list" if !op.contains('_') => life(client, op, args).await,
        "pause" | "resume" | "stop" | "start" | "renew" | "kill" | "clone" | "connect" => life(client, op, args).await,
        "exec" | "background" => commands(client, op, args).await,
        "env" | "process" | "run" | "context" | "git" => inside(client, op, args).await,
        "snapshot" | "restore" | "queue" | "port" | "volume" | "network" => beside(client, op, args).await,
        "event" | "events" | "alert" | "metrics" | "template" | "logs" | "terminal" => told_of(client, op, args).await,
        _ if matches!(op, "list_snapshots" | "delete_snapshot") => beside(client, op, args).await,
        _ => files(client, op, args).await,
    }
}

async fn create(client: &Client, args: Value) -> Answer {
    args!(
        args,
        image: Option<String>,
        name: Option<String>,
        unique: Option<bool>,
        timeout: Option<i64>,
        memory: Option<i64>,
        cpu: Option<f64>,
        env: Option<BTreeMap<String, String>>,
        workdir: Option<String>,
        metadata: Option<BTreeMap<String, String>>,
        template: Option<String>,
        network: Option<NetworkSetting>,
        entrypoint: Option<Vec<String>>
    );
    let image = image.or_else(|| template.is_none().then(|| "host".into()));
    let request = SandboxCreateRequest {
        image,
        name,
        unique,
        timeout,
        memory,
        cpu,
        env,
        workdir,
        metadata,
        template,
        network,
        entrypoint,
        ..Default::default()
    };
    Ok(sandbox_json(client.create("").request(request).await?.info()))
}

async fn life(client: &Client, op: &str, args: Value) -> Answer {
    match op {
        "create" => create(client, args).await,
        "list" => {
            args!(args, metadata: Option<BTreeMap<String, String>>, status: Option<String>);
            let query = SandboxListQuery { metadata, status: status.map(|word| word.as_str().into()), ..Default::default() };
            ids(client.list_where(query).await?.iter().map(|sandbox| &sandbox.info().id))
        }
        "connect" => {
            args!(args, url: Option<String>, token: Option<String>);
            let mut builder = Client::builder();
            if let Some(url) = url {
                builder = builder.address(url);
            }
            if let Some(token) = token {
                builder = builder.token(token);
            }
            builder.build()?.list().await?;
            Ok(json!({}))
        }
        "renew" => {
            args!(args, sandbox: String, timeout: u64);
            let info = find(client, &sandbox).await?.renew(Duration::from_secs(timeout)).await?;
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later").as_millis() as i64;
            Ok(json!({"expires_in": (info.expires_at - now).div_euclid(1000)}))
        }
        "clone" => {
            args!(args, sandbox: String, name: Option<String>);
            Ok(sandbox_json(find(client, &sandbox).await?.clone_sandbox(name.as_deref()).await?.info()))
        }
        _ => {
            args!(args, sandbox: String);
            let sandbox = find(client, &sandbox).await?;
            match op {
                "get" => Ok(sandbox_json(sandbox.info())),
                "pause" => status_json(&sandbox.pause().await?),
                "resume" => status_json(&sandbox.resume().await?),
                "stop" => status_json(&sandbox.stop().await?),
                "start" => status_json(&sandbox.start().await?),
                "kill" => Ok(sandbox.kill().await.map(|()| json!({}))?),
                _ => unsupported(op),
            }
        }
    }
}

fn unsupported(op: &str) -> Answer {
    Err(Failure::Own("unsupported_op", format!("there is no {op}")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecArgs {
    sandbox: String,
    command: Command,
    cwd: Option<String>,
    env: Option<BTreeMap<String, String>>,
    user: Option<String>,
    timeout: Option<f64>,
    stdin: Option<Data>,
    bytes: Option<bool>,
    cancel_after_bytes: Option<u64>,
}

async fn exec(client: &Client, args: ExecArgs) -> Result<cay::Exec, Failure> {
    let mut exec = find(client, &args.sandbox).await?.exec(args.command);
    if let Some(cwd) = args.cwd {
        exec = exec.cwd(cwd);
    }
    for (name, value) in args.env.unwrap_or_default() {
        exec = exec.env(name, value);
    }
    if let Some(user) = args.user {
        exec = exec.user(user);
    }
    if let Some(timeout) = args.timeout {
        let timeout = Duration::try_from_secs_f64(timeout).map_err(|error| Error::Invalid(error.to_string()))?;
        exec = exec.timeout(timeout);
    }
    if let Some(stdin) = args.stdin {
        exec = exec.stdin(stdin.bytes()?);
    }
    Ok(exec)
}

async fn commands(client: &Client, op: &str, args: Value) -> Answer {
    match op {
        "exec" => {
            let args: ExecArgs = read(args)?;
            let is_exact = args.bytes.unwrap_or(false);
            let output = exec(client, args).await?.await?;
            Ok(json!({
                "exit_code": output.exit_code, "reason": output.reason, "truncated": output.truncated,
                "stdout": told(&output.stdout, is_exact), "stderr": told(&output.stderr, is_exact),
            }))
        }
        "exec_stream" => stream(client, read(args)?).await,
        "background" => {
            args!(args, sandbox: String, command: Command);
            Ok(json!({"exec_id": find(client, &sandbox).await?.exec(command).background().await?.id()}))
        }
        "background_wait" => {
            args!(args, sandbox: String, exec_id: String);
            let (end, output) = find(client, &sandbox).await?.background(&exec_id).await?.wait().await?;
            Ok(json!({"exit_code": end.exit_code, "stdout": told(output.as_bytes(), false)}))
        }
        _ => unsupported(op),
    }
}

async fn stream(client: &Client, args: ExecArgs) -> Answer {
    let (enough, is_exact) = (args.cancel_after_bytes, args.bytes.unwrap_or(false));
    let mut events = exec(client, args).await?.stream().await?;
    let (mut stdout, mut stderr) = (Told::default(), Told::default());
    while let Some(event) = events.next().await {
        match event? {
            ExecEvent::Stdout(bytes) => stdout.add(&bytes),
            ExecEvent::Stderr(bytes) => stderr.add(&bytes),
            ExecEvent::Exited(end) => {
                return Ok(json!({
                    "exit_code": end.exit_code, "reason": end.reason,
                    "stdout": stdout.json(is_exact), "stderr": stderr.json(is_exact),
                }))
            }
            _ => {}
        }
        if enough.is_some_and(|enough| stdout.size >= enough) {
            return Ok(json!({"cancelled": true}));
        }
    }
    Err(Failure::Own("unreachable", "the stream has no end".into()))
}

/// Either half of the crate's files, by what the caller may reach.
macro_rules! either {
    ($files:expr, $anywhere:expr, $name:ident($($arg:expr),*)) => {
        match $anywhere {
            Some(true) => $files.anywhere().$name($($arg),*).await?,
            _ => $files.$name($($arg),*).await?,
        }
    };
}

async fn files(client: &Client, op: &str, args: Value) -> Answer {
    match op {
        "write_file" => {
            args!(args, sandbox: String, path: String, content: String, anywhere: Option<bool>);
            either!(find(client, &sandbox).await?.filesystem(), anywhere, write(&path, &content));
        }
        "upload" => {
            args!(args, sandbox: String, path: String, bytes: Data, mode: Option<String>, anywhere: Option<bool>);
            let (sandbox, payload) = (find(client, &sandbox).await?, bytes.payload()?);
            either!(sandbox.filesystem(), anywhere, upload_mode(&path, payload, mode.as_deref()));
        }
        "move_file" => {
            args!(args, sandbox: String, from: String, to: String, anywhere: Option<bool>);
            either!(find(client, &sandbox).await?.filesystem(), anywhere, rename(&from, &to));
        }
        "chmod" => {
            args!(args, sandbox: String, path: String, mode: String);
            find(client, &sandbox).await?.filesystem().chmod(&path, &mode).await?;
        }
        "search" => {
            args!(args, sandbox: String, pattern: String, dir: Option<String>);
            let paths = find(client, &sandbox).await?.filesystem().search(&pattern, dir.as_deref()).await?;
            return Ok(json!({ "paths": paths }));
        }
        "list_files" => {
            args!(args, sandbox: String, path: Option<String>, anywhere: Option<bool>);
            let path = path.unwrap_or_else(|| ".".into());
            let list = either!(find(client, &sandbox).await?.filesystem(), anywhere, list(&path));
            return Ok(json!({"names": list.iter().map(|file| &file.name).collect::<Vec<_>>()}));
        }
        "read_file" | "download" | "stat" | "mkdir" | "remove_file" | "remove_dir" => {
            args!(args, sandbox: String, path: String, anywhere: Option<bool>);
            let sandbox = find(client, &sandbox).await?;
            return path_call(&sandbox, op, &path, anywhere).await;
        }
        _ => return unsupported(op),
    }
    Ok(json!({}))
}

async fn path_call(sandbox: &Sandbox, op: &str, path: &str, anywhere: Option<bool>) -> Answer {
    let files = sandbox.filesystem();
    match op {
        "read_file" => return Ok(json!({ "content": either!(files, anywhere, read(path)) })),
        "download" => {
            let mut bytes = either!(files, anywhere, download_stream(path));
            let mut told = Told::default();
            while let Some(piece) = bytes.next().await {
                told.add(&piece?);
            }
            return Ok(json!({"bytes": told.json(true)}));
        }
        "stat" => {
            let meta = either!(files, anywhere, info(path));
            let kind = if meta.is_directory {
                "directory"
            } else if meta.is_symlink {
                "link"
            } else {
                "file"
            };
            return Ok(json!({"kind": kind, "size": meta.size, "permissions": meta.permissions}));
        }
        "mkdir" => either!(files, anywhere, mkdir(path)),
        "remove_file" => either!(files, anywhere, delete(path)),
        _ => either!(files, anywhere, rmdir(path)),
    }
    Ok(json!({}))
}

async fn inside(client: &Client, op: &str, args: Value) -> Answer {
    match op {
        "env_set" => {
            args!(args, sandbox: String, vars: BTreeMap<String, String>);
            find(client, &sandbox).await?.env().set(vars).await?;
        }
        "env_get" => {
            args!(args, sandbox: String, key: String);
            let value = find(client, &sandbox).await?.env().get(&key).await?;
            return Ok(json!({"exists": value.is_some(), "value": value}));
        }
        "env_list" => {
            args!(args, sandbox: String);
            return Ok(json!({"vars": find(client, &sandbox).await?.env().list().await?}));
        }
        "env_delete" => {
            args!(args, sandbox: String, key: String);
            find(client, &sandbox).await?.env().delete(&key).await?;
        }
        "process_list" => {
            args!(args, sandbox: String);
            let list = find(client, &sandbox).await?.processes().list().await?;
            let list: Vec<_> = list.iter().map(|process| json!({"pid": process.pid, "command": process.command})).collect();
            return Ok(json!({ "processes": list }));
        }
        "process_kill" => {
            args!(args, sandbox: String, pid: i64, signal: Option<String>);
            find(client, &sandbox).await?.processes().kill(pid, signal.as_deref()).await?;
        }
        "run_code" => {
            args!(args, sandbox: String, code: String, language: Option<String>, context: Option<String>);
            let request = InterpExecuteRequest { code, language, context_id: context, ..Default::default() };
            let done = find(client, &sandbox).await?.interpreter().execute(request).await?;
            return Ok(json!({"output": done.output, "error": done.error}));
        }
        "context_create" => {
            args!(args, sandbox: String, language: Option<String>);
            let request = InterpContextCreateRequest { language, ..Default::default() };
            return Ok(json!({"id": find(client, &sandbox).await?.interpreter().create_context(request).await?.id}));
        }
        "context_delete" => {
            args!(args, sandbox: String, context: String);
            find(client, &sandbox).await?.interpreter().delete_context(&context).await?;
        }
        _ => return git(client, op, args).await,
    }
    Ok(json!({}))
}

async fn git(client: &Client, op: &str, args: Value) -> Answer {
    match op {
        "git_clone" => {
            args!(args, sandbox: String, url: String, path: Option<String>, branch: Option<String>, depth: Option<i64>);
            let options = GitCloneRequest { path, branch, depth, ..Default::default() };
            Ok(json!({"exit_code": find(client, &sandbox).await?.git().clone_repo(&url, options).await?.exit_code}))
        }
        "git_status" => {
            args!(args, sandbox: String, path: Option<String>);
            let status = find(client, &sandbox).await?.git().status(path.as_deref()).await?;
            let files: Vec<_> = status.files.iter().map(|file| json!({"path": file.path, "status": file.status})).collect();
            Ok(json!({"branch": status.branch, "clean": status.clean, "files": files}))
        }
        "git_commit" => {
            args!(args, sandbox: String, message: String, path: Option<String>, all: Option<bool>);
            let options = GitCommitRequest { path, all, ..Default::default() };
            Ok(json!({"exit_code": find(client, &sandbox).await?.git().commit(&message, options).await?.exit_code}))
        }
        "git_log" => {
            args!(args, sandbox: String, path: Option<String>, count: Option<i64>);
            let entries = find(client, &sandbox).await?.git().log(GitLogQuery { path, count }).await?;
            Ok(json!({"messages": entries.iter().map(|entry| &entry.message).collect::<Vec<_>>()}))
        }
        "git_diff" => {
            args!(args, sandbox: String, path: Option<String>, staged: Option<bool>);
            let options = GitDiffQuery { path, staged, ..Default::default() };
            Ok(json!({"diff": find(client, &sandbox).await?.git().diff(options).await?.diff}))
        }
        _ => unsupported(op),
    }
}

/// What the crate cannot even be asked is what the daemon calls invalid.
fn port_number(number: i64) -> Result<u16, Failure> {
    Ok(u16::try_from(number).map_err(|error| Error::Invalid(error.to_string()))?)
}

async fn beside(client: &Client, op: &str, args: Value) -> Answer {
    match op {
        "snapshot" => {
            args!(args, sandbox: String, name: Option<String>);
            return Ok(json!({"id": find(client, &sandbox).await?.snapshot(name.as_deref()).await?.id}));
        }
        "list_snapshots" => {
            args!(args, sandbox: String);
            return ids(find(client, &sandbox).await?.list_snapshots().await?.iter().map(|snapshot| &snapshot.id));
        }
        "restore" => {
            args!(args, sandbox: String, snapshot: String);
            return status_json(&find(client, &sandbox).await?.restore(&snapshot).await?);
        }
        "delete_snapshot" => {
            args!(args, snapshot: String);
            client.api().snapshot_delete(&snapshot).await?;
        }
        "queue_submit" => {
            args!(args, sandbox: String, command: Command, max_retries: Option<i64>, timeout: Option<f64>);
            let options = QueueSubmitRequest { max_retries, timeout, ..Default::default() };
            let job = find(client, &sandbox).await?.queue().submit(command, options).await?;
            return Ok(json!({"id": job.id, "status": job.status}));
        }
        "queue_status" => {
            args!(args, job: String);
            let job = client.api().queue_status(&job).await?;
            let mut told = json!({"status": job.status});
            if let Some(result) = job.result {
                told["exit_code"] = json!(result.exit_code);
                told["stdout"] = json!(result.stdout);
                told["stderr"] = json!(result.stderr);
            }
            return Ok(told);
        }
        "queue_cancel" => {
            args!(args, job: String);
            client.api().queue_cancel(&job).await?;
        }
        "port_expose" => {
            args!(args, sandbox: String, port: i64, host_port: Option<i64>);
            let (port, host_port) = (port_number(port)?, host_port.map(port_number).transpose()?);
            let port = find(client, &sandbox).await?.ports().expose(port, host_port, None).await?;
            return Ok(json!({"port": port.container_port, "host_port": port.host_port}));
        }
        "port_list" => {
            args!(args, sandbox: String);
            let ports = find(client, &sandbox).await?.ports().list().await?;
            return Ok(json!({"ports": ports.iter().map(|port| port.container_port).collect::<Vec<_>>()}));
        }
        "port_unexpose" => {
            args!(args, sandbox: String, port: i64);
            find(client, &sandbox).await?.ports().unexpose(port_number(port)?).await?;
        }
        _ if op.starts_with("volume") => return volumes(client, op, args).await,
        _ => return networks(client, op, args).await,
    }
    Ok(json!({}))
}

async fn volumes(client: &Client, op: &str, args: Value) -> Answer {
    match op {
        "volume_create" => {
            args!(args, name: String, size_mb: Option<i64>);
            let volume = client.volumes().create(&name, size_mb).await?;
            return Ok(json!({"id": volume.id, "name": volume.name}));
        }
        "volume_list" => {
            args!(args,);
            return ids(client.volumes().list().await?.iter().map(|volume| &volume.id));
        }
        "volume_attach" => {
            args!(args, volume: String, sandbox: String, path: String);
            client.volumes().attach(&volume, &sandbox, &path).await?;
        }
        "volume_detach" => {
            args!(args, volume: String, sandbox: Option<String>);
            client.volumes().detach(&volume, sandbox.as_deref()).await?;
        }
        "volume_delete" => {
            args!(args, volume: String);
            client.volumes().delete(&volume).await?;
        }
        _ => return unsupported(op),
    }
    Ok(json!({}))
}

async fn networks(client: &Client, op: &str, args: Value) -> Answer {
    match op {
        "network_create" => {
            args!(args, name: String);
            let network = client.networks().create(&name).await?;
            return Ok(json!({"id": network.id, "name": network.name}));
        }
        "network_list" => {
            args!(args,);
            return ids(client.networks().list().await?.iter().map(|network| &network.id));
        }
        "network_connect" => {
            args!(args, network: String, sandbox: String);
            client.networks().connect(&network, &sandbox).await?;
        }
        "network_disconnect" => {
            args!(args, network: String, sandbox: String);
            client.networks().disconnect(&network, &sandbox).await?;
        }
        "network_delete" => {
            args!(args, network: String);
            client.networks().delete(&network).await?;
        }
        _ => return unsupported(op),
    }
    Ok(json!({}))
}

async fn told_of(client: &Client, op: &str, args: Value) -> Answer {
    match op {
        "event_publish" => {
            args!(args, topic: String, sandbox: String, data: Option<BTreeMap<String, Value>>);
            return Ok(json!({"id": client.events().publish(&topic, &sandbox, data.unwrap_or_default()).await?.id}));
        }
        "events" => {
            args!(args, sandbox: Option<String>, topic: Option<String>);
            let options = EventHistoryQuery { sandbox_id: sandbox, topic, ..Default::default() };
            let events = client.events().history(options).await?.events;
            return Ok(json!({"topics": events.iter().map(|event| &event.topic).collect::<Vec<_>>()}));
        }
        "alert_set" => {
            args!(args, sandbox: String, metric: String, threshold: f64, action: Option<String>);
            let action = action.map(|word| word.as_str().into());
            let alert = find(client, &sandbox).await?.monitor().set_alert(metric.as_str(), threshold, action).await?;
            return Ok(json!({"id": alert.id}));
        }
        "alert_list" => {
            args!(args, sandbox: String);
            return ids(find(client, &sandbox).await?.monitor().list_alerts().await?.iter().map(|alert| &alert.id));
        }
        "alert_delete" => {
            args!(args, alert: String);
            client.api().monitor_delete_alert(&alert).await?;
        }
        "metrics" => {
            args!(args, sandbox: String);
            let metrics = find(client, &sandbox).await?.metrics().await?;
            return Ok(json!({"memory_limit_mb": metrics.memory_limit_mb, "pids": metrics.pids}));
        }
        "template_list" => {
            args!(args,);
            return Ok(json!({"names": client.templates().await?.iter().map(|template| &template.name).collect::<Vec<_>>()}));
        }
        "logs" => return logs(client, args).await,
        "terminal" => return terminal(client, args).await,
        _ => return unsupported(op),
    }
    Ok(json!({}))
}

async fn logs(client: &Client, args: Value) -> Answer {
    args!(args, sandbox: String, tail: Option<i64>);
    let mut events = find(client, &sandbox).await?.streams().logs(tail, false).await?;
    let mut lines = Vec::new();
    while let Some(event) = events.next().await {
        let event = event?;
        if event.r#type != LogEventType::End {
            lines.push(event.data);
        }
    }
    Ok(json!({ "lines": lines }))
}

async fn terminal(client: &Client, args: Value) -> Answer {
    args!(args, sandbox: String, input: String, until: String, cols: Option<u16>, rows: Option<u16>);
    let sandbox = find(client, &sandbox).await?;
    let made = sandbox.terminal().create(TerminalCreateRequest { cols, rows, ..Default::default() }).await?;
    let mut session = sandbox.terminal().connect(&made.session_id).await?;
    session.write(input).await?;
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains(&until) {
        match session.read().await? {
            Some(bytes) => shown.extend_from_slice(&bytes),
            None => return Err(Failure::Own("unreachable", "the terminal has ended".into())),
        }
    }
    sandbox.terminal().close(&made.session_id).await?;
    Ok(json!({"seen": true}))
}

// ---- lines ----

type Pending = Arc<Mutex<HashMap<i64, AbortHandle>>>;

fn answer(id: i64, what: Answer) {
    let line = match what {
        Ok(value) => json!({"id": id, "ok": value}),
        Err(failure) => json!({"id": id, "error": failure.json()}),
    };
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[derive(Deserialize)]
struct Request {
    id: i64,
    op: String,
    #[serde(default)]
    args: Value,
}

#[derive(Deserialize)]
struct CancelArgs {
    id: i64,
}

fn cancel(pending: &Pending, request: Request) {
    let Ok(CancelArgs { id }) = serde_json::from_value(request.args) else {
        return answer(request.id, Err(Failure::Own("bad_args", "which one?".into())));
    };
    // Who takes it out of the table answers for it.
    if let Some(handle) = pending.lock().expect("nobody panics").remove(&id) {
        handle.abort();
        answer(id, Err(Failure::Own("cancelled", "it was cancelled".into())));
    }
    answer(request.id, Ok(json!({})));
}

fn start(client: &Client, pending: &Pending, request: Request) {
    let (client, waiting) = (client.clone(), pending.clone());
    let mut table = pending.lock().expect("nobody panics");
    let task = tokio::spawn(async move {
        let args = if request.args.is_null() { json!({}) } else { request.args };
        let what = perform(&client, &request.op, args).await;
        if waiting.lock().expect("nobody panics").remove(&request.id).is_some() {
            answer(request.id, what);
        }
    });
    table.insert(request.id, task.abort_handle());
}

#[tokio::main]
async fn main() -> cay::Result<()> {
    let client = Client::new()?;
    let pending = Pending::default();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str::<Request>(&line) {
            Ok(request) if request.op == "cancel" => cancel(&pending, request),
            Ok(request) => start(&client, &pending, request),
            Err(error) => eprintln!("{error}: {line}"),
        }
    }
    Ok(())
}
