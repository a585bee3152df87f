// Made by tools/generate.py from the daemon's /openapi.json. Do not edit: run that again.

//! What the daemon is sent and what it answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::open::{event_enum, open_enum};
pub use crate::open::{Command, NetworkSetting};

/// What happens to a connection to an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AddressVerdict {
    /// Of the name.
    pub address: String,
    /// Whether it can be reached.
    pub allowed: bool,
    /// As in the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspect: Option<bool>,
    /// As in the verdict.
    pub rule: i64,
    /// For people.
    pub why: String,
    /// The sandbox was given this address for the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
}

/// A threshold for what a sandbox uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Alert {
    /// alrt_ and 24 hex digits.
    pub id: String,
    /// Whose.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// What is looked at.
    pub metric: Metric,
    /// Percent of what the sandbox may use; of pids how many.
    pub threshold: f64,
    /// What is done when it fires.
    pub action: AlertAction,
    /// It has fired, and the value was not below since.
    pub triggered: bool,
    /// Unix milliseconds.
    #[serde(rename = "lastChecked", default, skip_serializing_if = "Option::is_none")]
    pub last_checked: Option<i64>,
    /// Unix milliseconds.
    #[serde(rename = "lastTriggered", default, skip_serializing_if = "Option::is_none")]
    pub last_triggered: Option<i64>,
    /// Unix milliseconds.
    #[serde(rename = "createdAt")]
    pub created_at: i64,
}

open_enum! {
    /// What `action` can be.
    AlertAction,
    Notify = "notify",
    Pause = "pause",
    Kill = "kill",
}

/// An alert is gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AlertDeleted {
    /// Its id.
    pub deleted: String,
}

/// An alert has fired.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AlertEvent {
    /// Which has fired.
    #[serde(rename = "alertId")]
    pub alert_id: String,
    /// Whose.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// What is looked at.
    pub metric: Metric,
    /// Percent of what the sandbox may use; of pids how many.
    pub threshold: f64,
    /// What is done when it fires.
    pub action: AlertAction,
    /// What it was then.
    pub value: f64,
    /// Unix milliseconds.
    pub timestamp: i64,
}

/// When alerts of a sandbox have fired.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AlertHistory {
    /// The newest first.
    pub events: Vec<AlertEvent>,
    /// How many are kept; 100 at most.
    pub total: i64,
}

/// Alerts of a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AlertList {
    /// The newest first.
    pub alerts: Vec<Alert>,
}

/// How an attached command ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttachEnd {
    /// 128 and the signal's number after a signal.
    #[serde(rename = "exitCode")]
    pub exit_code: i64,
    /// Why it ended.
    pub reason: Reason,
    /// True when the kernel killed for lack of memory while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<bool>,
    /// How it ended, in words; absent when it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Milliseconds.
    pub duration: f64,
    /// Bytes of output that were not kept.
    #[serde(rename = "lostStdout")]
    pub lost_stdout: i64,
    /// Bytes of output that were not kept.
    #[serde(rename = "lostStderr")]
    pub lost_stderr: i64,
}

/// What happens to an attached command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttachEvent {
    /// In the sandbox: it has started, or the caller is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i64>,
    /// Bytes of output that are not kept any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<i64>,
}

/// A line of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// Number of the line.
    pub n: i64,
    /// Unix milliseconds.
    pub time: i64,
    /// Root, admin (CAY_AUTH_TOKEN), anyone, uid:N, or the id of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// By which way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub face: Option<String>,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What was called; daemon.started and the like are no calls.
    pub function: String,
    /// That it was about.
    #[serde(rename = "sandboxId", default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// How it ended.
    pub result: AuditEntryResult,
    /// Why it was not ok.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// That it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<f64>,
    /// What was asked, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<serde_json::Value>,
    /// Hash of the line before.
    pub prev: String,
    /// Of this line.
    pub hash: String,
}

open_enum! {
    /// What `result` can be.
    AuditEntryResult,
    Ok = "ok",
    Refused = "refused",
    Failed = "failed",
}

/// Who did what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditList {
    /// The oldest first.
    pub entries: Vec<AuditEntry>,
    /// Number of the newest line.
    pub n: i64,
    /// Of the newest line.
    pub hash: String,
}

/// What is asked of `audit_list`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AuditListQuery {
    /// Unix milliseconds: only what was later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// Only lines with a larger n.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// Only about this sandbox, which may be gone.
    #[serde(rename = "sandboxId", skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// Only by this caller: root, admin, anyone, uid:N or the id of a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Only calls of this function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The last so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
}

/// Whether the audit log is whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditReport {
    /// No line was changed, removed, put in or appended by another.
    pub ok: bool,
    /// Lines that were read and are right.
    pub entries: i64,
    /// Number of the oldest line that is kept.
    #[serde(rename = "firstN")]
    pub first_n: i64,
    /// Number of the newest line.
    pub n: i64,
    /// Of the newest line: keep it elsewhere, and ask for it later.
    pub hash: String,
    /// How many there are.
    pub files: i64,
    /// The first thing wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// In that file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<i64>,
    /// Up to which all is right.
    #[serde(rename = "lastGoodN", default, skip_serializing_if = "Option::is_none")]
    pub last_good_n: Option<i64>,
    /// Whether the line of the head that was given is there.
    #[serde(rename = "headFound", default, skip_serializing_if = "Option::is_none")]
    pub head_found: Option<bool>,
    /// Why it is not there.
    #[serde(rename = "headProblem", default, skip_serializing_if = "Option::is_none")]
    pub head_problem: Option<String>,
}

/// What is asked of `audit_verify`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AuditVerifyQuery {
    /// Number and hash (42:9f86…), or the hash alone, of a line, kept elsewhere: is it still there?
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// A command that was left running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackgroundExec {
    /// bg_ and 24 hex digits.
    pub id: String,
    /// Where it runs.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// As text; arguments with spaces between them; its first 4,096 bytes.
    pub command: String,
    /// In the sandbox; absent when that has stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i64>,
    /// False once it has ended.
    pub running: bool,
    /// Unix milliseconds.
    #[serde(rename = "startedAt")]
    pub started_at: i64,
    /// Once it has ended and that is known.
    #[serde(rename = "exitCode", default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Unix milliseconds, with exitCode.
    #[serde(rename = "finishedAt", default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<i64>,
    /// Why it ended, with exitCode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// True when the kernel killed for lack of memory while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<bool>,
    /// How it ended, in words; absent when it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Output of a build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BuildOutputEvent {
    /// A command says something.
    pub event: String,
    /// Whose command it is.
    pub step: i64,
    /// Of which.
    pub stream: BuildOutputEventStream,
    /// As text.
    pub data: String,
}

open_enum! {
    /// What `stream` can be.
    BuildOutputEventStream,
    Stdout = "stdout",
    Stderr = "stderr",
}

/// A step of a build is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BuildStepDoneEvent {
    /// A step is done.
    pub event: String,
    /// Which.
    pub step: i64,
    /// True when it had been done before.
    pub cached: bool,
    /// How long it took.
    #[serde(rename = "durationMs")]
    pub duration_ms: i64,
}

/// A step of a build begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BuildStepEvent {
    /// A step begins.
    pub event: String,
    /// Counted from 1.
    pub step: i64,
    /// In all.
    pub steps: i64,
    /// What it does.
    pub text: String,
    /// Of its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<i64>,
    /// Of a build with several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
}

/// Of one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Change {
    /// Added, modified or deleted.
    pub kind: ChangeKind,
    /// In the sandbox.
    pub path: String,
    /// What it is.
    pub r#type: ChangeType,
    /// Bytes of a file.
    pub size: i64,
}

open_enum! {
    /// What `kind` can be.
    ChangeKind,
    A = "A",
    M = "M",
    D = "D",
}

open_enum! {
    /// What `type` can be.
    ChangeType,
    File = "file",
    Directory = "directory",
    Symlink = "symlink",
    Other = "other",
}

/// A terminal's two ends, each for the first who comes within five minutes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Channel {
    /// Takes what is typed.
    pub writer: ChannelEnd,
    /// Gives what is shown.
    pub reader: ChannelEnd,
}

/// One end of a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChannelEnd {
    /// For /ws/channels/….
    pub channel_id: String,
    /// For ?key=.
    pub access_key: String,
    /// For ?dir=.
    pub direction: ChannelEndDirection,
}

open_enum! {
    /// What `direction` can be.
    ChannelEndDirection,
    Read = "read",
    Write = "write",
}

/// What is asked of `cmd_attach`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CmdAttachRequest {
    /// A string for the shell, or an array of arguments run as it is.
    pub command: Command,
    /// Where it starts; the sandbox's workdir when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Added to the sandbox's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Limits of its process, each resource once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rlimits: Option<Vec<Rlimit>>,
    /// Name or uid, with :group or :gid; the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Seconds; 0 or absent = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Run on a terminal; output is then one stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty: Option<bool>,
    /// STDIN frames will come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<bool>,
    /// Of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// Of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// It goes on when the caller hangs up, which else ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detach: Option<bool>,
    /// By which it shall be known: ex_ and 24 hex digits, not those of one that runs; a new one when absent.
    #[serde(rename = "execId", skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
}

/// What is asked of `cmd_background_logs`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CmdBackgroundLogsQuery {
    /// Byte offset to read from: 0, then the cursor of the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<i64>,
}

/// What is asked of `cmd_background`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CmdBackgroundRequest {
    /// A string for the shell, or an array of arguments run as it is.
    pub command: Command,
    /// Where it starts; the sandbox's workdir when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Added to the sandbox's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Limits of its process, each resource once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rlimits: Option<Vec<Rlimit>>,
    /// Name or uid, with :group or :gid; the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Seconds; 0 or absent = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Its whole input, at most 1 MiB; none when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// base64 for bytes that are no text; utf8.
    #[serde(rename = "stdinEncoding", skip_serializing_if = "Option::is_none")]
    pub stdin_encoding: Option<StdinEncoding>,
}

/// What is asked of `cmd_get_attach`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CmdGetAttachRequest {
    /// Where to begin: 0, or a cursor that was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<i64>,
    /// Take over its input; false reads along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<bool>,
    /// Its input beside others who share it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<bool>,
    /// Of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// Of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
}

/// What is asked of `cmd_get`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CmdGetQuery {
    /// Where to begin: 0, or a cursor that was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<i64>,
}

/// What is asked of `cmd_get_stream`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CmdGetStreamQuery {
    /// Where to begin: 0, or a cursor that was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<i64>,
}

/// What is asked of `cmd_interrupt`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CmdInterruptRequest {
    /// In the sandbox: of a command, which is interrupted with all that it has started, or of one process; every running command when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i64>,
}

/// What is asked of `cmd_run`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CmdRunRequest {
    /// A string for the shell, or an array of arguments run as it is.
    pub command: Command,
    /// Where it starts; the sandbox's workdir when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Added to the sandbox's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Limits of its process, each resource once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rlimits: Option<Vec<Rlimit>>,
    /// Name or uid, with :group or :gid; the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT, more is cut to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Its whole input, at most 1 MiB; none when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// base64 for bytes that are no text; utf8.
    #[serde(rename = "stdinEncoding", skip_serializing_if = "Option::is_none")]
    pub stdin_encoding: Option<StdinEncoding>,
    /// It goes on when the caller hangs up, which else ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detach: Option<bool>,
    /// By which it shall be known: ex_ and 24 hex digits, not those of one that runs; a new one when absent.
    #[serde(rename = "execId", skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
}

/// What is asked of `cmd_run_stream`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CmdRunStreamRequest {
    /// A string for the shell, or an array of arguments run as it is.
    pub command: Command,
    /// Where it starts; the sandbox's workdir when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Added to the sandbox's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Limits of its process, each resource once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rlimits: Option<Vec<Rlimit>>,
    /// Name or uid, with :group or :gid; the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT, more is cut to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Its whole input, at most 1 MiB; none when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// base64 for bytes that are no text; utf8.
    #[serde(rename = "stdinEncoding", skip_serializing_if = "Option::is_none")]
    pub stdin_encoding: Option<StdinEncoding>,
    /// It goes on when the caller hangs up, which else ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detach: Option<bool>,
    /// By which it shall be known: ex_ and 24 hex digits, not those of one that runs; a new one when absent.
    #[serde(rename = "execId", skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
}

/// An interpreter that keeps its variables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CodeContext {
    /// ctx_ and 24 hex digits.
    pub id: String,
    /// Where it is.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// What it runs.
    pub language: String,
    /// Of its process.
    #[serde(rename = "execId")]
    pub exec_id: String,
    /// Unix milliseconds.
    #[serde(rename = "createdAt")]
    pub created_at: i64,
    /// Of the language, to who made or restarted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The contexts of a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CodeContextList {
    /// The newest first.
    pub contexts: Vec<CodeContext>,
}

/// What code raised and did not catch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CodeException {
    /// Its class.
    pub name: String,
    /// What it says.
    pub value: String,
    /// From the code inwards.
    pub traceback: Vec<CodeFrame>,
    /// Of the code, where it is known.
    pub line: Option<i64>,
    /// As the language shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Code ended with an exception.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CodeExceptionEvent {
    /// Code raised something.
    pub event: String,
    /// What.
    pub exception: CodeException,
}

/// A place in a traceback.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CodeFrame {
    /// Where it is.
    pub file: String,
    /// Counted from 1.
    pub line: Option<i64>,
    /// In which function.
    pub function: String,
    /// The line itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A value that code left, in one of the forms it can have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CodeResult {
    /// Text, html, markdown, latex, json, table, image, svg or data.
    pub r#type: String,
    /// What data is.
    pub mime: String,
    /// A text, base64 of a picture, or of JSON and tables the value itself.
    pub data: serde_json::Value,
    /// It is the value of the last expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<bool>,
    /// Forms of the same thing have the same number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<i64>,
}

/// Code left a value or a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CodeResultEvent {
    /// There is a result.
    pub event: String,
    /// One form of it.
    pub result: CodeResult,
}

/// Code printed something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CodeTextEvent {
    /// Which stream.
    pub event: CodeTextEventEvent,
    /// A piece of it.
    pub text: String,
}

open_enum! {
    /// What `event` can be.
    CodeTextEventEvent,
    Stdout = "stdout",
    Stderr = "stderr",
}

event_enum! {
    /// What a pull of the image and a build of the template do, then the sandbox or an error.
    CreateEvent,
    Resolving(ResolvingEvent) = "resolving",
    Resolved(ResolvedEvent) = "resolved",
    Layer(LayerEvent) = "layer",
    Storing(StoringEvent) = "storing",
    BuildStep(BuildStepEvent) = "step",
    BuildOutput(BuildOutputEvent) = "output",
    BuildStepDone(BuildStepDoneEvent) = "stepDone",
    Sandbox(SandboxEvent) = "sandbox",
    Error(ErrorEvent) = "error",
}

/// An event on its way to a webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delivery {
    /// X-Cay-Delivery: the same for all attempts.
    pub id: String,
    /// Of what.
    #[serde(rename = "eventId")]
    pub event_id: String,
    /// Of what.
    pub topic: String,
    /// failed: it is not tried again.
    pub state: DeliveryState,
    /// How often it was tried.
    pub attempts: i64,
    /// HTTP status of the last attempt; null = there was no answer.
    pub status: Option<i64>,
    /// Why there was none: refused (an address that may not be called), no_name, no_connection, no_trust, timeout, broken, bad_url, died.
    pub error: Option<String>,
    /// The same for people.
    pub message: Option<String>,
    /// That was called or refused.
    pub address: Option<String>,
    /// Milliseconds of the last attempt.
    pub duration: i64,
    /// Of the last attempt, in Unix milliseconds.
    pub timestamp: i64,
    /// Of one that is retrying.
    #[serde(rename = "nextAttemptAt")]
    pub next_attempt_at: Option<i64>,
}

/// What was sent to a webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeliveryList {
    /// The newest first.
    pub deliveries: Vec<Delivery>,
}

open_enum! {
    /// What `state` can be.
    DeliveryState,
    Retrying = "retrying",
    Delivered = "delivered",
    Failed = "failed",
}

/// What a sandbox changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Diff {
    /// By path.
    pub changes: Vec<Change>,
    /// True when there are more.
    pub truncated: bool,
}

/// An image is here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DoneEvent {
    /// The last one.
    pub event: String,
    /// It is here.
    pub image: Image,
}

/// How the main process is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EntrypointState {
    /// Unknown when the sandbox does not say.
    pub state: EntrypointStateState,
    /// Once it has ended: 128 and the signal's number after a signal.
    #[serde(rename = "exitCode", default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Why it ended, with exitCode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// True when the kernel killed for lack of memory while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<bool>,
    /// How it ended, in words; absent when it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Unix milliseconds, with exitCode.
    #[serde(rename = "startedAt", default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    /// Unix milliseconds, with exitCode.
    #[serde(rename = "finishedAt", default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<i64>,
    /// The last lines that it put out, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

open_enum! {
    /// What `state` can be.
    EntrypointStateState,
    Running = "running",
    Exited = "exited",
    Unknown = "unknown",
}

/// What is asked of `env_delete`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EnvDeleteRequest {
    /// Name of the variable.
    pub key: String,
}

/// A variable that is gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EnvDeleted {
    /// Name of the variable.
    pub deleted: String,
}

/// What is asked of `env_get`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EnvGetRequest {
    /// Name of the variable.
    pub key: String,
}

/// The environment that commands have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EnvList {
    /// How many.
    pub count: i64,
    /// Names and values.
    pub vars: BTreeMap<String, String>,
}

/// Variables that were set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EnvSet {
    /// How many.
    pub count: i64,
    /// Their names.
    pub set: Vec<String>,
}

/// What is asked of `env_set`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EnvSetRequest {
    /// Names and values.
    pub vars: BTreeMap<String, String>,
}

/// A variable of the environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EnvValue {
    /// Name of the variable.
    pub key: String,
    /// Commands have it.
    pub exists: bool,
    /// Null when they have not.
    pub value: Option<String>,
}

/// Any failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Error {
    /// What was wrong and what to do.
    pub error: String,
    /// A stable word for programs; each operation lists its own.
    pub code: String,
    /// Of command_timeout: of the command.
    #[serde(rename = "execId", default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
    /// Of command_timeout 124; of template_not_ready the command's.
    #[serde(rename = "exitCode", default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Of command_timeout: what it printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// Of command_timeout: what it printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Of command_timeout: there was more output than is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// Of a build: the step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Of a build and of template_not_ready: the last lines of the command's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Of a command that could not be started: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ErrorKind>,
    /// Of a command that could not be started: what was being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<ErrorStage>,
    /// Of a command that could not be started: what the kernel said, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i64>,
    /// The same as a word: ENOENT.
    #[serde(rename = "errnoName", default, skip_serializing_if = "Option::is_none")]
    pub errno_name: Option<String>,
    /// Of volume_busy: who has files of it open, 16 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<VolumeHolder>>,
}

/// It failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorEvent {
    /// The last one.
    pub event: String,
    /// That an answer would have had.
    pub status: i64,
    /// What was wrong and what to do.
    pub error: String,
    /// A stable word for programs.
    pub code: String,
    /// Of a build: the step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Of a build and of template_not_ready: the last lines of the command's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Of template_not_ready: the command's.
    #[serde(rename = "exitCode", default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
}

open_enum! {
    /// What `kind` can be.
    ErrorKind,
    NotFound = "not_found",
    PermissionDenied = "permission_denied",
    NotExecutable = "not_executable",
    BadCwd = "bad_cwd",
    BadArgs = "bad_args",
    ResourceLimit = "resource_limit",
    UserSetupFailed = "user_setup_failed",
    OutOfMemory = "out_of_memory",
}

open_enum! {
    /// What `stage` can be.
    ErrorStage,
    Fork = "fork",
    User = "user",
    Rlimit = "rlimit",
    Cwd = "cwd",
    Exec = "exec",
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// Ids sort as events happened.
    pub id: String,
    /// What happened.
    pub topic: String,
    /// To which sandbox; empty when to none.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// What there is to say about it, by topic.
    pub data: serde_json::Value,
    /// When, in Unix milliseconds.
    pub timestamp: i64,
    /// By a caller; the daemon's own do not have this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<bool>,
}

/// What is asked of `event_history`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EventHistoryQuery {
    /// Of this sandbox, which may be gone; a name is one that is there.
    #[serde(rename = "sandboxId", skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// These topics: a list with commas; * at the end of one is whatever follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// From this time on, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// Up to this time, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// How many at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// How many of the newest to leave out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
}

/// Events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventList {
    /// The newest first.
    pub events: Vec<Event>,
    /// How many there are with these filters.
    pub total: i64,
}

/// What is asked of `event_publish`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EventPublishRequest {
    /// What happened.
    pub topic: String,
    /// To which sandbox; it need not be there.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// What there is to say about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

open_enum! {
    /// What `events` can be.
    Events,
    Create = "create",
    Write = "write",
    Remove = "remove",
    Rename = "rename",
    Chmod = "chmod",
}

/// A piece of a command's output, or its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecEvent {
    /// Whose output; lost when some is not kept any more; error when the end cannot be told; exit is the last one.
    pub r#type: ExecEventType,
    /// Text; of exit the exit code, -1 after a timeout; of lost how many bytes.
    pub data: String,
    /// Unix milliseconds.
    pub timestamp: i64,
    /// Where to go on after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<i64>,
    /// In the first event.
    #[serde(rename = "execId", default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
    /// Of error: a stable word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Of exit: why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// True when the kernel killed for lack of memory while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<bool>,
    /// How it ended, in words; absent when it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

open_enum! {
    /// What `type` can be.
    ExecEventType,
    Stdout = "stdout",
    Stderr = "stderr",
    Lost = "lost",
    Error = "error",
    Exit = "exit",
}

/// A command that was started before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecInfo {
    /// ex_ and 24 hex digits; bg_ of one in the background.
    pub id: String,
    /// How it begins; of one in the background it may be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// False once it has ended.
    pub running: bool,
    /// In the sandbox.
    pub pid: i64,
    /// It runs on a terminal.
    pub tty: bool,
    /// Of its terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<i64>,
    /// Of its terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<i64>,
    /// Unix milliseconds.
    #[serde(rename = "startedAt")]
    pub started_at: i64,
    /// Once it has ended.
    #[serde(rename = "finishedAt", default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<i64>,
    /// Once it has ended: 128 and the signal's number after a signal, 124 after a timeout.
    #[serde(rename = "exitCode", default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// True when the kernel killed for lack of memory while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<bool>,
    /// How it ended, in words; absent when it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Milliseconds, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// Once it has ended: there was more output than is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

/// Commands that run, and the last that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecList {
    /// Of the sandbox, the newest first.
    pub execs: Vec<ExecInfo>,
}

/// A part of a background command's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecLogs {
    /// Stdout and stderr as text.
    pub output: String,
    /// Where to read on.
    pub cursor: i64,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecResult {
    /// 128 and the signal's number after a signal.
    #[serde(rename = "exitCode")]
    pub exit_code: i64,
    /// As text.
    pub stdout: String,
    /// As text.
    pub stderr: String,
    /// Milliseconds.
    pub duration: f64,
    /// Why it ended.
    pub reason: Reason,
    /// True when the kernel killed for lack of memory while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<bool>,
    /// How it ended, in words; absent when it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What may be the matter with one that failed, such as the lack of a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// There was more output than is kept.
    pub truncated: bool,
    /// By which it can be had again; X-Exec-Id says it too.
    #[serde(rename = "execId", default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
}

/// How a command is, and a part of its output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecState {
    /// ex_ and 24 hex digits; bg_ of one in the background.
    pub id: String,
    /// How it begins; of one in the background it may be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// False once it has ended.
    pub running: bool,
    /// In the sandbox.
    pub pid: i64,
    /// It runs on a terminal.
    pub tty: bool,
    /// Of its terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<i64>,
    /// Of its terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<i64>,
    /// Unix milliseconds.
    #[serde(rename = "startedAt")]
    pub started_at: i64,
    /// Once it has ended.
    #[serde(rename = "finishedAt", default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<i64>,
    /// Once it has ended: 128 and the signal's number after a signal, 124 after a timeout.
    #[serde(rename = "exitCode", default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// True when the kernel killed for lack of memory while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<bool>,
    /// How it ended, in words; absent when it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Milliseconds, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// Once it has ended: there was more output than is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// From the cursor on, as text; of a terminal or in the background both streams.
    pub stdout: String,
    /// From the cursor on, as text.
    pub stderr: String,
    /// Where to read on.
    pub cursor: i64,
    /// Bytes after the cursor that are not kept any more.
    pub lost: i64,
    /// There is more already: read on.
    pub more: bool,
}

/// What a run of code came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Execution {
    /// Stdout as text.
    pub output: String,
    /// Null when it ended well, else what it said on stderr; the last 64 KiB of it.
    pub error: Option<String>,
    /// Milliseconds.
    #[serde(rename = "executionTime")]
    pub execution_time: f64,
    /// Of its process; of a context 0, or 1 after an exception.
    #[serde(rename = "exitCode")]
    pub exit_code: i64,
    /// There was more output than an answer can have; streams have no such bound.
    pub truncated: bool,
    /// What it raised, where the language tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<CodeException>,
    /// Stderr as text.
    pub stderr: String,
    /// Values and pictures, in the order in which they came.
    pub results: Vec<CodeResult>,
}

/// A run of code has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecutionDoneEvent {
    /// The last one.
    pub event: String,
    /// How it ended.
    pub execution: ExecutionEnd,
}

/// How a run of code ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecutionEnd {
    /// Null when it ended well, else what it said on stderr; the last 64 KiB of it.
    pub error: Option<String>,
    /// Milliseconds.
    #[serde(rename = "executionTime")]
    pub execution_time: f64,
    /// Of its process; of a context 0, or 1 after an exception.
    #[serde(rename = "exitCode")]
    pub exit_code: i64,
    /// There was more output than an answer can have; streams have no such bound.
    pub truncated: bool,
    /// What it raised, where the language tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<CodeException>,
    /// Where it was not told by events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Where it was not told by events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Where they were not told by events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<CodeResult>>,
}

event_enum! {
    /// What code prints and gives as it comes, then its end or an error.
    ExecutionEvent,
    CodeText(CodeTextEvent) = "stdout" | "stderr",
    CodeResult(CodeResultEvent) = "result",
    CodeException(CodeExceptionEvent) = "exception",
    ExecutionDone(ExecutionDoneEvent) = "done",
    Error(ErrorEvent) = "error",
}

/// A file's bytes in base64 with padding.
pub type FileBytes = String;

/// A change to files that are watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileChange {
    /// ready: what happens from here on is told; overflow: something is not, see lost and directories; end: the last one.
    pub r#type: FileChangeType,
    /// Absolute; of an overflow one of the directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The bytes of path, when they are no UTF-8.
    #[serde(rename = "pathBase64", default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// What it was called before a rename.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The bytes of from, when they are no UTF-8.
    #[serde(rename = "fromBase64", default, skip_serializing_if = "Option::is_none")]
    pub from_base64: Option<String>,
    /// Is it one.
    #[serde(rename = "isDirectory", default, skip_serializing_if = "Option::is_none")]
    pub is_directory: Option<bool>,
    /// Unix milliseconds.
    pub timestamp: i64,
    /// Of an overflow: changes that are not told, or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<i64>,
    /// When it is ready, so many are watched; of an overflow, so many are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directories: Option<i64>,
    /// Of the end: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

open_enum! {
    /// What `type` can be.
    FileChangeType,
    Ready = "ready",
    Create = "create",
    Write = "write",
    Remove = "remove",
    Rename = "rename",
    Chmod = "chmod",
    Overflow = "overflow",
    End = "end",
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileInfo {
    /// In its directory.
    pub name: String,
    /// Absolute.
    pub path: String,
    /// The bytes of path, when they are no UTF-8: give it with pathEncoding base64.
    #[serde(rename = "pathBase64", default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Bytes.
    pub size: i64,
    /// Links are none.
    #[serde(rename = "isDirectory")]
    pub is_directory: bool,
    /// Is it a symbolic link.
    #[serde(rename = "isSymlink")]
    pub is_symlink: bool,
    /// Octal digits, as chmod takes them.
    pub mode: String,
    /// Of a link: what it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Unix milliseconds; negative before 1970.
    #[serde(rename = "modifiedAt")]
    pub modified_at: i64,
}

/// A directory; empty when there is none.
pub type FileList = Vec<FileInfo>;

/// What a path is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileMeta {
    /// Absolute.
    pub path: String,
    /// The bytes of path, when they are no UTF-8: give it with pathEncoding base64.
    #[serde(rename = "pathBase64", default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Bytes.
    pub size: i64,
    /// As ls shows them.
    pub permissions: String,
    /// Name, or number when it has none.
    pub owner: String,
    /// Name, or number when it has none.
    pub group: String,
    /// Links are none.
    #[serde(rename = "isDirectory")]
    pub is_directory: bool,
    /// Is it a symbolic link.
    #[serde(rename = "isSymlink")]
    pub is_symlink: bool,
    /// Octal digits, as chmod takes them.
    pub mode: String,
    /// Of a link: what it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Unix milliseconds; negative before 1970.
    #[serde(rename = "modifiedAt")]
    pub modified_at: i64,
}

/// A list for paths, one for path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum FileMetaAnswer {
    /// FileMetaList.
    FileMetaList(FileMetaList),
    /// FileMeta.
    FileMeta(FileMeta),
    /// What a newer daemon may send.
    Other(serde_json::Value),
}

/// In the order of the paths.
pub type FileMetaList = Vec<FileMeta>;

/// What goes where.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileMove {
    /// Absolute, or relative to the workspace.
    pub from: String,
    /// An existing directory takes it in.
    pub to: String,
}

/// Absolute paths; at most 10000.
pub type FilePaths = Vec<String>;

/// A file's text; bytes that are none are replaced.
pub type FileText = String;

/// Clones of one sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fork {
    /// The new ones.
    pub sandboxes: Vec<Sandbox>,
}

/// What is asked of `fs_chmod`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsChmodRequest {
    /// Absolute, or relative to the workspace.
    pub path: String,
    /// 3 or 4 octal digits, or one clause like u+x.
    pub mode: String,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_copy`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsCopyRequest {
    /// A file, or a directory with all that is in it.
    pub from: String,
    /// What the copy is called; parents are made.
    pub to: String,
    /// What is there goes; else that is a conflict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace: Option<bool>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_delete`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsDeleteRequest {
    /// Absolute, or relative to the workspace.
    pub path: String,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_download`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsDownloadRequest {
    /// Absolute, or relative to the workspace.
    pub path: String,
    /// Bytes to pass over; past the end there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
    /// The most bytes; to the end when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_info`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsInfoRequest {
    /// One or more paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Instead of paths: one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_list`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsListRequest {
    /// The workspace when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_mkdir`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsMkdirRequest {
    /// One or more paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Instead of paths: one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_move`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsMoveRequest {
    /// Done in order.
    pub moves: Vec<FileMove>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_read`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsReadRequest {
    /// Absolute, or relative to the workspace.
    pub path: String,
    /// Bytes to pass over; past the end there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
    /// The most bytes; to the end when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_rmdir`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsRmdirRequest {
    /// One or more paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Instead of paths: one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_search`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsSearchRequest {
    /// Glob on the base name, without ; | $ ` \\.
    pub pattern: String,
    /// The workspace when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_symlink`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsSymlinkRequest {
    /// Absolute, or relative to the workspace.
    pub path: String,
    /// What the link says; it need not be there.
    pub target: String,
    /// What is there goes; else that is a conflict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace: Option<bool>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_upload`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsUploadQuery {
    /// Absolute, or relative to the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Octal digits; kept when absent, 0644 for a new file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_upload`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsUploadRequest {
    /// Absolute, or relative to the workspace.
    pub path: String,
    /// base64; or send the bytes as application/octet-stream and the rest in the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Octal digits; kept when absent, 0644 for a new file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_watch`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsWatchRequest {
    /// A directory or a file; the workspace when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// All directories below, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Of create, write, remove, rename, chmod; all but chmod when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Events>>,
    /// Globs of names to leave out, with all that is below; at most 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore: Option<Vec<String>>,
    /// Each change is also an event, file.changed; needs the scope exec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish: Option<bool>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_watch_socket`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsWatchSocketQuery {
    /// A directory or a file; the workspace when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// All directories below, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Of create, write, remove, rename, chmod; all but chmod when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Events>>,
    /// Globs of names to leave out, with all that is below; at most 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore: Option<Vec<String>>,
    /// Each change is also an event, file.changed; needs the scope exec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish: Option<bool>,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// What is asked of `fs_write`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FsWriteRequest {
    /// Absolute, or relative to the workspace.
    pub path: String,
    /// Text.
    pub content: String,
    /// Also allow paths outside of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// base64: every path of the call and of its answer is base64 of its bytes, as names that are no UTF-8 need it.
    #[serde(rename = "pathEncoding", skip_serializing_if = "Option::is_none")]
    pub path_encoding: Option<PathEncoding>,
}

/// Calls of one function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FunctionMetrics {
    /// What was called.
    #[serde(rename = "functionId")]
    pub function_id: String,
    /// How often.
    pub count: i64,
    /// Of these, how many failed.
    pub errors: i64,
    /// Ms; streams count for none.
    #[serde(rename = "avgDuration")]
    pub avg_duration: f64,
    /// ms: half of them took less.
    #[serde(rename = "p50Duration")]
    pub p50_duration: f64,
    /// ms: 95 of 100 took less.
    #[serde(rename = "p95Duration")]
    pub p95_duration: f64,
    /// ms: 99 of 100 took less.
    #[serde(rename = "p99Duration")]
    pub p99_duration: f64,
}

/// What is asked of `git_branch`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GitBranchRequest {
    /// Of the repository; the workspace when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Make and check out this one; only list when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Delete it instead, if it is merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<bool>,
    /// Delete it also when it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Where the new one begins; HEAD when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
}

/// The branches of a repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GitBranches {
    /// Those of remotes begin with remotes/.
    pub branches: Vec<String>,
    /// HEAD when none is checked out.
    pub current: String,
    /// True when there are more than an answer has: 20000, or 10 MiB of names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

/// What is asked of `git_checkout`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GitCheckoutRequest {
    /// A branch, a tag or a commit.
    pub r#ref: String,
    /// Of the repository; the workspace when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// What is asked of `git_clone`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GitCloneRequest {
    /// Of the repository; a password in it is used, and is not kept.
    pub url: String,
    /// Where it shall be; a folder in the workspace, named after it, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Or a tag; the server's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// How many commits; 0 or absent = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<i64>,
    /// For the server; x-access-token when there is only a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// For this call only: nothing of it is left in the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// In place of a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The same as one object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<GitCredentials>,
    /// Seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
}

/// What is asked of `git_commit`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GitCommitRequest {
    /// Of the commit.
    pub message: String,
    /// Of the repository; the workspace when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Stage every change first, new files too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// Who commits; what git is configured with when absent.
    #[serde(rename = "authorName", skip_serializing_if = "Option::is_none")]
    pub author_name: Option<String>,
    /// Who commits; what git is configured with when absent.
    #[serde(rename = "authorEmail", skip_serializing_if = "Option::is_none")]
    pub author_email: Option<String>,
}

/// For the server of the repository, and for this call only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GitCredentials {
    /// X-access-token when there is only a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Or token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Or password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GitDiff {
    /// As text.
    pub diff: String,
    /// It is longer than 10 MiB.
    pub truncated: bool,
}

/// What is asked of `git_diff`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GitDiffQuery {
    /// Of the repository; the workspace when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What a commit would have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged: Option<bool>,
    /// Only this file, or those that a pathspec of git names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GitEntry {
    /// Of the commit.
    pub hash: String,
    /// Its first paragraph, as one line.
    pub message: String,
    /// Name.
    pub author: String,
    /// Of the author.
    pub email: String,
    /// ISO 8601.
    pub date: String,
}

event_enum! {
    /// How far git is, then how it ended or an error.
    GitEvent,
    GitProgress(GitProgress) = "progress",
    GitResult(GitResultEvent) = "result",
    Error(ErrorEvent) = "error",
}

/// A file that is not as in the last commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GitFile {
    /// The letters of git status --short without blanks; ?? is not known to git.
    pub status: String,
    /// In the repository.
    pub path: String,
    /// A commit would have it, or a part of it.
    pub staged: bool,
    /// What it was called, when it was renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// The last commits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GitLog {
    /// The newest first.
    pub entries: Vec<GitEntry>,
}

/// What is asked of `git_log`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GitLogQuery {
    /// Of the repository; the workspace when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How many at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
}

/// How far git is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GitProgress {
    /// Git goes on.
    pub event: String,
    /// What it does.
    pub phase: String,
    /// Of this phase.
    pub percent: i64,
    /// How many are done.
    pub current: i64,
    /// Of how many.
    pub total: i64,
    /// As git says it.
    pub text: String,
}

/// What is asked of `git_pull`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GitPullRequest {
    /// Of the repository; the workspace when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Name or URL; the branch's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Or a refspec; as configured when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// For the server; x-access-token when there is only a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// For this call only: nothing of it is left in the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// In place of a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The same as one object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<GitCredentials>,
    /// Seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Put own commits on top, in place of a merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebase: Option<bool>,
}

/// What is asked of `git_push`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GitPushRequest {
    /// Of the repository; the workspace when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Name or URL; the branch's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Or a refspec; as configured when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// For the server; x-access-token when there is only a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// For this call only: nothing of it is left in the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// In place of a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The same as one object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<GitCredentials>,
    /// Seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Also when the server has other commits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// The branch follows it from now on.
    #[serde(rename = "setUpstream", skip_serializing_if = "Option::is_none")]
    pub set_upstream: Option<bool>,
}

/// Git has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GitResultEvent {
    /// The last one.
    pub event: String,
    /// How it ended.
    pub result: ExecResult,
}

/// What is not as in the last commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GitStatus {
    /// HEAD when none is checked out.
    pub branch: String,
    /// There are no files below.
    pub clean: bool,
    /// Changed, staged or not known to git.
    pub files: Vec<GitFile>,
    /// False of a workspace that has no repository, or of a sandbox without git.
    pub repository: bool,
    /// When there is none: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the branch follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Commits that the upstream lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<i64>,
    /// Commits of the upstream that it lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<i64>,
    /// True when there are more files than an answer has: 20000, or 10 MiB of names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

/// What is asked of `git_status`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GitStatusQuery {
    /// Of the repository; the workspace when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Counters of the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GlobalMetrics {
    /// That run or are paused.
    #[serde(rename = "activeSandboxes")]
    pub active_sandboxes: i64,
    /// Whose disks are kept.
    #[serde(rename = "stoppedSandboxes")]
    pub stopped_sandboxes: i64,
    /// How many there are.
    pub snapshots: i64,
    /// How many there are.
    pub volumes: i64,
    /// Since the data folder is there.
    #[serde(rename = "totalCreated")]
    pub total_created: i64,
    /// By a call.
    #[serde(rename = "totalKilled")]
    pub total_killed: i64,
    /// Because their time was over.
    #[serde(rename = "totalExpired")]
    pub total_expired: i64,
    /// Of the daemon.
    #[serde(rename = "uptimeSeconds")]
    pub uptime_seconds: i64,
    /// Where the disks are.
    #[serde(rename = "diskFreeBytes")]
    pub disk_free_bytes: i64,
    /// Of these, what sandboxes do not get.
    #[serde(rename = "diskReserveBytes")]
    pub disk_reserve_bytes: i64,
    /// The sum of the sizes of all disks.
    #[serde(rename = "diskPromisedBytes")]
    pub disk_promised_bytes: i64,
    /// So that those that write are paused.
    #[serde(rename = "diskLow")]
    pub disk_low: bool,
}

/// The daemon answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Health {
    /// It answers.
    pub status: String,
    /// Of the daemon.
    pub version: String,
    /// What does not work and is being tried again, the oldest first; at most 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problems: Option<Vec<HealthProblem>>,
}

/// What does not work now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HealthProblem {
    /// Is tried again until it works.
    pub what: HealthProblemWhat,
    /// Ms since 1970.
    pub since: i64,
    /// That have failed.
    pub attempts: i64,
    /// What could not be taken away; for callers who may read.
    #[serde(rename = "sandboxId", default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// Why; for callers who may read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

open_enum! {
    /// What `what` can be.
    HealthProblemWhat,
    DiskLow = "disk_low",
    DocumentDamaged = "document_damaged",
    LauncherDown = "launcher_down",
    SandboxNotRemoved = "sandbox_not_removed",
    AuditNotWritten = "audit_not_written",
}

/// A file system that sandboxes start from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Image {
    /// What it is called here.
    pub name: String,
    /// Digest of its configuration, or host.
    pub id: String,
    /// In its registry; else empty.
    pub digest: String,
    /// Where it came from.
    pub origin: String,
    /// Whose programs it has.
    pub platform: String,
    /// Where commands start; may be empty.
    pub workdir: String,
    /// Who runs them; empty = root.
    pub user: String,
    /// Ends its main process.
    #[serde(rename = "stopSignal")]
    pub stop_signal: String,
    /// Bytes on disk.
    pub size: i64,
    /// Unix milliseconds.
    #[serde(rename = "createdAt")]
    pub created_at: i64,
    /// Unix milliseconds.
    #[serde(rename = "pulledAt")]
    pub pulled_at: i64,
    /// Unix milliseconds; 0 = never.
    #[serde(rename = "usedAt")]
    pub used_at: i64,
    /// How many.
    pub layers: i64,
    /// A sandbox is made from it.
    #[serde(rename = "inUse")]
    pub in_use: bool,
    /// NAME=VALUE.
    pub env: Vec<String>,
    /// Of its main process.
    pub entrypoint: Vec<String>,
    /// Follows the entrypoint.
    pub cmd: Vec<String>,
    /// As 8080/tcp.
    pub ports: Vec<String>,
    /// Of its maker.
    pub labels: BTreeMap<String, String>,
    /// Of a commit: which files the image does not have, and why; of an import: what its name stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
}

/// The short names of images.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImageCatalog {
    /// Presets first.
    pub images: Vec<ImageShortName>,
}

/// What is asked of `image_commit`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ImageCommitRequest {
    /// Of the image.
    pub name: String,
    /// Added to the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Where commands start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Who runs them: name, uid, or either with :group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// Of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmd: Option<Vec<String>>,
    /// Of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// An image that is gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImageDeleted {
    /// As it was asked for.
    pub deleted: String,
}

/// What is asked of `image_import`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ImageImportRequest {
    /// On the daemon's machine: a root directory, a tar archive of one, what docker save or an export wrote, or an OCI layout.
    pub path: String,
    /// Of the image; what the archive calls it when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The images of this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImageList {
    /// On this machine.
    pub images: Vec<Image>,
}

/// Images that were not used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImagePrune {
    /// That went, or would go.
    pub removed: Vec<Image>,
    /// That this frees.
    pub bytes: i64,
    /// True when nothing went.
    #[serde(rename = "dryRun")]
    pub dry_run: bool,
}

/// What is asked of `image_prune`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ImagePruneRequest {
    /// seconds: only those not used for that long; 0 or absent = any.
    #[serde(rename = "unusedFor", skip_serializing_if = "Option::is_none")]
    pub unused_for: Option<i64>,
    /// The least recently used, until the rest takes no more; 0 or absent = all.
    #[serde(rename = "keepMb", skip_serializing_if = "Option::is_none")]
    pub keep_mb: Option<i64>,
    /// Only tell what would go.
    #[serde(rename = "dryRun", skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
}

open_enum! {
    /// What `policy` can be.
    ImagePullPolicy,
    Missing = "missing",
    Always = "always",
    Never = "never",
}

/// What is asked of `image_pull`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ImagePullRequest {
    /// What to pull: python:3.12-slim, ghcr.io/team/app:1, or a name of the catalog.
    pub reference: String,
    /// What to call it here; as the reference when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// For the image's registry; else the daemon's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry_auth: Option<RegistryAuth>,
    /// Over plain http; only with a token or on the unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,
    /// As linux/arm64; this machine's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Whether to look for a newer one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ImagePullPolicy>,
}

/// A name and what it stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImageShortName {
    /// Short.
    pub name: String,
    /// What it stands for.
    pub reference: String,
    /// Cay's own, or the operator's.
    pub kind: ImageShortNameKind,
}

open_enum! {
    /// What `kind` can be.
    ImageShortNameKind,
    Preset = "preset",
    Custom = "custom",
}

/// What is asked of `image_tag`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ImageTagRequest {
    /// The new name.
    pub name: String,
}

/// What this daemon is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Info {
    /// Of the daemon.
    pub version: String,
    /// What runs sandboxes.
    pub runtime: String,
    /// What stands between a sandbox and the host.
    pub isolation: String,
    /// Where files belong.
    pub workspace: String,
    /// What CAY_DEFAULT_IMAGE says; clients may offer it.
    #[serde(rename = "defaultImage")]
    pub default_image: String,
    /// What a sandbox can be given.
    pub limits: Limits,
}

/// Packages were installed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Installed {
    /// What the manager said on stdout.
    pub output: String,
    /// Always 0; else it is an error.
    #[serde(rename = "exitCode")]
    pub exit_code: i64,
}

/// What is asked of `interp_context_create`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct InterpContextCreateRequest {
    /// Python or javascript.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Where it runs; the sandbox's workdir when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Added to the sandbox's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Name or uid, with :group or :gid; the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Modules that it loads before it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imports: Option<Vec<String>>,
    /// Seconds without a run after which it ends itself; 0 or absent = with the sandbox.
    #[serde(rename = "idleTimeout", skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<i64>,
}

/// What is asked of `interp_execute`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct InterpExecuteRequest {
    /// What to run.
    pub code: String,
    /// Python, javascript, typescript, go or bash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Of the context that it runs in; a process of its own when absent. Its language, directory, environment and user are the context's.
    #[serde(rename = "contextId", skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// Where it runs; the sandbox's workdir when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Added to the sandbox's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Name or uid, with :group or :gid; the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT, more is cut to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
}

/// What is asked of `interp_install`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct InterpInstallRequest {
    /// As the manager takes them.
    pub packages: Vec<String>,
    /// Pip, npm, go or apt, or a language: python, javascript, typescript, go, bash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// Name or uid, with :group or :gid; the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT, more is cut to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
}

/// A signal was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Interrupted {
    /// Always true.
    pub success: bool,
    /// The sandbox is paused: the signal is taken when it goes on.
    pub pending: bool,
}

/// A command in the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Job {
    /// job_ and 24 hex digits.
    pub id: String,
    /// Where it runs.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// As text; arguments with spaces between them.
    pub command: String,
    /// How it is.
    pub status: JobStatus,
    /// How the command ended; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ExecResult>,
    /// Of the result.
    #[serde(rename = "exitCode", default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Why the last try failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Tries that failed.
    pub retries: i64,
    /// So many tries, and at least one.
    #[serde(rename = "maxRetries")]
    pub max_retries: i64,
    /// Unix milliseconds.
    #[serde(rename = "createdAt")]
    pub created_at: i64,
    /// Of the last try.
    #[serde(rename = "startedAt", default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    /// When it completed, failed or was cancelled.
    #[serde(rename = "completedAt", default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<i64>,
    /// It does not start before that.
    #[serde(rename = "runAt", default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<i64>,
    /// The higher the earlier.
    pub priority: i64,
    /// Seconds that a try may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// An exit code other than 0 is a failure.
    #[serde(rename = "retryOnExit")]
    pub retry_on_exit: bool,
    /// Seconds before the second try.
    #[serde(rename = "retryDelay")]
    pub retry_delay: f64,
    /// The command of the last try.
    #[serde(rename = "execId", default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
}

/// A job does not run any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobCancelled {
    /// Id of the job.
    pub cancelled: String,
}

/// A part of the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobList {
    /// The newest first, without results.
    pub jobs: Vec<Job>,
    /// How many there are in all.
    pub total: i64,
}

/// A part of what a job has put out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobLogs {
    /// Whose output it is.
    #[serde(rename = "jobId")]
    pub job_id: String,
    /// How the job is.
    pub status: JobStatus,
    /// No more will come.
    pub done: bool,
    /// Of the last try, from the cursor on.
    pub stdout: String,
    /// Of the last try, from the cursor on.
    pub stderr: String,
    /// Where to read on.
    pub cursor: i64,
    /// Bytes after the cursor that are not kept.
    pub lost: i64,
}

open_enum! {
    /// What `status` can be.
    JobStatus,
    Pending = "pending",
    Running = "running",
    Completed = "completed",
    Failed = "failed",
    Cancelled = "cancelled",
}

/// Jobs that failed are gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobsPurged {
    /// How many were forgotten.
    pub purged: i64,
}

/// A language that this sandbox has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Kernel {
    /// Of the program.
    pub name: String,
    /// For execute.
    pub language: String,
    /// For people.
    #[serde(rename = "displayName")]
    pub display_name: String,
    /// As it says itself; "" = nothing.
    pub version: String,
    /// In the sandbox.
    pub path: String,
    /// Contexts can be made of it.
    pub stateful: bool,
}

/// The languages of a sandbox.
pub type Kernels = Vec<Kernel>;

/// How far a layer has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LayerEvent {
    /// A layer has come further.
    pub event: String,
    /// Counted from 0, the lowest first.
    pub index: i64,
    /// May be empty in an import.
    pub digest: String,
    /// present: it was here already.
    pub state: LayerEventState,
    /// Bytes.
    pub downloaded: i64,
    /// Bytes; 0 = not known.
    pub total: i64,
    /// Bytes on disk.
    pub unpacked: i64,
}

open_enum! {
    /// What `state` can be.
    LayerEventState,
    Waiting = "waiting",
    Downloading = "downloading",
    Unpacking = "unpacking",
    Done = "done",
    Present = "present",
}

/// What a sandbox can be given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// MB.
    #[serde(rename = "memoryMinMb")]
    pub memory_min_mb: i64,
    /// MB.
    #[serde(rename = "memoryMaxMb")]
    pub memory_max_mb: i64,
    /// Cores.
    #[serde(rename = "cpuMin")]
    pub cpu_min: f64,
    /// Cores.
    #[serde(rename = "cpuMax")]
    pub cpu_max: f64,
    /// Processes and threads.
    #[serde(rename = "pidsMin")]
    pub pids_min: i64,
    /// Processes and threads.
    #[serde(rename = "pidsMax")]
    pub pids_max: i64,
    /// MB.
    #[serde(rename = "diskMinMb")]
    pub disk_min_mb: i64,
    /// MB.
    #[serde(rename = "diskMaxMb")]
    pub disk_max_mb: i64,
    /// Seconds.
    #[serde(rename = "timeoutMin")]
    pub timeout_min: i64,
    /// Seconds; absent = any, and a sandbox may have no end (0).
    #[serde(rename = "timeoutMax", default, skip_serializing_if = "Option::is_none")]
    pub timeout_max: Option<i64>,
    /// At a time, without stopped ones.
    #[serde(rename = "maxSandboxes")]
    pub max_sandboxes: i64,
    /// Stopped ones; absent = any.
    #[serde(rename = "maxStopped", default, skip_serializing_if = "Option::is_none")]
    pub max_stopped: Option<i64>,
    /// Of a command that is waited for; absent = any.
    #[serde(rename = "maxCommandSeconds", default, skip_serializing_if = "Option::is_none")]
    pub max_command_seconds: Option<i64>,
}

/// A line of the main process, or the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogEvent {
    /// Which stream the line is of; end is the last event. Of sandboxes that an older cay made, stderr is stdout too.
    pub r#type: LogEventType,
    /// One line of text.
    pub data: String,
    /// When the process wrote it, in Unix milliseconds.
    pub timestamp: i64,
}

open_enum! {
    /// What `type` can be.
    LogEventType,
    Stdout = "stdout",
    Stderr = "stderr",
    End = "end",
}

open_enum! {
    /// What `metric` can be.
    Metric,
    Cpu = "cpu",
    Memory = "memory",
    Pids = "pids",
    Disk = "disk",
}

/// What a sandbox uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Metrics {
    /// Whose.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// Of a core, since the last look.
    #[serde(rename = "cpuPercent")]
    pub cpu_percent: f64,
    /// MB in use.
    #[serde(rename = "memoryUsageMb")]
    pub memory_usage_mb: f64,
    /// MB that it may use.
    #[serde(rename = "memoryLimitMb")]
    pub memory_limit_mb: f64,
    /// Received.
    #[serde(rename = "networkRxBytes")]
    pub network_rx_bytes: i64,
    /// Sent.
    #[serde(rename = "networkTxBytes")]
    pub network_tx_bytes: i64,
    /// Processes and threads.
    pub pids: i64,
    /// Time of processors since it was started.
    #[serde(rename = "cpuTimeNs", default, skip_serializing_if = "Option::is_none")]
    pub cpu_time_ns: Option<i64>,
    /// That came from disks, since it was started.
    #[serde(rename = "diskReadBytes", default, skip_serializing_if = "Option::is_none")]
    pub disk_read_bytes: Option<i64>,
    /// And that were written for them.
    #[serde(rename = "diskWriteBytes", default, skip_serializing_if = "Option::is_none")]
    pub disk_write_bytes: Option<i64>,
    /// Of its own disk; absent when that cannot be looked at just now.
    #[serde(rename = "diskUsedBytes", default, skip_serializing_if = "Option::is_none")]
    pub disk_used_bytes: Option<i64>,
    /// That its disk can hold.
    #[serde(rename = "diskLimitBytes", default, skip_serializing_if = "Option::is_none")]
    pub disk_limit_bytes: Option<i64>,
    /// Unix milliseconds; absent when it does not run.
    #[serde(rename = "startedAt", default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
}

/// What a sandbox used lately.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MetricsHistory {
    /// Whose.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// Seconds between two.
    pub interval: f64,
    /// MB that it may use.
    #[serde(rename = "memoryLimitMb")]
    pub memory_limit_mb: f64,
    /// Oldest first.
    pub samples: Vec<MetricsSample>,
}

/// What is asked of `metrics_history`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MetricsHistoryQuery {
    /// Only what was seen then or later: ms since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
}

/// What a sandbox used at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MetricsSample {
    /// When it was looked at.
    pub timestamp: i64,
    /// Of a core, since the one before.
    #[serde(rename = "cpuPercent")]
    pub cpu_percent: f64,
    /// MB in use.
    #[serde(rename = "memoryUsageMb")]
    pub memory_usage_mb: f64,
    /// Processes and threads.
    pub pids: i64,
    /// Received until then.
    #[serde(rename = "networkRxBytes")]
    pub network_rx_bytes: i64,
    /// Sent until then.
    #[serde(rename = "networkTxBytes")]
    pub network_tx_bytes: i64,
}

/// What is asked of `monitor_alert_history`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MonitorAlertHistoryQuery {
    /// How many at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
}

/// What is asked of `monitor_set_alert`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MonitorSetAlertRequest {
    /// What is looked at; cpu, memory and disk are percent of what the sandbox may use.
    pub metric: Metric,
    /// 0 to 100; of pids how many processes and threads.
    pub threshold: f64,
    /// notify: an event alert.fired, which webhooks get too; pause and kill do that as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<AlertAction>,
}

/// What a sandbox has beside its own disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Mount {
    /// What is mounted.
    pub r#type: MountType,
    /// Of a volume.
    #[serde(rename = "volumeId", default, skip_serializing_if = "Option::is_none")]
    pub volume_id: Option<String>,
    /// On the host, of a bind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// In the sandbox.
    #[serde(rename = "mountPath")]
    pub mount_path: String,
    /// The folder of it that is shown.
    #[serde(rename = "subPath", default, skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
    /// Nothing can be written there.
    #[serde(rename = "readOnly")]
    pub read_only: bool,
    /// No program can be started from there.
    pub noexec: bool,
    /// Of a tmpfs.
    #[serde(rename = "sizeMb", default, skip_serializing_if = "Option::is_none")]
    pub size_mb: Option<i64>,
}

open_enum! {
    /// What `type` can be.
    MountType,
    Volume = "volume",
    Tmpfs = "tmpfs",
    Bind = "bind",
}

/// What happens to a question for a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NameVerdict {
    /// Whether the name is answered.
    pub allowed: bool,
    /// As in the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspect: Option<bool>,
    /// As in the verdict.
    pub rule: i64,
    /// For people.
    pub why: String,
}

/// Sandboxes that see each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Network {
    /// net_ and 24 hex digits.
    pub id: String,
    /// No other network has it.
    pub name: String,
    /// The id, for clients that want it.
    #[serde(rename = "dockerNetworkId")]
    pub docker_network_id: String,
    /// Ids of those in it, the oldest first.
    pub sandboxes: Vec<String>,
    /// Unix milliseconds.
    #[serde(rename = "createdAt")]
    pub created_at: i64,
}

/// What is asked of `network_connect`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NetworkConnectRequest {
    /// Id of a sandbox, or the name of exactly one.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
}

/// It is in the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NetworkConnected {
    /// Always true.
    pub connected: bool,
}

/// What is asked of `network_create`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NetworkCreateRequest {
    /// Letters, digits, _ . and -; no other network has it.
    pub name: String,
    /// Taken and ignored, for clients that send it; another type is ignored with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
}

/// It is gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NetworkDeleted {
    /// Its id.
    pub deleted: String,
}

/// Something that a sandbox was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NetworkDenial {
    /// Counts up, in one sandbox.
    pub seq: i64,
    /// Unix milliseconds.
    pub time: i64,
    /// Egress or ingress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Tcp, udp, icmp, dns ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Whom it called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// There.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// The name that it asked for or said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// As in a NetworkVerdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<i64>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How often, since the line before.
    pub count: i64,
}

/// What is asked of `network_disconnect`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NetworkDisconnectRequest {
    /// Id of a sandbox, or the name of exactly one.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
}

/// It is not in the network any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NetworkDisconnected {
    /// Always true.
    pub disconnected: bool,
}

/// How names are asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkDns {
    /// Who is asked; else those of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nameservers: Option<Vec<String>>,
    /// An answer with a private address is none (default true).
    #[serde(rename = "rebindProtection", default, skip_serializing_if = "Option::is_none")]
    pub rebind_protection: Option<bool>,
    /// Milliseconds, from 100 to 30000 (default 5000).
    #[serde(rename = "queryTimeout", default, skip_serializing_if = "Option::is_none")]
    pub query_timeout: Option<i64>,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NetworkList {
    /// The oldest first.
    pub networks: Vec<Network>,
}

/// What a sandbox was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NetworkLog {
    /// The oldest first.
    pub denied: Vec<NetworkDenial>,
    /// `after` for the next call.
    pub next: i64,
}

/// What a sandbox may reach; see docs/network-policy.md.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkPolicy {
    /// What no rule matches (default deny); allow means public addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<NetworkPolicyDefault>,
    /// Who calls a published port and no rule matches (default allow).
    #[serde(rename = "defaultIngress", default, skip_serializing_if = "Option::is_none")]
    pub default_ingress: Option<NetworkPolicyDefaultIngress>,
    /// At most 256; a text as allow@pypi.org:tcp:443 is taken for one too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<NetworkRule>>,
    /// Rules that belong together, after the others: pypi, npm, github, debian, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiles: Option<Vec<String>>,
    /// How names are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<NetworkDns>,
    /// How fast (default: no limit).
    #[serde(rename = "rateLimit", default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<NetworkRateLimit>,
    /// Open at a time, 1 to 65536 (default 1024).
    #[serde(rename = "maxConnections", default, skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<i64>,
}

open_enum! {
    /// What `default` can be.
    NetworkPolicyDefault,
    Allow = "allow",
    Deny = "deny",
}

open_enum! {
    /// What `defaultIngress` can be.
    NetworkPolicyDefaultIngress,
    Allow = "allow",
    Deny = "deny",
}

/// What is more is dropped.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkRate {
    /// 1024 to 12500000000.
    #[serde(rename = "bytesPerSecond")]
    pub bytes_per_second: i64,
    /// Bytes at once (default: a tenth of a second, at least 128 KiB).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<i64>,
}

/// How fast.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkRateLimit {
    /// What the sandbox sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<NetworkRate>,
    /// What it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<NetworkRate>,
}

/// One rule; the first that matches decides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkRule {
    /// What becomes of what it matches.
    pub action: NetworkRuleAction,
    /// Who begins: the sandbox (egress, the default), or who calls a port of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<NetworkRuleDirection>,
    /// An address, a range, a domain, *.suffix, a group (public, private, host, metadata, link-local, multicast, loopback, dns), or * (the default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Tcp, udp, icmp, icmpv6, several with commas (default: TCP and UDP, of a name TCP); a list is taken too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// 443, 8000-8100, several with commas (default: all); a number or a list is taken too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
}

open_enum! {
    /// What `action` can be.
    NetworkRuleAction,
    Allow = "allow",
    Deny = "deny",
}

open_enum! {
    /// What `direction` can be.
    NetworkRuleDirection,
    Egress = "egress",
    Ingress = "ingress",
    Any = "any",
}

/// What would happen, and which rule says so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NetworkVerdict {
    /// What was asked for.
    pub host: String,
    /// What was asked for.
    pub port: i64,
    /// What was asked for.
    pub protocol: String,
    /// Whether it would be let out.
    pub allowed: bool,
    /// Let out if TLS or HTTP names a host that the policy allows there.
    pub inspect: bool,
    /// Number of the rule that decides, profiles' after one's own; -1 the default, -2 built in.
    pub rule: i64,
    /// For people.
    pub why: String,
    /// What happens to the question for the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<NameVerdict>,
    /// What happens to each address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<AddressVerdict>>,
}

/// What is asked of `observability_clear`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ObservabilityClearRequest {
    /// Those that ended before: ms since 1970; now when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
}

/// What all calls add up to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ObservabilityMetrics {
    /// Since the data folder is there, or since the last clear.
    #[serde(rename = "totalRequests")]
    pub total_requests: i64,
    /// Of these, how many failed.
    #[serde(rename = "totalErrors")]
    pub total_errors: i64,
    /// Ms; streams count for none.
    #[serde(rename = "avgDuration")]
    pub avg_duration: f64,
    /// ms: half of them took less.
    #[serde(rename = "p50Duration")]
    pub p50_duration: f64,
    /// ms: 95 of 100 took less.
    #[serde(rename = "p95Duration")]
    pub p95_duration: f64,
    /// ms: 99 of 100 took less.
    #[serde(rename = "p99Duration")]
    pub p99_duration: f64,
    /// That run or are paused.
    #[serde(rename = "activeSandboxes")]
    pub active_sandboxes: i64,
    /// How often each function was called.
    #[serde(rename = "functionCounts")]
    pub function_counts: serde_json::Value,
    /// Each, most called first.
    pub functions: Vec<FunctionMetrics>,
}

/// What is asked of `observability_traces`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ObservabilityTracesQuery {
    /// Only calls about this sandbox: its id, or its name while it is there.
    #[serde(rename = "sandboxId", skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// Only calls of this function.
    #[serde(rename = "functionId", skip_serializing_if = "Option::is_none")]
    pub function_id: Option<String>,
    /// Only calls that ended so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<TraceStatus>,
    /// Only calls of this trace.
    #[serde(rename = "traceId", skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Only calls that ended then or later: ms since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// How many at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// How many to leave out first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
}

open_enum! {
    /// What `onTimeout` can be.
    OnTimeout,
    Remove = "remove",
    Stop = "stop",
}

/// An OpenAPI 3.1 document.
pub type OpenApi = serde_json::Value;

/// A change to a new sandbox's files, before anything runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Patch {
    /// Text and file write content, append adds it to the end, mkdir makes a directory with all above it, symlink points to target, copy copies from, remove and chmod are what they are called.
    pub r#type: PatchType,
    /// What is made or changed; below the workspace when it is not absolute.
    pub path: String,
    /// Of text and append; of file its bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Of symlink: what it points to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Of copy: a file or directory of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Octal; of new files 0644 when absent, of directories 0755, of copies that of from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Of text, file, symlink and copy: take the place of what is there already, which is refused else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<bool>,
}

open_enum! {
    /// What `type` can be.
    PatchType,
    Text = "text",
    File = "file",
    Append = "append",
    Mkdir = "mkdir",
    Symlink = "symlink",
    Copy = "copy",
    Remove = "remove",
    Chmod = "chmod",
}

open_enum! {
    /// What `pathEncoding` can be.
    PathEncoding,
    Utf8 = "utf8",
    Base64 = "base64",
}

/// What is asked of `pool_add`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PoolAddRequest {
    /// As in a create; it is not pulled for the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// In place of an image: id or name of a template, whose image and limits these are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// How many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// MB, as in a create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i64>,
    /// Cores, as in a create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Processes and threads, as in a create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<i64>,
    /// MB of disk, as in a create; moved to the nearer end of 64 to 1048576.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<i64>,
    /// What has started in them already, for code without a context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<PoolInterpreter>,
    /// As in a create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSetting>,
}

/// An interpreter that waits in a box.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolInterpreter {
    /// Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Modules that it has loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imports: Option<Vec<String>>,
}

/// A kind of sandbox that the pool has ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolProfile {
    /// To remove it by; those of the configuration have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What its sandboxes are made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// In place of an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// MB.
    pub memory: i64,
    /// Cores.
    pub cpu: f64,
    /// Processes and threads.
    pub pids: i64,
    /// MB.
    pub disk: i64,
    /// What they may reach.
    pub network: NetworkSetting,
    /// What has started in them already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<PoolInterpreter>,
    /// How many are to be ready.
    pub size: i64,
    /// How many are.
    pub ready: i64,
    /// Where it comes from.
    pub source: PoolProfileSource,
    /// Why the last one could not be made; it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

open_enum! {
    /// What `source` can be.
    PoolProfileSource,
    Config = "config",
    Api = "api",
}

/// What the pool has ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolProfiles {
    /// Those of the configuration, then those that were added.
    pub profiles: Vec<PoolProfile>,
}

/// How full the pool is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoolStatus {
    /// How many are to be ready.
    pub total: i64,
    /// How many are.
    pub ready: i64,
    /// How many are ready, by IMAGE:MEMORY:CPU:NETWORK; empty for who has no token.
    pub by_profile: serde_json::Value,
    /// Each with what it lacks; not for who has no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiles: Option<Vec<PoolProfile>>,
}

/// A port of a sandbox on the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Port {
    /// In the sandbox.
    #[serde(rename = "containerPort")]
    pub container_port: u16,
    /// On the host.
    #[serde(rename = "hostPort")]
    pub host_port: i64,
    /// Tcp or udp.
    pub protocol: PortRequestProtocol,
    /// Of the host.
    #[serde(rename = "hostAddress")]
    pub host_address: String,
    /// Active = the host listens; mapped = not now: the sandbox is stopped, or reason says why.
    pub state: PortState,
    /// Why the host does not let it listen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What is asked of `port_expose`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PortExposeRequest {
    /// In the sandbox.
    #[serde(rename = "containerPort")]
    pub container_port: u16,
    /// On the host; 0 = any that is free (default: containerPort).
    #[serde(rename = "hostPort", skip_serializing_if = "Option::is_none")]
    pub host_port: Option<u16>,
    /// Tcp or udp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<PortRequestProtocol>,
    /// Of the host (default 127.0.0.1); others than its loopback's as CAY_PORT_ADDRESSES allows.
    #[serde(rename = "hostAddress", skip_serializing_if = "Option::is_none")]
    pub host_address: Option<String>,
}

/// All of a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PortList {
    /// In the order in which they were exposed.
    pub ports: Vec<Port>,
}

/// A port that can be reached on the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PortRecord {
    /// In the sandbox.
    #[serde(rename = "containerPort")]
    pub container_port: u16,
    /// On the host.
    #[serde(rename = "hostPort")]
    pub host_port: i64,
    /// Tcp or udp.
    pub protocol: PortRequestProtocol,
    /// Of the host.
    #[serde(rename = "hostAddress")]
    pub host_address: String,
    /// True when any free hostPort was asked for.
    #[serde(rename = "anyPort", default, skip_serializing_if = "Option::is_none")]
    pub any_port: Option<bool>,
}

/// It cannot be reached any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PortRemoved {
    /// containerPort.
    pub removed: i64,
}

/// A port to reach on the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PortRequest {
    /// In the sandbox.
    #[serde(rename = "containerPort")]
    pub container_port: u16,
    /// On the host; 0 = any that is free (default: containerPort).
    #[serde(rename = "hostPort", default, skip_serializing_if = "Option::is_none")]
    pub host_port: Option<u16>,
    /// Tcp or udp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<PortRequestProtocol>,
    /// Of the host (default 127.0.0.1); others than its loopback's as CAY_PORT_ADDRESSES allows.
    #[serde(rename = "hostAddress", default, skip_serializing_if = "Option::is_none")]
    pub host_address: Option<String>,
}

open_enum! {
    /// What `protocol` can be.
    PortRequestProtocol,
    Tcp = "tcp",
    Udp = "udp",
}

open_enum! {
    /// What `state` can be.
    PortState,
    Active = "active",
    Mapped = "mapped",
}

/// What is asked of `port_unexpose`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PortUnexposeQuery {
    /// In the sandbox.
    #[serde(rename = "containerPort")]
    pub container_port: u16,
    /// Only this one (default: both).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<PortRequestProtocol>,
}

/// What is asked of `proc_kill`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProcKillRequest {
    /// In the sandbox.
    pub pid: i64,
    /// What to send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
}

/// A process of a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Process {
    /// In the sandbox.
    pub pid: i64,
    /// Name, or number when it has none.
    pub user: String,
    /// Percent of a core over its whole life.
    pub cpu: String,
    /// Percent of the sandbox's memory.
    pub memory: String,
    /// With its arguments.
    pub command: String,
}

/// A signal that was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessKilled {
    /// Its pid in the sandbox.
    pub killed: i64,
    /// What it was sent.
    pub signal: Signal,
}

/// What runs in a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessList {
    /// Of the sandbox.
    pub processes: Vec<Process>,
}

/// What the processes of a sandbox use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessTop {
    /// Of the sandbox.
    pub processes: Vec<ProcessUsage>,
}

/// What a process uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessUsage {
    /// In the sandbox.
    pub pid: i64,
    /// Percent of a core over its whole life.
    pub cpu: String,
    /// Percent of the sandbox's memory.
    pub mem: String,
    /// KiB of address space.
    pub vsz: i64,
    /// KiB of memory.
    pub rss: i64,
    /// With its arguments.
    pub command: String,
}

/// What a server in a sandbox answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProxyAnswer {
    /// Of the server in the sandbox.
    #[serde(rename = "statusCode")]
    pub status_code: i64,
    /// Names in lower case; of a name that came twice the values, with commas.
    pub headers: BTreeMap<String, String>,
    /// As text; what is no UTF-8 becomes U+FFFD.
    pub body: String,
    /// What was asked for, as the sandbox sees it.
    pub url: String,
}

/// How requests are passed on to a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProxyConfig {
    /// Its id.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// A port and a path behind this lead to it.
    #[serde(rename = "proxyBase")]
    pub proxy_base: String,
    /// For browsers, with a number in place of {port}.
    pub url: String,
    /// Origins whose pages may read answers.
    pub cors: String,
    /// Is a token or a signature always needed?
    #[serde(rename = "requireAuth")]
    pub require_auth: bool,
    /// Ms until the head of an answer must come.
    pub timeout: i64,
}

/// What is asked of `proxy_config`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProxyConfigRequest {
    /// Origins whose pages may read answers, with commas; * = all, "" = as the server in the sandbox says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<String>,
    /// true: exposed ports need a token or a signature, too.
    #[serde(rename = "requireAuth", skip_serializing_if = "Option::is_none")]
    pub require_auth: Option<bool>,
    /// Ms until the head of an answer must come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// true: addresses that were signed before lead nowhere from now on.
    #[serde(rename = "revokeSigned", skip_serializing_if = "Option::is_none")]
    pub revoke_signed: Option<bool>,
}

/// What is asked of `proxy_request`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProxyRequestRequest {
    /// Of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// With its query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Of the request; not for GET and HEAD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// What is asked of `proxy_sign`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProxySignRequest {
    /// In the sandbox.
    pub port: u16,
    /// Seconds; moved to the nearer end of 1 to 2678400.
    #[serde(rename = "expiresIn", skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<i64>,
    /// Where the address leads; the whole port is open to who has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// An address that opens one port for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProxySigned {
    /// Opens the port to whoever has it.
    pub url: String,
    /// The same at the address of the API.
    pub path: String,
    /// Until then.
    #[serde(rename = "expiresAt")]
    pub expires_at: i64,
}

event_enum! {
    /// What happens, then the image or an error.
    PullEvent,
    Resolving(ResolvingEvent) = "resolving",
    Resolved(ResolvedEvent) = "resolved",
    Layer(LayerEvent) = "layer",
    Storing(StoringEvent) = "storing",
    Done(DoneEvent) = "done",
    Error(ErrorEvent) = "error",
}

/// What is asked of `queue_dlq`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct QueueDlqQuery {
    /// Only of this sandbox.
    #[serde(rename = "sandboxId", skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// At most so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// Leaves out so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
}

/// What is asked of `queue_list`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct QueueListQuery {
    /// Only of this sandbox.
    #[serde(rename = "sandboxId", skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// Only those that are so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<JobStatus>,
    /// At most so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// Leaves out so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
}

/// What is asked of `queue_logs`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct QueueLogsQuery {
    /// Where to read on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<i64>,
}

/// What is asked of `queue_purge`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct QueuePurgeQuery {
    /// Only of this sandbox.
    #[serde(rename = "sandboxId", skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
}

/// What is asked of `queue_submit`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct QueueSubmitRequest {
    /// A string for the shell, or an array of arguments run as it is.
    pub command: Command,
    /// How often it is tried when it cannot be run or takes too long; at least once; moved to the nearer end of 0 to 100.
    #[serde(rename = "maxRetries", skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<i64>,
    /// Seconds that a try may take; 0 or absent = CAY_MAX_CMD_TIMEOUT, more is cut to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// An exit code other than 0 is a failure, too.
    #[serde(rename = "retryOnExit", skip_serializing_if = "Option::is_none")]
    pub retry_on_exit: Option<bool>,
    /// Seconds before the second try; each further wait is twice as long, up to 300, and up to a half of it is left to chance; moved to the nearer end of 0 to 3600.
    #[serde(rename = "retryDelay", skip_serializing_if = "Option::is_none")]
    pub retry_delay: Option<f64>,
    /// Of jobs that wait, the highest starts first; moved to the nearer end of -1000 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Seconds before which it does not start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<f64>,
    /// Unix milliseconds before which it does not start; delay goes before it.
    #[serde(rename = "runAt", skip_serializing_if = "Option::is_none")]
    pub run_at: Option<i64>,
    /// Directory it starts in; the sandbox's workdir when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Added to the sandbox's variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Name or uid\[:group\] it runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

open_enum! {
    /// What `reason` can be.
    Reason,
    Exit = "exit",
    Signal = "signal",
    Oom = "oom",
    Timeout = "timeout",
    Cancelled = "cancelled",
    Lost = "lost",
}

/// Who pulls an image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RegistryAuth {
    /// At the registry.
    pub username: String,
    /// Or a token.
    pub password: String,
}

/// The registry has said what an image is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResolvedEvent {
    /// What will come is known.
    pub event: String,
    /// What was asked for.
    pub reference: String,
    /// Of the manifest.
    pub digest: String,
    /// Whose programs it has.
    pub platform: String,
    /// How many.
    pub layers: i64,
    /// Of all of them, compressed.
    pub bytes: i64,
}

/// The registry is asked for an image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResolvingEvent {
    /// The registry is asked.
    pub event: String,
    /// For what.
    pub reference: String,
}

/// A limit of a process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rlimit {
    /// As setrlimit names them.
    pub resource: RlimitResource,
    /// -1 = unlimited.
    pub soft: i64,
    /// To which the process can raise it itself; the soft one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard: Option<i64>,
}

open_enum! {
    /// What `resource` can be.
    RlimitResource,
    Cpu = "cpu",
    Fsize = "fsize",
    Data = "data",
    Stack = "stack",
    Core = "core",
    Rss = "rss",
    Nproc = "nproc",
    Nofile = "nofile",
    Memlock = "memlock",
    As = "as",
    Locks = "locks",
    Sigpending = "sigpending",
    Msgqueue = "msgqueue",
    Nice = "nice",
    Rtprio = "rtprio",
    Rttime = "rttime",
}

/// One box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sandbox {
    /// sbx_ and 24 hex digits.
    pub id: String,
    /// For people; the id when none was given.
    pub name: String,
    /// As it was asked for.
    pub image: String,
    /// What it does.
    pub status: SandboxStatus,
    /// Why it is stopped, or was paused unasked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Unix milliseconds.
    #[serde(rename = "createdAt")]
    pub created_at: i64,
    /// Unix milliseconds; 0 = never.
    #[serde(rename = "expiresAt")]
    pub expires_at: i64,
    /// Unix milliseconds: when it is stopped if nothing is done with it until then; of one that runs and has an idleTimeout.
    #[serde(rename = "idleAt", default, skip_serializing_if = "Option::is_none")]
    pub idle_at: Option<i64>,
    /// true: it is about to stop, and takes no new commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<bool>,
    /// Of the caller.
    pub metadata: BTreeMap<String, String>,
    /// Main process, as arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// How the main process is; with entrypoint.
    #[serde(rename = "entrypointState", default, skip_serializing_if = "Option::is_none")]
    pub entrypoint_state: Option<EntrypointState>,
    /// What it was made from.
    pub config: SandboxConfig,
    /// What runs it.
    pub runtime: String,
    /// What stands between it and the host.
    pub isolation: String,
    /// Of a create: what was sent and ignored, and why; of a clone also what it lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
}

/// What is asked of `sandbox_clone`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SandboxCloneRequest {
    /// Of the new sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Fail with name_taken when another sandbox has such a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<bool>,
    /// What happens when its time is over: stop keeps its files until they are removed for room or CAY_STOPPED_TTL; absent = stop for clients that send the header Cay-Client, else remove.
    #[serde(rename = "onTimeout", skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
}

/// What a sandbox was made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxConfig {
    /// As it was asked for.
    pub image: String,
    /// As it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Seconds; 0 = it does not expire.
    pub timeout: i64,
    /// Seconds without use until it is stopped.
    #[serde(rename = "idleTimeout", default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<i64>,
    /// true: after idleTimeout it is removed, not stopped, as sandboxes of iii are.
    #[serde(rename = "idleRemoves", default, skip_serializing_if = "Option::is_none")]
    pub idle_removes: Option<bool>,
    /// stop: after timeout it is stopped and keeps its files; absent = it is removed.
    #[serde(rename = "onTimeout", default, skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
    /// MB.
    pub memory: i64,
    /// Cores.
    pub cpu: f64,
    /// MB.
    pub disk: i64,
    /// Processes and threads at a time.
    pub pids: i64,
    /// What it may reach: true is the public internet; absent = nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSetting>,
    /// Environment of every command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Where commands start.
    pub workdir: String,
    /// Of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Main process, as arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// Name of the template that it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// imageId of the template's build that it was made from.
    #[serde(rename = "templateBuild", default, skip_serializing_if = "Option::is_none")]
    pub template_build: Option<String>,
    /// Ids of the networks that it is connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networks: Option<Vec<String>>,
    /// Volumes, tmpfs and folders of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mounts: Option<Vec<Mount>>,
    /// Ports of it that can be reached on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<PortRecord>>,
}

open_enum! {
    /// What `pull` can be.
    SandboxCreatePull,
    Missing = "missing",
    Always = "always",
    Never = "never",
}

/// What is asked of `sandbox_create`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SandboxCreateRequest {
    /// Image to run: a reference (python:3.12-slim), a short name of /images/catalog, or host; required without a template, whose own counts even when python:3.12-slim is sent, as clients do that were told of none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// To use in place of the id; the id when absent; another type is ignored with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Fail with name_taken when another sandbox has that name; else it can be shared. An expired one that the caller may remove is removed, and a warning says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<bool>,
    /// Seconds until it expires (default CAY_DEFAULT_TIMEOUT); moved to the nearer end of 60 to CAY_MAX_TIMEOUT. Where that is 0 there is no upper end, and 0 = never; another type is ignored with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// What happens when its time is over: stop keeps its files until they are removed for room or CAY_STOPPED_TTL; absent = stop for clients that send the header Cay-Client, else remove.
    #[serde(rename = "onTimeout", skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
    /// Seconds without any use until it is stopped, for the reason idle; 0 or absent = it is not. Commands, calls on files and processes, traffic of ports and touch are use; moved to the nearer end of 0 to 315360000.
    #[serde(rename = "idleTimeout", skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<i64>,
    /// MB of memory (default CAY_DEFAULT_MEMORY); moved to the nearer end of 64 to CAY_MAX_MEMORY; another type is ignored with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i64>,
    /// Cores (default CAY_DEFAULT_CPU); moved to the nearer end of 0.5 to CAY_MAX_CPU; another type is ignored with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Processes and threads at a time (default CAY_DEFAULT_PIDS); moved to the nearer end of 16 to CAY_MAX_PIDS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<i64>,
    /// MB of disk (default CAY_DEFAULT_DISK); moved to the nearer end of 64 to 1048576.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<i64>,
    /// What it may reach: false (the default) nothing, true the public internet, else a preset (none, public, packages, allow-all) or a policy; another type is ignored with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSetting>,
    /// Names or ids of networks to connect it to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks: Option<Vec<String>>,
    /// Environment of every command; another type is ignored with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Where commands start; else where the image says, else the workspace; another type is ignored with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Kept with the sandbox, for the caller; another type is ignored with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Main process, as arguments; another type is ignored with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// The image's own entrypoint and command are the main process.
    #[serde(rename = "runEntrypoint", skip_serializing_if = "Option::is_none")]
    pub run_entrypoint: Option<bool>,
    /// Volumes and folders of the host to mount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<VolumeMount>>,
    /// Folders in memory, which count as the sandbox's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tmpfs: Option<Vec<TmpfsMount>>,
    /// Ports of it to reach on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<PortRequest>>,
    /// Changes to its files before anything runs, in this order: at most 1000 with 16 MiB of content; when one cannot be made there is no sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patches: Option<Vec<Patch>>,
    /// When to pull the image (default CAY_PULL_POLICY).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull: Option<SandboxCreatePull>,
    /// As linux/arm64; this machine's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// For the image's registry; else the daemon's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry_auth: Option<RegistryAuth>,
    /// Id or name of a template: what is not sent here is taken from it; another type is ignored with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

/// What is asked of `sandbox_diff`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SandboxDiffQuery {
    /// Id or name of a snapshot; what the sandbox was made from when absent.
    #[serde(rename = "snapshotId", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
}

/// The sandbox runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxEvent {
    /// The last one.
    pub event: String,
    /// It runs.
    pub sandbox: Sandbox,
}

/// What is asked of `sandbox_fork`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SandboxForkRequest {
    /// How many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    /// Of the new sandbox; several are called NAME-1, NAME-2 and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Fail with name_taken when another sandbox has such a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<bool>,
    /// What happens when its time is over: stop keeps its files until they are removed for room or CAY_STOPPED_TTL; absent = stop for clients that send the header Cay-Client, else remove.
    #[serde(rename = "onTimeout", skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
}

/// One page of sandboxes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxList {
    /// The newest first.
    pub items: Vec<Sandbox>,
    /// On all pages.
    pub total: i64,
    /// Counted from 1.
    pub page: i64,
    /// The most on a page.
    #[serde(rename = "pageSize")]
    pub page_size: i64,
    /// Cursor of the next page; absent on the last.
    #[serde(rename = "nextCursor", default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<i64>,
}

/// What is asked of `sandbox_list`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SandboxListQuery {
    /// Only those with this status; expired = stopped because their time was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SandboxListStatus>,
    /// Only those with all of these entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<i64>,
    /// Sandboxes on a page.
    #[serde(rename = "pageSize", skip_serializing_if = "Option::is_none")]
    pub page_size: Option<i64>,
    /// nextCursor of the page before, in place of page: none is missed or repeated while others come and go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<i64>,
}

open_enum! {
    /// What `status` can be.
    SandboxListStatus,
    Creating = "creating",
    Running = "running",
    Paused = "paused",
    Stopped = "stopped",
    Expired = "expired",
}

/// The network of a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxNetwork {
    /// Whose it is.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// What it may reach: false nothing, true the public internet, else a policy.
    pub network: NetworkSetting,
    /// Its IPv4 address; null while it is not connected.
    pub address: Option<String>,
    /// Its IPv6 address.
    pub address6: Option<String>,
    /// Received since it was connected.
    #[serde(rename = "rxBytes")]
    pub rx_bytes: i64,
    /// Sent.
    #[serde(rename = "txBytes")]
    pub tx_bytes: i64,
    /// How much it was refused, as far as this daemon has seen it.
    pub denied: i64,
}

open_enum! {
    /// What `protocol` can be.
    SandboxNetworkExplainProtocol,
    Tcp = "tcp",
    Udp = "udp",
    Icmp = "icmp",
}

/// What is asked of `sandbox_network_explain`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SandboxNetworkExplainQuery {
    /// A name or an address.
    pub host: String,
    /// There.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<SandboxNetworkExplainProtocol>,
}

/// What is asked of `sandbox_network_log`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SandboxNetworkLogQuery {
    /// `next` of the answer before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// At most so many, the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
}

/// What is asked of `sandbox_network_set`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SandboxNetworkSetRequest {
    /// As in a create: false nothing, true the public internet, a preset or a policy.
    pub network: NetworkSetting,
}

/// What is asked of `sandbox_renew`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SandboxRenewRequest {
    /// Unix milliseconds; moved to the nearer end of 60 seconds to CAY_MAX_TIMEOUT from now. Where that is 0 there is no upper end, and 0 = never.
    #[serde(rename = "expiresAt")]
    pub expires_at: i64,
}

open_enum! {
    /// What `status` can be.
    SandboxStatus,
    Creating = "creating",
    Running = "running",
    Paused = "paused",
    Stopped = "stopped",
    Removing = "removing",
}

/// What is asked of `sandbox_stop`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SandboxStopRequest {
    /// Commands that run may come to their end first; new ones are refused from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<bool>,
    /// seconds: with drain, how long commands may go on, as long as they take when 0 or absent; else how long the entrypoint may take to end, 2 when absent; moved to the nearer end of 0 to 86400.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Answer when it has stopped; so it is without drain, with drain the answer comes at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
}

/// What is asked of `sandbox_update`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SandboxUpdateRequest {
    /// In place of what it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Environment of commands, in place of what it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// MB, in the range of a create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i64>,
    /// Cores, in the range of a create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Processes and threads at a time, in the range of a create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<i64>,
    /// Seconds until it expires, from now and from each start; in the range of a create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Seconds without use until it is stopped; 0 = it is not; moved to the nearer end of 0 to 315360000.
    #[serde(rename = "idleTimeout", skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<i64>,
}

/// A text for the shell, or a program with its arguments.
pub type SetupCommand = Command;

open_enum! {
    /// What `signal` can be.
    Signal,
    TERM = "TERM",
    KILL = "KILL",
    INT = "INT",
    HUP = "HUP",
    USR1 = "USR1",
    USR2 = "USR2",
    STOP = "STOP",
    CONT = "CONT",
}

/// What the disk of a sandbox was at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// snap_ and 24 hex digits.
    pub id: String,
    /// The same as id.
    #[serde(rename = "snapshotId")]
    pub snapshot_id: String,
    /// Whose disk it was; that sandbox may be gone.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// For people; the id when none was given.
    pub name: String,
    /// Of the image that it is.
    #[serde(rename = "imageId")]
    pub image_id: String,
    /// Bytes that it takes beside what the sandbox was made from.
    pub size: i64,
    /// Unix milliseconds.
    #[serde(rename = "createdAt")]
    pub created_at: i64,
    /// Of the sandbox, which clones get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<SandboxConfig>,
    /// Of the sandbox, which clones get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// Of the sandbox, which clones get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Of a new one: which files it does not have, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
}

/// What is asked of `snapshot_all`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SnapshotAllQuery {
    /// Only those with all of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// What is asked of `snapshot_clone`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SnapshotCloneRequest {
    /// Of the new sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Fail with name_taken when another sandbox has such a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<bool>,
    /// What happens when its time is over: stop keeps its files until they are removed for room or CAY_STOPPED_TTL; absent = stop for clients that send the header Cay-Client, else remove.
    #[serde(rename = "onTimeout", skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
}

/// What is asked of `snapshot_create`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SnapshotCreateRequest {
    /// To use in place of the id; the id when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// A snapshot is gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SnapshotDeleted {
    /// Its id.
    pub deleted: String,
}

/// What is asked of `snapshot_import`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SnapshotImportRequest {
    /// On the daemon's machine: a layer that an export wrote, or another of OCI.
    pub path: String,
    /// That it is on top of, which must be here.
    pub image: String,
    /// To use in place of the id; the id when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// What is asked of `snapshot_label`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SnapshotLabelRequest {
    /// Its new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Added to those that it has; an empty value takes one away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// Snapshots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SnapshotList {
    /// The oldest first.
    pub snapshots: Vec<Snapshot>,
}

/// What is asked of `snapshot_list`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SnapshotListQuery {
    /// Only those with all of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// What is asked of `snapshot_restore`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SnapshotRestoreRequest {
    /// Id of a snapshot of this sandbox, or the name of exactly one.
    #[serde(rename = "snapshotId")]
    pub snapshot_id: String,
}

open_enum! {
    /// What `stdinEncoding` can be.
    StdinEncoding,
    Utf8 = "utf8",
    Base64 = "base64",
}

/// An image is made to last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoringEvent {
    /// All is here and is made to last.
    pub event: String,
}

/// Something that belongs to no sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stray {
    /// Whose it was.
    pub id: String,
    /// Of its disk on the host; empty when it has none.
    pub path: String,
    /// That the disk takes on the host.
    pub bytes: i64,
    /// That still run.
    pub processes: i64,
}

/// What belongs to no sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Strays {
    /// Nothing is done about them unasked.
    pub strays: Vec<Stray>,
    /// That all of them take.
    pub bytes: i64,
}

/// What is asked of `stream_events`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StreamEventsQuery {
    /// These topics: a list with commas; * at the end of one is whatever follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Of this sandbox, which may be gone; a name is one that is there.
    #[serde(rename = "sandboxId", skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// From this time on, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// Go on behind this event; also as the header Last-Event-ID.
    #[serde(rename = "lastEventId", skip_serializing_if = "Option::is_none")]
    pub last_event_id: Option<String>,
}

/// What is asked of `stream_logs`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StreamLogsQuery {
    /// How many of the last lines to begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<i64>,
    /// Stay and send new lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
}

/// What is asked of `stream_metrics`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StreamMetricsQuery {
    /// Seconds between two events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<f64>,
}

/// What is asked of `stream_network`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StreamNetworkQuery {
    /// How many of the last lines to begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<i64>,
}

/// It is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Success {
    /// Always true.
    pub success: bool,
}

/// Sandboxes whose time was over: removed, or about to stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sweep {
    /// How many were removed.
    pub swept: i64,
}

/// What sandboxes are made from by one word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Template {
    /// tpl_ and 24 hex digits; tpl_ and the name of one that is built in.
    pub id: String,
    /// No other template has it.
    pub name: String,
    /// For people.
    pub description: String,
    /// What its sandboxes are made from.
    pub config: TemplateConfig,
    /// True when it is part of cay.
    pub builtin: bool,
    /// Unix milliseconds.
    #[serde(rename = "createdAt")]
    pub created_at: i64,
    /// Absent when it has no files, setup or user, or was not built yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<TemplateBuild>,
}

/// What a template was built into.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TemplateBuild {
    /// The image that files and setup have become.
    #[serde(rename = "imageId")]
    pub image_id: String,
    /// What the image's name meant then.
    #[serde(rename = "baseId", default, skip_serializing_if = "Option::is_none")]
    pub base_id: Option<String>,
    /// directory: it was built from a folder, and is built again from there.
    pub source: TemplateBuildSource,
    /// Unix milliseconds.
    #[serde(rename = "builtAt")]
    pub built_at: i64,
    /// Of the build.
    #[serde(rename = "durationMs", default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// Of the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<i64>,
    /// Bytes of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// True when nothing had to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<bool>,
    /// True when the image's name means another image by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<bool>,
}

/// What is asked of `template_build_directory`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TemplateBuildDirectoryQuery {
    /// Of the template; one of that name is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// In the archive; Dockerfile when absent, or cay.json where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A file at the top of the archive that is the Dockerfile, or the cay.json, and that COPY does not see; file is then only what it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<String>,
    /// In place of a file: the text itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dockerfile: Option<String>,
    /// The stage to end with; the last when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Values for ARG; an object in JSON, also in the query.
    #[serde(rename = "buildArgs", skip_serializing_if = "Option::is_none")]
    pub build_args: Option<BTreeMap<String, String>>,
    /// Do every step again.
    #[serde(rename = "noCache", skip_serializing_if = "Option::is_none")]
    pub no_cache: Option<bool>,
    /// MB of memory for each RUN; brought into its range as with a create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i64>,
    /// Cores for each RUN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// MB of disk for each RUN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<i64>,
    /// What each RUN may reach, as in a create; nothing when absent, or what a cay.json says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSetting>,
    /// Seconds that a RUN may take; 1800 when absent.
    #[serde(rename = "stepTimeout", skip_serializing_if = "Option::is_none")]
    pub step_timeout: Option<i64>,
}

/// What is asked of `template_build_directory`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TemplateBuildDirectoryRequest {
    /// Of the template; one of that name is replaced.
    pub name: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// In the archive; Dockerfile when absent, or cay.json where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A file at the top of the archive that is the Dockerfile, or the cay.json, and that COPY does not see; file is then only what it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<String>,
    /// In place of a file: the text itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dockerfile: Option<String>,
    /// The stage to end with; the last when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Values for ARG; an object in JSON, also in the query.
    #[serde(rename = "buildArgs", skip_serializing_if = "Option::is_none")]
    pub build_args: Option<BTreeMap<String, String>>,
    /// Do every step again.
    #[serde(rename = "noCache", skip_serializing_if = "Option::is_none")]
    pub no_cache: Option<bool>,
    /// MB of memory for each RUN; brought into its range as with a create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i64>,
    /// Cores for each RUN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// MB of disk for each RUN; moved to the nearer end of 64 to 1048576.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<i64>,
    /// What each RUN may reach, as in a create; nothing when absent, or what a cay.json says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSetting>,
    /// Seconds that a RUN may take; 1800 when absent.
    #[serde(rename = "stepTimeout", skip_serializing_if = "Option::is_none")]
    pub step_timeout: Option<i64>,
}

event_enum! {
    /// What a pull of the image and a build do, then the template or an error.
    TemplateBuildEvent,
    Resolving(ResolvingEvent) = "resolving",
    Resolved(ResolvedEvent) = "resolved",
    Layer(LayerEvent) = "layer",
    Storing(StoringEvent) = "storing",
    BuildStep(BuildStepEvent) = "step",
    BuildOutput(BuildOutputEvent) = "output",
    BuildStepDone(BuildStepDoneEvent) = "stepDone",
    Template(TemplateEvent) = "template",
    Error(ErrorEvent) = "error",
}

/// What is asked of `template_build`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TemplateBuildRequest {
    /// Look for a newer image first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull: Option<bool>,
    /// Run every command again.
    #[serde(rename = "noCache", skip_serializing_if = "Option::is_none")]
    pub no_cache: Option<bool>,
}

open_enum! {
    /// What `source` can be.
    TemplateBuildSource,
    Config = "config",
    Directory = "directory",
}

/// What its sandboxes are made from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplateConfig {
    /// Image to begin with.
    pub image: String,
    /// Seconds that a sandbox lives, as in a create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// MB of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<i64>,
    /// Cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Processes and threads at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<i64>,
    /// MB of disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<i64>,
    /// What it may reach, as in a create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSetting>,
    /// Environment of every command, also of setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Where commands start, also those of setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Who runs commands: name, uid, or either with :group; setup runs as the image's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Kept with each sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Main process, as arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// The image's own entrypoint and command are the main process.
    #[serde(rename = "runEntrypoint", default, skip_serializing_if = "Option::is_none")]
    pub run_entrypoint: Option<bool>,
    /// Written before setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<TemplateFile>>,
    /// Commands that are run once; what they leave is kept as a layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Vec<SetupCommand>>,
    /// A command that must succeed in a new sandbox before the create answers; tried again until it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Command>,
    /// Seconds that ready may take in all; 25 when absent.
    #[serde(rename = "readyTimeout", default, skip_serializing_if = "Option::is_none")]
    pub ready_timeout: Option<i64>,
}

/// What is asked of `template_create`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TemplateCreateRequest {
    /// To use in place of the id; no other template has it.
    pub name: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What its sandboxes are made from.
    pub config: TemplateConfig,
    /// Run setup now; else when the template is first used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<bool>,
}

/// A template is gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TemplateDeleted {
    /// Its id.
    pub deleted: String,
}

/// A template is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TemplateEvent {
    /// The last one.
    pub event: String,
    /// It can be used.
    pub template: Template,
}

/// A file that a template brings along.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplateFile {
    /// Where it is in the sandbox; not absolute: below workdir.
    pub path: String,
    /// Text of the file; not told in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// In cay.json, in place of content: a file or folder beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Octal; 0644 when absent, or as the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Bytes, told in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
}

/// All templates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TemplateList {
    /// Built-in ones first, then by age.
    pub templates: Vec<Template>,
}

/// A command on a terminal, with or without viewers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Terminal {
    /// term_ and 24 hex digits.
    #[serde(rename = "sessionId")]
    pub session_id: String,
    /// Where it is.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// The command on it.
    #[serde(rename = "execId")]
    pub exec_id: String,
    /// Absent when it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<i64>,
    /// Absent when it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<i64>,
    /// How the command begins.
    pub shell: String,
    /// Exited once the command has ended.
    pub status: TerminalStatus,
    /// The runtime.
    pub backend: String,
    /// Unix milliseconds.
    #[serde(rename = "createdAt")]
    pub created_at: i64,
    /// Of a new one: it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<bool>,
    /// Of a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// Once it has ended.
    #[serde(rename = "finishedAt", default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<i64>,
    /// Once it has ended.
    #[serde(rename = "exitCode", default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// True when the kernel killed for lack of memory while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<bool>,
    /// How it ended, in words; absent when it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What is asked of `terminal_attach`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TerminalAttachQuery {
    /// Where to begin: 0 is all that is kept, a number past the end only what is to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<i64>,
    /// Look on: what is sent is not taken.
    #[serde(rename = "readOnly", skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// Of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
}

open_enum! {
    /// What `dir` can be.
    TerminalChannelDir,
    Read = "read",
    Write = "write",
}

/// What is asked of `terminal_channel`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TerminalChannelQuery {
    /// access_key of the end that dir names.
    pub key: String,
    /// Read what the terminal shows, or write what is typed.
    pub dir: TerminalChannelDir,
}

/// It has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TerminalClosed {
    /// The session.
    pub closed: String,
}

/// What is asked of `terminal_create`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TerminalCreateRequest {
    /// Of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// Of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// /bin/sh, /bin/bash, /bin/zsh or /bin/ash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Where it starts; the sandbox's workdir when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Added to the sandbox's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Name or uid, with :group or :gid; the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Write down what it shows, and when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<bool>,
}

/// A text message of a terminal's WebSocket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TerminalEvent {
    /// Ready is the first; lost: not all of what was shown before is kept; error: a Close follows.
    pub r#type: TerminalEventType,
    /// Of ready.
    #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Of the next byte: each byte that comes adds one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<i64>,
    /// Of ready: what is sent is not taken.
    #[serde(rename = "readOnly", default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Of lost: how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// Of error: in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Of error: a stable word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

open_enum! {
    /// What `type` can be.
    TerminalEventType,
    Ready = "ready",
    Lost = "lost",
    Error = "error",
}

/// How the command on a terminal ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TerminalExit {
    /// The last message.
    pub r#type: String,
    /// 128 and the signal's number after a signal.
    #[serde(rename = "exitCode")]
    pub exit_code: i64,
    /// Why it ended.
    pub reason: Reason,
    /// True when the kernel killed for lack of memory while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<bool>,
    /// How it ended, in words; absent when it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Terminals of a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TerminalList {
    /// The newest first.
    pub sessions: Vec<Terminal>,
}

/// What is asked of `terminal_resize`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TerminalResizeRequest {
    /// Of the terminal.
    pub cols: u16,
    /// Of the terminal.
    pub rows: u16,
}

/// Its new size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TerminalSize {
    /// As it is now.
    pub cols: i64,
    /// As it is now.
    pub rows: i64,
}

open_enum! {
    /// What `status` can be.
    TerminalStatus,
    Running = "running",
    Exited = "exited",
}

/// A folder in memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TmpfsMount {
    /// Where it is in the sandbox; made when it is missing.
    #[serde(rename = "mountPath")]
    pub mount_path: String,
    /// At most the sandbox's memory (default: half of it).
    #[serde(rename = "sizeMb", default, skip_serializing_if = "Option::is_none")]
    pub size_mb: Option<i64>,
    /// Nothing can be written there.
    #[serde(rename = "readOnly", default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// No program can be started from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noexec: Option<bool>,
}

/// Who may call, for what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Token {
    /// To revoke it by.
    pub id: String,
    /// What it is for; its id if it has none.
    pub name: String,
    /// What it may: read, exec, write; admin is all of it and the daemon itself.
    pub scopes: Vec<String>,
    /// The only sandbox that it is for.
    #[serde(rename = "sandboxId", default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// It is only for sandboxes whose metadata has this, and those that it makes have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<BTreeMap<String, String>>,
    /// Unix milliseconds.
    #[serde(rename = "createdAt")]
    pub created_at: i64,
    /// Who made it.
    #[serde(rename = "createdBy")]
    pub created_by: String,
    /// Unix milliseconds; absent = it does not.
    #[serde(rename = "expiresAt", default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    /// That time has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired: Option<bool>,
    /// Unix milliseconds; of the time since the daemon started.
    #[serde(rename = "lastUsedAt", default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<i64>,
    /// What is sent as Authorization: Bearer; told once, to who makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Why tokens may keep nobody out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// What is asked of `token_create`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TokenCreateRequest {
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it may: some of read, exec, write and admin, which is all of it.
    pub scopes: Vec<TokenCreateScopes>,
    /// Id or name of the only sandbox that it is for.
    #[serde(rename = "sandboxId", skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// It is only for sandboxes whose metadata has this entry; those that it makes get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<BTreeMap<String, String>>,
    /// Seconds; absent = it does not expire.
    #[serde(rename = "expiresIn", skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<i64>,
}

open_enum! {
    /// What `scopes` can be.
    TokenCreateScopes,
    Read = "read",
    Exec = "exec",
    Write = "write",
    Admin = "admin",
}

/// Tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenList {
    /// The newest first.
    pub tokens: Vec<Token>,
    /// Why tokens may keep nobody out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Trace {
    /// Of the trace.
    pub id: String,
    /// What was called.
    #[serde(rename = "functionId")]
    pub function_id: String,
    /// That it was about.
    #[serde(rename = "sandboxId", default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// Ms, from the request to its end.
    pub duration: f64,
    /// How it ended.
    pub status: TraceStatus,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The same as a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// When it ended.
    pub timestamp: i64,
    /// Who called.
    pub caller: String,
    /// By which way.
    pub face: String,
    /// The caller's, if it sent a traceparent header.
    #[serde(rename = "traceId")]
    pub trace_id: String,
    /// Of this call.
    #[serde(rename = "spanId")]
    pub span_id: String,
    /// Of the caller's, if it sent one.
    #[serde(rename = "parentSpanId", default, skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
}

open_enum! {
    /// What `status` can be.
    TraceStatus,
    Ok = "ok",
    Error = "error",
}

/// Calls that have ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Traces {
    /// Newest first.
    pub traces: Vec<Trace>,
    /// How many match.
    pub total: i64,
}

/// How many traces were removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TracesCleared {
    /// How many were removed.
    pub cleared: i64,
}

/// A folder that outlives sandboxes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Volume {
    /// vol_ and 24 hex digits.
    pub id: String,
    /// For people; may repeat.
    pub name: String,
    /// The id, for clients that want it.
    #[serde(rename = "dockerVolumeName")]
    pub docker_volume_name: String,
    /// Of the first that has it.
    #[serde(rename = "mountPath", default, skip_serializing_if = "Option::is_none")]
    pub mount_path: Option<String>,
    /// The first that has it.
    #[serde(rename = "sandboxId", default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// sizeBytes as a text, which is what public clients take.
    pub size: String,
    /// Bytes that it can hold, with what the filesystem needs for itself.
    #[serde(rename = "sizeBytes")]
    pub size_bytes: i64,
    /// What it takes on the host's disk.
    #[serde(rename = "usedBytes")]
    pub used_bytes: i64,
    /// Unix milliseconds.
    #[serde(rename = "createdAt")]
    pub created_at: i64,
    /// Who has it, the oldest first.
    pub attachments: Vec<VolumeAttachment>,
}

/// What is asked of `volume_attach`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VolumeAttachRequest {
    /// Id of a sandbox, or the name of exactly one.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// Absolute; made when it is missing. No part of it may be a link.
    #[serde(rename = "mountPath")]
    pub mount_path: String,
    /// Nothing can be written there.
    #[serde(rename = "readOnly", skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// No program can be started from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noexec: Option<bool>,
    /// The folder of it that is mounted; made when it is missing.
    #[serde(rename = "subPath", skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
}

/// It is mounted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VolumeAttached {
    /// Always true.
    pub attached: bool,
    /// Where it is in the sandbox.
    #[serde(rename = "mountPath")]
    pub mount_path: String,
    /// Who has it now.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// What.
    #[serde(rename = "volumeId")]
    pub volume_id: String,
}

/// A sandbox that has a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VolumeAttachment {
    /// Who has it.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// Where.
    #[serde(rename = "mountPath")]
    pub mount_path: String,
    /// Nothing can be written there.
    #[serde(rename = "readOnly")]
    pub read_only: bool,
}

/// What is asked of `volume_create`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VolumeCreateRequest {
    /// To use in place of the id; without / : , and may repeat.
    pub name: String,
    /// MB that it can hold (default CAY_DEFAULT_VOLUME).
    #[serde(rename = "sizeMb", skip_serializing_if = "Option::is_none")]
    pub size_mb: Option<i64>,
    /// Taken and ignored, for clients that send it; another type is ignored with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
}

/// It is gone, with all that was in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VolumeDeleted {
    /// Its id.
    pub deleted: String,
}

/// What is asked of `volume_detach`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VolumeDetachRequest {
    /// Which sandbox, when several have it.
    #[serde(rename = "sandboxId", skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// Which place, when the sandbox has it at several.
    #[serde(rename = "mountPath", skip_serializing_if = "Option::is_none")]
    pub mount_path: Option<String>,
}

/// It is not mounted any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VolumeDetached {
    /// Always true.
    pub detached: bool,
    /// Who had it.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: String,
    /// What.
    #[serde(rename = "volumeId")]
    pub volume_id: String,
    /// Where it was.
    #[serde(rename = "mountPath")]
    pub mount_path: String,
}

/// What is asked of `volume_download`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VolumeDownloadRequest {
    /// In the volume, whose top is /.
    pub path: String,
}

/// What is asked of `volume_file_info`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VolumeFileInfoRequest {
    /// In the volume, whose top is /.
    pub path: String,
}

/// What is asked of `volume_files`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VolumeFilesRequest {
    /// A folder in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// A process that uses a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VolumeHolder {
    /// As the sandbox knows it.
    pub pid: i64,
    /// Its command line.
    pub command: String,
    /// What it has open, or is in.
    pub path: String,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VolumeList {
    /// The oldest first.
    pub volumes: Vec<Volume>,
}

/// What is asked of `volume_mkdir`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VolumeMkdirRequest {
    /// In the volume, whose top is /.
    pub path: String,
}

/// What to mount, and where.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeMount {
    /// Name or id of a volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// In place of a name: a folder of the host, below one of CAY_BIND_ALLOW.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where it is in the sandbox; made when it is missing.
    #[serde(rename = "mountPath")]
    pub mount_path: String,
    /// Nothing can be written there.
    #[serde(rename = "readOnly", default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// No program can be started from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noexec: Option<bool>,
    /// The folder of it that is mounted; of a volume it is made when it is missing.
    #[serde(rename = "subPath", default, skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
    /// Make the volume when none has the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<bool>,
    /// With create: of the new volume (default CAY_DEFAULT_VOLUME).
    #[serde(rename = "sizeMb", default, skip_serializing_if = "Option::is_none")]
    pub size_mb: Option<i64>,
}

/// What is asked of `volume_read`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VolumeReadRequest {
    /// In the volume, whose top is /.
    pub path: String,
}

/// What is asked of `volume_remove_file`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VolumeRemoveFileRequest {
    /// In the volume, whose top is /.
    pub path: String,
    /// A folder goes with all that is in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
}

/// What is asked of `volume_upload`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VolumeUploadQuery {
    /// In the volume, whose top is /.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Octal digits; else as it is, or 0644.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// What is asked of `volume_upload`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VolumeUploadRequest {
    /// In the volume, whose top is /.
    pub path: String,
    /// base64; or send the bytes as the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Octal digits; else as it is, or 0644.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// What is asked of `volume_write`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VolumeWriteRequest {
    /// In the volume, whose top is /.
    pub path: String,
    /// Text.
    pub content: String,
}

/// Who is told of events by HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Webhook {
    /// wh_ and 24 hex digits.
    pub id: String,
    /// Where events are sent.
    pub url: String,
    /// Of which events.
    pub topics: Vec<String>,
    /// Of which sandbox; null = of all.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: Option<String>,
    /// Whether anything is sent; else events wait.
    pub active: bool,
    /// Unix milliseconds.
    #[serde(rename = "createdAt")]
    pub created_at: i64,
    /// Attempts in a row that failed; 0 = it takes what it is sent.
    pub failures: i64,
    /// HTTP status of the last attempt; null = there was no answer.
    #[serde(rename = "lastStatus")]
    pub last_status: Option<i64>,
    /// Why there was no answer, as in deliveries.
    #[serde(rename = "lastError")]
    pub last_error: Option<String>,
    /// Unix milliseconds; null = nothing was sent yet.
    #[serde(rename = "lastAttemptAt")]
    pub last_attempt_at: Option<i64>,
    /// When it is tried again, after a failure.
    #[serde(rename = "nextAttemptAt")]
    pub next_attempt_at: Option<i64>,
}

/// What is asked of `webhook_create`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WebhookCreateRequest {
    /// https:// or http://; of the public internet, unless CAY_WEBHOOK_ALLOW has it.
    pub url: String,
    /// Topics, beginnings of topics as exec.*, or * (the default).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<String>>,
    /// Of this sandbox only: its id, or the name of one.
    #[serde(rename = "sandboxId", skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// What messages are signed with (default: a new one).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// It is gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WebhookDeleted {
    /// Its id.
    pub deleted: String,
}

/// What is asked of `webhook_deliveries`, in the query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WebhookDeliveriesQuery {
    /// How many at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WebhookList {
    /// The oldest first.
    pub webhooks: Vec<Webhook>,
}

/// A webhook and its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WebhookMade {
    /// wh_ and 24 hex digits.
    pub id: String,
    /// Where events are sent.
    pub url: String,
    /// Of which events.
    pub topics: Vec<String>,
    /// Of which sandbox; null = of all.
    #[serde(rename = "sandboxId")]
    pub sandbox_id: Option<String>,
    /// Whether anything is sent; else events wait.
    pub active: bool,
    /// Unix milliseconds.
    #[serde(rename = "createdAt")]
    pub created_at: i64,
    /// Attempts in a row that failed; 0 = it takes what it is sent.
    pub failures: i64,
    /// HTTP status of the last attempt; null = there was no answer.
    #[serde(rename = "lastStatus")]
    pub last_status: Option<i64>,
    /// Why there was no answer, as in deliveries.
    #[serde(rename = "lastError")]
    pub last_error: Option<String>,
    /// Unix milliseconds; null = nothing was sent yet.
    #[serde(rename = "lastAttemptAt")]
    pub last_attempt_at: Option<i64>,
    /// When it is tried again, after a failure.
    #[serde(rename = "nextAttemptAt")]
    pub next_attempt_at: Option<i64>,
    /// What messages are signed with; it is not shown again.
    pub secret: String,
}

/// What is asked of `webhook_update`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WebhookUpdateRequest {
    /// false: nothing is sent, and events wait; true: it goes on at once.
    pub active: bool,
}

/// A machine with sandboxes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Worker {
    /// wrk_ and 24 hex digits: the same after a restart.
    #[serde(rename = "workerId")]
    pub worker_id: String,
    /// Of the machine.
    pub hostname: String,
    /// That run or are paused.
    #[serde(rename = "activeSandboxes")]
    pub active_sandboxes: i64,
    /// Whose disks are kept.
    #[serde(rename = "stoppedSandboxes")]
    pub stopped_sandboxes: i64,
    /// How many there may be in all.
    #[serde(rename = "maxSandboxes")]
    pub max_sandboxes: i64,
    /// Of all cores of the machine, since the look before.
    #[serde(rename = "cpuPercent")]
    pub cpu_percent: f64,
    /// Of the machine.
    pub cores: i64,
    /// Of the machine.
    pub memory: WorkerMemory,
    /// Where the disks of sandboxes are.
    #[serde(rename = "diskFreeMb")]
    pub disk_free_mb: i64,
    /// Of cay.
    pub version: String,
    /// Now, in Unix milliseconds.
    #[serde(rename = "lastHeartbeat")]
    pub last_heartbeat: i64,
}

/// The machines with sandboxes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerList {
    /// This machine.
    pub workers: Vec<Worker>,
    /// How many answer.
    pub alive: i64,
    /// How many do not.
    pub dead: i64,
}

/// Memory of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerMemory {
    /// Of the machine.
    #[serde(rename = "totalMb")]
    pub total_mb: i64,
    /// That nothing uses, not even as a cache.
    #[serde(rename = "freeMb")]
    pub free_mb: i64,
}

/// Where another sandbox can be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerSelected {
    /// That has room.
    #[serde(rename = "workerId")]
    pub worker_id: String,
}

/// What was given to this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkersMigrated {
    /// Sandboxes that had no machine yet.
    pub migrated: i64,
}

/// What was done about machines that are gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkersReaped {
    /// Machines that did not answer.
    pub reaped: i64,
    /// Sandboxes of theirs that were taken over.
    pub reassigned: i64,
    /// Sandboxes of theirs that are lost.
    pub expired: i64,
}
