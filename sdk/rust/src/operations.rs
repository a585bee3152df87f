// Made by tools/generate.py from the daemon's /openapi.json. Do not edit: run that again.

//! Every operation of the daemon, one method each.

use reqwest::Method;

use crate::call::{escape, ByteStream, Payload, Upgraded};
use crate::client::Client;
use crate::error::Result;
use crate::sse::EventStream;
use crate::types::*;
use crate::websocket::WebSocket;

/// All that the daemon can do, operation by operation, as `/openapi.json` names them. [`Client::api`] gives it.
///
/// [`Sandbox`](crate::Sandbox) and the managers are built from these.
#[derive(Debug, Clone, Copy)]
pub struct Api<'a> {
    pub(crate) client: &'a Client,
}

impl Api<'_> {
    /// Makes a sandbox and starts it.
    ///
    /// `POST /sandbox/sandboxes`
    pub async fn sandbox_create(&self, body: &SandboxCreateRequest) -> Result<Sandbox> {
        self.client.call(Method::POST, "/sandboxes").keyed().json(body)?.send_json().await
    }

    /// Makes a sandbox and starts it, and tells what happens meanwhile.
    ///
    /// `POST /sandbox/sandboxes`
    pub async fn sandbox_create_events(&self, body: &SandboxCreateRequest) -> Result<EventStream<CreateEvent>> {
        self.client.call(Method::POST, "/sandboxes").keyed().json(body)?.send_events().await
    }

    /// Lists sandboxes, the newest first.
    ///
    /// `GET /sandbox/sandboxes`
    pub async fn sandbox_list(&self, query: &SandboxListQuery) -> Result<SandboxList> {
        self.client.call(Method::GET, "/sandboxes").query(query)?.send_json().await
    }

    /// Shows a sandbox.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}`
    pub async fn sandbox_get(&self, sandbox_id: &str) -> Result<Sandbox> {
        self.client.call(Method::GET, format!("/sandboxes/{}", escape(sandbox_id))).send_json().await
    }

    /// Changes a sandbox; what is not sent stays. Limits hold at once, and programs are told of them with the next start.
    ///
    /// `PATCH /sandbox/sandboxes/{sandboxId}`
    pub async fn sandbox_update(&self, sandbox_id: &str, body: &SandboxUpdateRequest) -> Result<Sandbox> {
        self.client.call(Method::PATCH, format!("/sandboxes/{}", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Ends a sandbox and removes it.
    ///
    /// `DELETE /sandbox/sandboxes/{sandboxId}`
    pub async fn sandbox_kill(&self, sandbox_id: &str) -> Result<Success> {
        self.client.call(Method::DELETE, format!("/sandboxes/{}", escape(sandbox_id))).send_json().await
    }

    /// Freezes every process of a sandbox.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/pause`
    pub async fn sandbox_pause(&self, sandbox_id: &str) -> Result<Sandbox> {
        self.client.call(Method::POST, format!("/sandboxes/{}/pause", escape(sandbox_id))).send_json().await
    }

    /// Lets a paused sandbox go on.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/resume`
    pub async fn sandbox_resume(&self, sandbox_id: &str) -> Result<Sandbox> {
        self.client.call(Method::POST, format!("/sandboxes/{}/resume", escape(sandbox_id))).send_json().await
    }

    /// Ends every process of a sandbox and keeps its files; nothing happens to one that is stopped. It expires after CAY_STOPPED_TTL.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/stop`
    pub async fn sandbox_stop(&self, sandbox_id: &str, body: &SandboxStopRequest) -> Result<Sandbox> {
        self.client.call(Method::POST, format!("/sandboxes/{}/stop", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Starts a stopped sandbox again, with its files, environment and entrypoint; nothing happens to one that runs. It expires after its timeout.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/start`
    pub async fn sandbox_start(&self, sandbox_id: &str) -> Result<Sandbox> {
        self.client.call(Method::POST, format!("/sandboxes/{}/start", escape(sandbox_id))).send_json().await
    }

    /// Says that a sandbox is in use, so that it is not idle.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/touch`
    pub async fn sandbox_touch(&self, sandbox_id: &str) -> Result<Sandbox> {
        self.client.call(Method::POST, format!("/sandboxes/{}/touch", escape(sandbox_id))).send_json().await
    }

    /// Sets when a sandbox expires.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/renew`
    pub async fn sandbox_renew(&self, sandbox_id: &str, body: &SandboxRenewRequest) -> Result<Sandbox> {
        self.client.call(Method::POST, format!("/sandboxes/{}/renew", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Shows what a sandbox may reach, its addresses and what it was refused.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/network`
    pub async fn sandbox_network(&self, sandbox_id: &str) -> Result<SandboxNetwork> {
        self.client.call(Method::GET, format!("/sandboxes/{}/network", escape(sandbox_id))).send_json().await
    }

    /// Changes what a sandbox may reach, also while it is paused or stopped; connections that are no longer allowed are cut.
    ///
    /// `PUT /sandbox/sandboxes/{sandboxId}/network`
    pub async fn sandbox_network_set(&self, sandbox_id: &str, body: &SandboxNetworkSetRequest) -> Result<SandboxNetwork> {
        self.client.call(Method::PUT, format!("/sandboxes/{}/network", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Tells what would happen to a connection, and why.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/network/explain`
    pub async fn sandbox_network_explain(&self, sandbox_id: &str, query: &SandboxNetworkExplainQuery) -> Result<NetworkVerdict> {
        self.client.call(Method::GET, format!("/sandboxes/{}/network/explain", escape(sandbox_id))).query(query)?.send_json().await
    }

    /// Lists what a sandbox was refused.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/network/log`
    pub async fn sandbox_network_log(&self, sandbox_id: &str, query: &SandboxNetworkLogQuery) -> Result<NetworkLog> {
        self.client.call(Method::GET, format!("/sandboxes/{}/network/log", escape(sandbox_id))).query(query)?.send_json().await
    }

    /// Streams what a sandbox is refused, until it is removed.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/stream/network`
    pub async fn stream_network(&self, sandbox_id: &str, query: &StreamNetworkQuery) -> Result<EventStream<NetworkDenial>> {
        self.client.call(Method::GET, format!("/sandboxes/{}/stream/network", escape(sandbox_id))).query(query)?.send_events().await
    }

    /// Runs a command and waits for it.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/exec`
    pub async fn cmd_run(&self, sandbox_id: &str, body: &CmdRunRequest) -> Result<ExecResult> {
        self.client.call(Method::POST, format!("/sandboxes/{}/exec", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Lists commands that run, and the last that ended.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/exec`
    pub async fn cmd_list(&self, sandbox_id: &str) -> Result<ExecList> {
        self.client.call(Method::GET, format!("/sandboxes/{}/exec", escape(sandbox_id))).send_json().await
    }

    /// Runs a command and streams its output.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/exec/stream`
    pub async fn cmd_run_stream(&self, sandbox_id: &str, body: &CmdRunStreamRequest) -> Result<EventStream<ExecEvent>> {
        self.client.call(Method::POST, format!("/sandboxes/{}/exec/stream", escape(sandbox_id))).json(body)?.send_events().await
    }

    /// Runs a command with input, output and signals over an upgraded connection.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/exec/attach`
    pub async fn cmd_attach(&self, sandbox_id: &str, body: &CmdAttachRequest) -> Result<Upgraded> {
        self.client.call(Method::POST, format!("/sandboxes/{}/exec/attach", escape(sandbox_id))).json(body)?.send_upgrade("cay-exec").await
    }

    /// Starts a command and leaves it running.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/exec/background`
    pub async fn cmd_background(&self, sandbox_id: &str, body: &CmdBackgroundRequest) -> Result<BackgroundExec> {
        self.client.call(Method::POST, format!("/sandboxes/{}/exec/background", escape(sandbox_id))).keyed().json(body)?.send_json().await
    }

    /// Shows a background command; also while the sandbox is paused.
    ///
    /// `GET /sandbox/exec/background/{execId}/status`
    pub async fn cmd_background_status(&self, exec_id: &str) -> Result<BackgroundExec> {
        self.client.call(Method::GET, format!("/exec/background/{}/status", escape(exec_id))).send_json().await
    }

    /// Reads the output of a background command; also while the sandbox is paused.
    ///
    /// `GET /sandbox/exec/background/{execId}/logs`
    pub async fn cmd_background_logs(&self, exec_id: &str, query: &CmdBackgroundLogsQuery) -> Result<ExecLogs> {
        self.client.call(Method::GET, format!("/exec/background/{}/logs", escape(exec_id))).query(query)?.send_json().await
    }

    /// Shows a command and what it has put out.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/exec/{execId}`
    pub async fn cmd_get(&self, sandbox_id: &str, exec_id: &str, query: &CmdGetQuery) -> Result<ExecState> {
        self.client.call(Method::GET, format!("/sandboxes/{}/exec/{}", escape(sandbox_id), escape(exec_id))).query(query)?.send_json().await
    }

    /// Streams what a command puts out, from a cursor on.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/exec/{execId}/stream`
    pub async fn cmd_get_stream(&self, sandbox_id: &str, exec_id: &str, query: &CmdGetStreamQuery) -> Result<EventStream<ExecEvent>> {
        self.client.call(Method::GET, format!("/sandboxes/{}/exec/{}/stream", escape(sandbox_id), escape(exec_id))).query(query)?.send_events().await
    }

    /// Attaches to a command that runs, over an upgraded connection.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/exec/{execId}/attach`
    pub async fn cmd_get_attach(&self, sandbox_id: &str, exec_id: &str, body: &CmdGetAttachRequest) -> Result<Upgraded> {
        self.client.call(Method::POST, format!("/sandboxes/{}/exec/{}/attach", escape(sandbox_id), escape(exec_id))).json(body)?.send_upgrade("cay-exec").await
    }

    /// Ends a command and all that it started.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/exec/{execId}/kill`
    pub async fn cmd_kill(&self, sandbox_id: &str, exec_id: &str) -> Result<ExecInfo> {
        self.client.call(Method::POST, format!("/sandboxes/{}/exec/{}/kill", escape(sandbox_id), escape(exec_id))).send_json().await
    }

    /// Sends SIGINT to a command or to all; to a paused sandbox as well, for when it goes on.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/exec/interrupt`
    pub async fn cmd_interrupt(&self, sandbox_id: &str, body: &CmdInterruptRequest) -> Result<Interrupted> {
        self.client.call(Method::POST, format!("/sandboxes/{}/exec/interrupt", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Reads a file as text.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/read`
    pub async fn fs_read(&self, sandbox_id: &str, body: &FsReadRequest) -> Result<FileText> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/read", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Replaces a file with text; parents are made.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/write`
    pub async fn fs_write(&self, sandbox_id: &str, body: &FsWriteRequest) -> Result<Success> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/write", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Removes a file; fine if it is gone.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/delete`
    pub async fn fs_delete(&self, sandbox_id: &str, body: &FsDeleteRequest) -> Result<Success> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/delete", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Lists a directory.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/list`
    pub async fn fs_list(&self, sandbox_id: &str, body: &FsListRequest) -> Result<FileList> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/list", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Finds regular files by name, in all folders below.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/search`
    pub async fn fs_search(&self, sandbox_id: &str, body: &FsSearchRequest) -> Result<FilePaths> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/search", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Replaces a file with bytes; a stream has no size limit but the sandbox's disk.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/upload`
    pub async fn fs_upload(&self, sandbox_id: &str, body: &FsUploadRequest) -> Result<Success> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/upload", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Replaces a file with bytes; a stream has no size limit but the sandbox's disk, from a stream of bytes.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/upload`
    pub async fn fs_upload_from(&self, sandbox_id: &str, query: &FsUploadQuery, body: impl Into<Payload>) -> Result<Success> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/upload", escape(sandbox_id))).query(query)?.payload(body.into()).send_json().await
    }

    /// Reads a file's bytes; with Accept: application/octet-stream as they are.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/download`
    pub async fn fs_download(&self, sandbox_id: &str, body: &FsDownloadRequest) -> Result<FileBytes> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/download", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Reads a file's bytes; with Accept: application/octet-stream as they are, as bytes.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/download`
    pub async fn fs_download_bytes(&self, sandbox_id: &str, body: &FsDownloadRequest) -> Result<ByteStream> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/download", escape(sandbox_id))).json(body)?.send_bytes("application/octet-stream").await
    }

    /// Shows what paths are.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/info`
    pub async fn fs_info(&self, sandbox_id: &str, body: &FsInfoRequest) -> Result<FileMetaAnswer> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/info", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Moves as mv does: onto a directory means into it, and a directory replaces nothing; stops at the first failure.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/move`
    pub async fn fs_move(&self, sandbox_id: &str, body: &FsMoveRequest) -> Result<Success> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/move", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Copies a file, or a directory with all that is in it, with modes, owners and times.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/copy`
    pub async fn fs_copy(&self, sandbox_id: &str, body: &FsCopyRequest) -> Result<Success> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/copy", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Makes a symbolic link; parents are made.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/symlink`
    pub async fn fs_symlink(&self, sandbox_id: &str, body: &FsSymlinkRequest) -> Result<Success> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/symlink", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Makes directories and their parents.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/mkdir`
    pub async fn fs_mkdir(&self, sandbox_id: &str, body: &FsMkdirRequest) -> Result<Success> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/mkdir", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Removes directories and what is in them.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/rmdir`
    pub async fn fs_rmdir(&self, sandbox_id: &str, body: &FsRmdirRequest) -> Result<Success> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/rmdir", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Changes a file's mode.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/chmod`
    pub async fn fs_chmod(&self, sandbox_id: &str, body: &FsChmodRequest) -> Result<Success> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/chmod", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Puts a command into the queue, which runs it when its turn comes, also after a restart; while the sandbox is paused or stopped it waits.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/exec/queue`
    pub async fn queue_submit(&self, sandbox_id: &str, body: &QueueSubmitRequest) -> Result<Job> {
        self.client.call(Method::POST, format!("/sandboxes/{}/exec/queue", escape(sandbox_id))).keyed().json(body)?.send_json().await
    }

    /// Lists jobs, the newest first.
    ///
    /// `GET /sandbox/queue`
    pub async fn queue_list(&self, query: &QueueListQuery) -> Result<JobList> {
        self.client.call(Method::GET, "/queue").query(query)?.send_json().await
    }

    /// Shows a job, and once it is over its result.
    ///
    /// `GET /sandbox/queue/{jobId}/status`
    pub async fn queue_status(&self, job_id: &str) -> Result<Job> {
        self.client.call(Method::GET, format!("/queue/{}/status", escape(job_id))).send_json().await
    }

    /// Gives what a job has put out, also while it runs.
    ///
    /// `GET /sandbox/queue/{jobId}/logs`
    pub async fn queue_logs(&self, job_id: &str, query: &QueueLogsQuery) -> Result<JobLogs> {
        self.client.call(Method::GET, format!("/queue/{}/logs", escape(job_id))).query(query)?.send_json().await
    }

    /// Takes a job out of the queue; one that runs is ended, with all that it started.
    ///
    /// `POST /sandbox/queue/{jobId}/cancel`
    pub async fn queue_cancel(&self, job_id: &str) -> Result<JobCancelled> {
        self.client.call(Method::POST, format!("/queue/{}/cancel", escape(job_id))).send_json().await
    }

    /// Lists the jobs that failed: the dead letters.
    ///
    /// `GET /sandbox/queue/dlq`
    pub async fn queue_dlq(&self, query: &QueueDlqQuery) -> Result<JobList> {
        self.client.call(Method::GET, "/queue/dlq").query(query)?.send_json().await
    }

    /// Forgets the jobs that failed.
    ///
    /// `DELETE /sandbox/queue/dlq`
    pub async fn queue_purge(&self, query: &QueuePurgeQuery) -> Result<JobsPurged> {
        self.client.call(Method::DELETE, "/queue/dlq").query(query)?.send_json().await
    }

    /// Puts a job that failed into the queue again, with all its tries.
    ///
    /// `POST /sandbox/queue/dlq/{jobId}/requeue`
    pub async fn queue_requeue(&self, job_id: &str) -> Result<Job> {
        self.client.call(Method::POST, format!("/queue/dlq/{}/requeue", escape(job_id))).send_json().await
    }

    /// Forgets a job that failed.
    ///
    /// `DELETE /sandbox/queue/dlq/{jobId}`
    pub async fn queue_forget(&self, job_id: &str) -> Result<JobsPurged> {
        self.client.call(Method::DELETE, format!("/queue/dlq/{}", escape(job_id))).send_json().await
    }

    /// Tells of changes to files as they happen.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/files/watch`
    pub async fn fs_watch(&self, sandbox_id: &str, body: &FsWatchRequest) -> Result<EventStream<FileChange>> {
        self.client.call(Method::POST, format!("/sandboxes/{}/files/watch", escape(sandbox_id))).json(body)?.send_events().await
    }

    /// Tells of changes to files as they happen, over a WebSocket.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/files/watch/ws`
    pub async fn fs_watch_socket(&self, sandbox_id: &str, query: &FsWatchSocketQuery) -> Result<WebSocket> {
        self.client.call(Method::GET, format!("/sandboxes/{}/files/watch/ws", escape(sandbox_id))).query(query)?.send_websocket().await
    }

    /// Runs code and waits for it; what it prints and gives comes as events to who asks for them.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/interpret/execute`
    pub async fn interp_execute(&self, sandbox_id: &str, body: &InterpExecuteRequest) -> Result<Execution> {
        self.client.call(Method::POST, format!("/sandboxes/{}/interpret/execute", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Runs code and waits for it; what it prints and gives comes as events to who asks for them, and tells what happens meanwhile.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/interpret/execute`
    pub async fn interp_execute_events(&self, sandbox_id: &str, body: &InterpExecuteRequest) -> Result<EventStream<ExecutionEvent>> {
        self.client.call(Method::POST, format!("/sandboxes/{}/interpret/execute", escape(sandbox_id))).json(body)?.send_events().await
    }

    /// Installs packages for a language, or of the system.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/interpret/install`
    pub async fn interp_install(&self, sandbox_id: &str, body: &InterpInstallRequest) -> Result<Installed> {
        self.client.call(Method::POST, format!("/sandboxes/{}/interpret/install", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Lists the languages that this sandbox has.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/interpret/kernels`
    pub async fn interp_kernels(&self, sandbox_id: &str) -> Result<Kernels> {
        self.client.call(Method::GET, format!("/sandboxes/{}/interpret/kernels", escape(sandbox_id))).send_json().await
    }

    /// Starts an interpreter that keeps what code leaves in it.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/interpret/contexts`
    pub async fn interp_context_create(&self, sandbox_id: &str, body: &InterpContextCreateRequest) -> Result<CodeContext> {
        self.client.call(Method::POST, format!("/sandboxes/{}/interpret/contexts", escape(sandbox_id))).keyed().json(body)?.send_json().await
    }

    /// Lists the contexts of a sandbox.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/interpret/contexts`
    pub async fn interp_context_list(&self, sandbox_id: &str) -> Result<CodeContextList> {
        self.client.call(Method::GET, format!("/sandboxes/{}/interpret/contexts", escape(sandbox_id))).send_json().await
    }

    /// Shows a context.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/interpret/contexts/{contextId}`
    pub async fn interp_context_get(&self, sandbox_id: &str, context_id: &str) -> Result<CodeContext> {
        self.client.call(Method::GET, format!("/sandboxes/{}/interpret/contexts/{}", escape(sandbox_id), escape(context_id))).send_json().await
    }

    /// Ends a context, with all that it started.
    ///
    /// `DELETE /sandbox/sandboxes/{sandboxId}/interpret/contexts/{contextId}`
    pub async fn interp_context_delete(&self, sandbox_id: &str, context_id: &str) -> Result<Success> {
        self.client.call(Method::DELETE, format!("/sandboxes/{}/interpret/contexts/{}", escape(sandbox_id), escape(context_id))).send_json().await
    }

    /// Ends a context and starts it anew, empty, with the same id and settings.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/interpret/contexts/{contextId}/restart`
    pub async fn interp_context_restart(&self, sandbox_id: &str, context_id: &str) -> Result<CodeContext> {
        self.client.call(Method::POST, format!("/sandboxes/{}/interpret/contexts/{}/restart", escape(sandbox_id), escape(context_id))).send_json().await
    }

    /// Interrupts what a context runs, as Ctrl-C does; what it keeps stays.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/interpret/contexts/{contextId}/interrupt`
    pub async fn interp_context_interrupt(&self, sandbox_id: &str, context_id: &str) -> Result<Success> {
        self.client.call(Method::POST, format!("/sandboxes/{}/interpret/contexts/{}/interrupt", escape(sandbox_id), escape(context_id))).send_json().await
    }

    /// Reads a variable of the environment.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/env/get`
    pub async fn env_get(&self, sandbox_id: &str, body: &EnvGetRequest) -> Result<EnvValue> {
        self.client.call(Method::POST, format!("/sandboxes/{}/env/get", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Sets variables for every later command.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/env`
    pub async fn env_set(&self, sandbox_id: &str, body: &EnvSetRequest) -> Result<EnvSet> {
        self.client.call(Method::POST, format!("/sandboxes/{}/env", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Lists the environment of commands.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/env`
    pub async fn env_list(&self, sandbox_id: &str) -> Result<EnvList> {
        self.client.call(Method::GET, format!("/sandboxes/{}/env", escape(sandbox_id))).send_json().await
    }

    /// Removes a variable.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/env/delete`
    pub async fn env_delete(&self, sandbox_id: &str, body: &EnvDeleteRequest) -> Result<EnvDeleted> {
        self.client.call(Method::POST, format!("/sandboxes/{}/env/delete", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Clones a repository with the sandbox's git.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/git/clone`
    pub async fn git_clone(&self, sandbox_id: &str, body: &GitCloneRequest) -> Result<ExecResult> {
        self.client.call(Method::POST, format!("/sandboxes/{}/git/clone", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Clones a repository with the sandbox's git, and tells what happens meanwhile.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/git/clone`
    pub async fn git_clone_events(&self, sandbox_id: &str, body: &GitCloneRequest) -> Result<EventStream<GitEvent>> {
        self.client.call(Method::POST, format!("/sandboxes/{}/git/clone", escape(sandbox_id))).json(body)?.send_events().await
    }

    /// Shows what is not as in the last commit.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/git/status`
    pub async fn git_status(&self, sandbox_id: &str, query: &GitStatusQuery) -> Result<GitStatus> {
        self.client.call(Method::GET, format!("/sandboxes/{}/git/status", escape(sandbox_id))).query(query)?.send_json().await
    }

    /// Makes a commit.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/git/commit`
    pub async fn git_commit(&self, sandbox_id: &str, body: &GitCommitRequest) -> Result<ExecResult> {
        self.client.call(Method::POST, format!("/sandboxes/{}/git/commit", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Shows what has changed.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/git/diff`
    pub async fn git_diff(&self, sandbox_id: &str, query: &GitDiffQuery) -> Result<GitDiff> {
        self.client.call(Method::GET, format!("/sandboxes/{}/git/diff", escape(sandbox_id))).query(query)?.send_json().await
    }

    /// Lists the last commits.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/git/log`
    pub async fn git_log(&self, sandbox_id: &str, query: &GitLogQuery) -> Result<GitLog> {
        self.client.call(Method::GET, format!("/sandboxes/{}/git/log", escape(sandbox_id))).query(query)?.send_json().await
    }

    /// Lists branches, makes one or deletes one.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/git/branch`
    pub async fn git_branch(&self, sandbox_id: &str, body: &GitBranchRequest) -> Result<GitBranches> {
        self.client.call(Method::POST, format!("/sandboxes/{}/git/branch", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Checks out a branch, a tag or a commit.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/git/checkout`
    pub async fn git_checkout(&self, sandbox_id: &str, body: &GitCheckoutRequest) -> Result<ExecResult> {
        self.client.call(Method::POST, format!("/sandboxes/{}/git/checkout", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Pushes commits to a remote.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/git/push`
    pub async fn git_push(&self, sandbox_id: &str, body: &GitPushRequest) -> Result<ExecResult> {
        self.client.call(Method::POST, format!("/sandboxes/{}/git/push", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Pushes commits to a remote, and tells what happens meanwhile.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/git/push`
    pub async fn git_push_events(&self, sandbox_id: &str, body: &GitPushRequest) -> Result<EventStream<GitEvent>> {
        self.client.call(Method::POST, format!("/sandboxes/{}/git/push", escape(sandbox_id))).json(body)?.send_events().await
    }

    /// Takes commits from a remote.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/git/pull`
    pub async fn git_pull(&self, sandbox_id: &str, body: &GitPullRequest) -> Result<ExecResult> {
        self.client.call(Method::POST, format!("/sandboxes/{}/git/pull", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Takes commits from a remote, and tells what happens meanwhile.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/git/pull`
    pub async fn git_pull_events(&self, sandbox_id: &str, body: &GitPullRequest) -> Result<EventStream<GitEvent>> {
        self.client.call(Method::POST, format!("/sandboxes/{}/git/pull", escape(sandbox_id))).json(body)?.send_events().await
    }

    /// Sets a threshold for what a sandbox uses.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/alerts`
    pub async fn monitor_set_alert(&self, sandbox_id: &str, body: &MonitorSetAlertRequest) -> Result<Alert> {
        self.client.call(Method::POST, format!("/sandboxes/{}/alerts", escape(sandbox_id))).keyed().json(body)?.send_json().await
    }

    /// Lists the alerts of a sandbox.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/alerts`
    pub async fn monitor_list_alerts(&self, sandbox_id: &str) -> Result<AlertList> {
        self.client.call(Method::GET, format!("/sandboxes/{}/alerts", escape(sandbox_id))).send_json().await
    }

    /// Deletes an alert.
    ///
    /// `DELETE /sandbox/alerts/{alertId}`
    pub async fn monitor_delete_alert(&self, alert_id: &str) -> Result<AlertDeleted> {
        self.client.call(Method::DELETE, format!("/alerts/{}", escape(alert_id))).send_json().await
    }

    /// Tells when alerts of a sandbox have fired.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/alerts/history`
    pub async fn monitor_alert_history(&self, sandbox_id: &str, query: &MonitorAlertHistoryQuery) -> Result<AlertHistory> {
        self.client.call(Method::GET, format!("/sandboxes/{}/alerts/history", escape(sandbox_id))).query(query)?.send_json().await
    }

    /// Lists the processes of a sandbox.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/processes`
    pub async fn proc_list(&self, sandbox_id: &str) -> Result<ProcessList> {
        self.client.call(Method::GET, format!("/sandboxes/{}/processes", escape(sandbox_id))).send_json().await
    }

    /// Sends a signal; fine if the process is gone.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/processes/kill`
    pub async fn proc_kill(&self, sandbox_id: &str, body: &ProcKillRequest) -> Result<ProcessKilled> {
        self.client.call(Method::POST, format!("/sandboxes/{}/processes/kill", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Lists the processes with what they use.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/processes/top`
    pub async fn proc_top(&self, sandbox_id: &str) -> Result<ProcessTop> {
        self.client.call(Method::GET, format!("/sandboxes/{}/processes/top", escape(sandbox_id))).send_json().await
    }

    /// Shows what a sandbox uses.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/metrics`
    pub async fn metrics_sandbox(&self, sandbox_id: &str) -> Result<Metrics> {
        self.client.call(Method::GET, format!("/sandboxes/{}/metrics", escape(sandbox_id))).send_json().await
    }

    /// Shows counters of the daemon.
    ///
    /// `GET /sandbox/metrics`
    pub async fn metrics_global(&self) -> Result<GlobalMetrics> {
        self.client.call(Method::GET, "/metrics").send_json().await
    }

    /// Says that the daemon answers.
    ///
    /// `GET /sandbox/health`
    pub async fn metrics_health(&self) -> Result<Health> {
        self.client.call(Method::GET, "/health").send_json().await
    }

    /// Lists calls that have ended, newest first.
    ///
    /// `GET /sandbox/observability/traces`
    pub async fn observability_traces(&self, query: &ObservabilityTracesQuery) -> Result<Traces> {
        self.client.call(Method::GET, "/observability/traces").query(query)?.send_json().await
    }

    /// Shows what all calls add up to: counts, failures, percentiles.
    ///
    /// `GET /sandbox/observability/metrics`
    pub async fn observability_metrics(&self) -> Result<ObservabilityMetrics> {
        self.client.call(Method::GET, "/observability/metrics").send_json().await
    }

    /// Removes traces; counters of /metrics stay.
    ///
    /// `POST /sandbox/observability/clear`
    pub async fn observability_clear(&self, body: &ObservabilityClearRequest) -> Result<TracesCleared> {
        self.client.call(Method::POST, "/observability/clear").json(body)?.send_json().await
    }

    /// Tells all metrics as text for Prometheus; also at /metrics without the prefix.
    ///
    /// `GET /sandbox/metrics/prometheus`
    pub async fn metrics_prometheus(&self) -> Result<String> {
        self.client.call(Method::GET, "/metrics/prometheus").send_text().await
    }

    /// Shows what a sandbox used within the last hour.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/metrics/history`
    pub async fn metrics_history(&self, sandbox_id: &str, query: &MetricsHistoryQuery) -> Result<MetricsHistory> {
        self.client.call(Method::GET, format!("/sandboxes/{}/metrics/history", escape(sandbox_id))).query(query)?.send_json().await
    }

    /// Streams the output of the main process, line by line.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/stream/logs`
    pub async fn stream_logs(&self, sandbox_id: &str, query: &StreamLogsQuery) -> Result<EventStream<LogEvent>> {
        self.client.call(Method::GET, format!("/sandboxes/{}/stream/logs", escape(sandbox_id))).query(query)?.send_events().await
    }

    /// Streams what a sandbox uses.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/stream/metrics`
    pub async fn stream_metrics(&self, sandbox_id: &str, query: &StreamMetricsQuery) -> Result<EventStream<Metrics>> {
        self.client.call(Method::GET, format!("/sandboxes/{}/stream/metrics", escape(sandbox_id))).query(query)?.send_events().await
    }

    /// Lists images.
    ///
    /// `GET /sandbox/images`
    pub async fn image_list(&self) -> Result<ImageList> {
        self.client.call(Method::GET, "/images").send_json().await
    }

    /// Lists the short names of images and what they stand for.
    ///
    /// `GET /sandbox/images/catalog`
    pub async fn image_catalog(&self) -> Result<ImageCatalog> {
        self.client.call(Method::GET, "/images/catalog").send_json().await
    }

    /// Gets an image from its registry.
    ///
    /// `POST /sandbox/images/pull`
    pub async fn image_pull(&self, body: &ImagePullRequest) -> Result<Image> {
        self.client.call(Method::POST, "/images/pull").json(body)?.send_json().await
    }

    /// Gets an image from its registry, and tells what happens meanwhile.
    ///
    /// `POST /sandbox/images/pull`
    pub async fn image_pull_events(&self, body: &ImagePullRequest) -> Result<EventStream<PullEvent>> {
        self.client.call(Method::POST, "/images/pull").json(body)?.send_events().await
    }

    /// Makes an image from a directory or an archive; only for root, on the unix socket.
    ///
    /// `POST /sandbox/images/import`
    pub async fn image_import(&self, body: &ImageImportRequest) -> Result<Image> {
        self.client.call(Method::POST, "/images/import").json(body)?.send_json().await
    }

    /// Makes an image from a directory or an archive; only for root, on the unix socket, and tells what happens meanwhile.
    ///
    /// `POST /sandbox/images/import`
    pub async fn image_import_events(&self, body: &ImageImportRequest) -> Result<EventStream<PullEvent>> {
        self.client.call(Method::POST, "/images/import").json(body)?.send_events().await
    }

    /// Removes images that no sandbox uses.
    ///
    /// `POST /sandbox/images/prune`
    pub async fn image_prune(&self, body: &ImagePruneRequest) -> Result<ImagePrune> {
        self.client.call(Method::POST, "/images/prune").json(body)?.send_json().await
    }

    /// Shows an image; / and : of its name are percent-encoded.
    ///
    /// `GET /sandbox/images/{name}`
    pub async fn image_get(&self, name: &str) -> Result<Image> {
        self.client.call(Method::GET, format!("/images/{}", escape(name))).send_json().await
    }

    /// Removes an image that no sandbox uses.
    ///
    /// `DELETE /sandbox/images/{name}`
    pub async fn image_remove(&self, name: &str) -> Result<ImageDeleted> {
        self.client.call(Method::DELETE, format!("/images/{}", escape(name))).send_json().await
    }

    /// Gives an image one more name.
    ///
    /// `POST /sandbox/images/{image}/tag`
    pub async fn image_tag(&self, image: &str, body: &ImageTagRequest) -> Result<Image> {
        self.client.call(Method::POST, format!("/images/{}/tag", escape(image))).json(body)?.send_json().await
    }

    /// Gives an image as an OCI layout in a tar archive, which docker load takes too.
    ///
    /// `GET /sandbox/images/{name}/export`
    pub async fn image_export(&self, name: &str) -> Result<ByteStream> {
        self.client.call(Method::GET, format!("/images/{}/export", escape(name))).send_bytes("application/x-tar").await
    }

    /// Makes an image of a sandbox as it is; one that runs stands still meanwhile.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/commit`
    pub async fn image_commit(&self, sandbox_id: &str, body: &ImageCommitRequest) -> Result<Image> {
        self.client.call(Method::POST, format!("/sandboxes/{}/commit", escape(sandbox_id))).keyed().json(body)?.send_json().await
    }

    /// Removes expired sandboxes now.
    ///
    /// `POST /sandbox/admin/sweep`
    pub async fn lifecycle_sweep(&self) -> Result<Sweep> {
        self.client.call(Method::POST, "/admin/sweep").send_json().await
    }

    /// Lists what is on this machine and belongs to no sandbox.
    ///
    /// `GET /sandbox/admin/strays`
    pub async fn system_strays(&self) -> Result<Strays> {
        self.client.call(Method::GET, "/admin/strays").send_json().await
    }

    /// Makes a stopped sandbox of a disk that belongs to none.
    ///
    /// `POST /sandbox/admin/strays/{strayId}/adopt`
    pub async fn system_stray_adopt(&self, stray_id: &str) -> Result<Sandbox> {
        self.client.call(Method::POST, format!("/admin/strays/{}/adopt", escape(stray_id))).send_json().await
    }

    /// Removes a disk that belongs to no sandbox.
    ///
    /// `DELETE /sandbox/admin/strays/{strayId}`
    pub async fn system_stray_remove(&self, stray_id: &str) -> Result<Success> {
        self.client.call(Method::DELETE, format!("/admin/strays/{}", escape(stray_id))).send_json().await
    }

    /// Says what this daemon is.
    ///
    /// `GET /sandbox/info`
    pub async fn system_info(&self) -> Result<Info> {
        self.client.call(Method::GET, "/info").send_json().await
    }

    /// Gives this description; also outside of the prefix.
    ///
    /// `GET /sandbox/openapi.json`
    pub async fn system_openapi(&self) -> Result<OpenApi> {
        self.client.call(Method::GET, "/openapi.json").send_json().await
    }

    /// Shows this machine as it is now.
    ///
    /// `POST /sandbox/admin/workers/heartbeat`
    pub async fn worker_heartbeat(&self) -> Result<Worker> {
        self.client.call(Method::POST, "/admin/workers/heartbeat").send_json().await
    }

    /// Lists the machines with sandboxes: this one.
    ///
    /// `GET /sandbox/admin/workers`
    pub async fn worker_list(&self) -> Result<WorkerList> {
        self.client.call(Method::GET, "/admin/workers").send_json().await
    }

    /// Says on which machine there is room for another sandbox.
    ///
    /// `GET /sandbox/admin/workers/select`
    pub async fn worker_select(&self) -> Result<WorkerSelected> {
        self.client.call(Method::GET, "/admin/workers/select").send_json().await
    }

    /// Takes over what machines had that are gone: of one machine there are none.
    ///
    /// `POST /sandbox/admin/workers/reap`
    pub async fn worker_reap(&self) -> Result<WorkersReaped> {
        self.client.call(Method::POST, "/admin/workers/reap").send_json().await
    }

    /// Gives sandboxes without a machine to this one: all have it already.
    ///
    /// `POST /sandbox/admin/workers/migrate`
    pub async fn worker_migrate(&self) -> Result<WorkersMigrated> {
        self.client.call(Method::POST, "/admin/workers/migrate").send_json().await
    }

    /// Makes a template; with setup it is built first.
    ///
    /// `POST /sandbox/templates`
    pub async fn template_create(&self, body: &TemplateCreateRequest) -> Result<Template> {
        self.client.call(Method::POST, "/templates").keyed().json(body)?.send_json().await
    }

    /// Makes a template; with setup it is built first, and tells what happens meanwhile.
    ///
    /// `POST /sandbox/templates`
    pub async fn template_create_events(&self, body: &TemplateCreateRequest) -> Result<EventStream<TemplateBuildEvent>> {
        self.client.call(Method::POST, "/templates").keyed().json(body)?.send_events().await
    }

    /// Lists templates.
    ///
    /// `GET /sandbox/templates`
    pub async fn template_list(&self) -> Result<TemplateList> {
        self.client.call(Method::GET, "/templates").send_json().await
    }

    /// Shows a template.
    ///
    /// `GET /sandbox/templates/{templateId}`
    pub async fn template_get(&self, template_id: &str) -> Result<Template> {
        self.client.call(Method::GET, format!("/templates/{}", escape(template_id))).send_json().await
    }

    /// Removes a template; sandboxes made from it stay.
    ///
    /// `DELETE /sandbox/templates/{templateId}`
    pub async fn template_delete(&self, template_id: &str) -> Result<TemplateDeleted> {
        self.client.call(Method::DELETE, format!("/templates/{}", escape(template_id))).send_json().await
    }

    /// Builds a template again, on what its image's name means now.
    ///
    /// `POST /sandbox/templates/{templateId}/build`
    pub async fn template_build(&self, template_id: &str, body: &TemplateBuildRequest) -> Result<Template> {
        self.client.call(Method::POST, format!("/templates/{}/build", escape(template_id))).json(body)?.send_json().await
    }

    /// Builds a template again, on what its image's name means now, and tells what happens meanwhile.
    ///
    /// `POST /sandbox/templates/{templateId}/build`
    pub async fn template_build_events(&self, template_id: &str, body: &TemplateBuildRequest) -> Result<EventStream<TemplateBuildEvent>> {
        self.client.call(Method::POST, format!("/templates/{}/build", escape(template_id))).json(body)?.send_events().await
    }

    /// Builds a template from a Dockerfile or a cay.json; its files come as a tar archive, application/octet-stream, and the rest in the query.
    ///
    /// `POST /sandbox/templates/build`
    pub async fn template_build_directory(&self, body: &TemplateBuildDirectoryRequest) -> Result<Template> {
        self.client.call(Method::POST, "/templates/build").json(body)?.send_json().await
    }

    /// Builds a template from a Dockerfile or a cay.json; its files come as a tar archive, application/octet-stream, and the rest in the query, and tells what happens meanwhile.
    ///
    /// `POST /sandbox/templates/build`
    pub async fn template_build_directory_events(&self, body: &TemplateBuildDirectoryRequest) -> Result<EventStream<TemplateBuildEvent>> {
        self.client.call(Method::POST, "/templates/build").json(body)?.send_events().await
    }

    /// Builds a template from a Dockerfile or a cay.json; its files come as a tar archive, application/octet-stream, and the rest in the query, from a stream of bytes.
    ///
    /// `POST /sandbox/templates/build`
    pub async fn template_build_directory_from(&self, query: &TemplateBuildDirectoryQuery, body: impl Into<Payload>) -> Result<Template> {
        self.client.call(Method::POST, "/templates/build").query(query)?.payload(body.into()).send_json().await
    }

    /// Builds a template from a Dockerfile or a cay.json; its files come as a tar archive, application/octet-stream, and the rest in the query, from a stream of bytes, and tells what happens meanwhile.
    ///
    /// `POST /sandbox/templates/build`
    pub async fn template_build_directory_from_events(&self, query: &TemplateBuildDirectoryQuery, body: impl Into<Payload>) -> Result<EventStream<TemplateBuildEvent>> {
        self.client.call(Method::POST, "/templates/build").query(query)?.payload(body.into()).send_events().await
    }

    /// Keeps a sandbox's disk as it is now; one that runs stands still while what it changed is copied.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/snapshots`
    pub async fn snapshot_create(&self, sandbox_id: &str, body: &SnapshotCreateRequest) -> Result<Snapshot> {
        self.client.call(Method::POST, format!("/sandboxes/{}/snapshots", escape(sandbox_id))).keyed().json(body)?.send_json().await
    }

    /// Lists the snapshots of a sandbox, which may be gone itself; the newest first.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/snapshots`
    pub async fn snapshot_list(&self, sandbox_id: &str, query: &SnapshotListQuery) -> Result<SnapshotList> {
        self.client.call(Method::GET, format!("/sandboxes/{}/snapshots", escape(sandbox_id))).query(query)?.send_json().await
    }

    /// Gives a sandbox the files of its snapshot back; its processes end, and the entrypoint runs again.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/snapshots/restore`
    pub async fn snapshot_restore(&self, sandbox_id: &str, body: &SnapshotRestoreRequest) -> Result<Sandbox> {
        self.client.call(Method::POST, format!("/sandboxes/{}/snapshots/restore", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Lists the snapshots of all sandboxes, the newest first.
    ///
    /// `GET /sandbox/snapshots`
    pub async fn snapshot_all(&self, query: &SnapshotAllQuery) -> Result<SnapshotList> {
        self.client.call(Method::GET, "/snapshots").query(query)?.send_json().await
    }

    /// Makes a snapshot from a layer on top of an image; only for root, on the unix socket.
    ///
    /// `POST /sandbox/snapshots/import`
    pub async fn snapshot_import(&self, body: &SnapshotImportRequest) -> Result<Snapshot> {
        self.client.call(Method::POST, "/snapshots/import").keyed().json(body)?.send_json().await
    }

    /// Gives what a snapshot has beyond its image, as an OCI layer in a tar archive.
    ///
    /// `GET /sandbox/snapshots/{snapshotId}/export`
    pub async fn snapshot_export(&self, snapshot_id: &str) -> Result<ByteStream> {
        self.client.call(Method::GET, format!("/snapshots/{}/export", escape(snapshot_id))).send_bytes("application/x-tar").await
    }

    /// Shows a snapshot.
    ///
    /// `GET /sandbox/snapshots/{snapshotId}`
    pub async fn snapshot_get(&self, snapshot_id: &str) -> Result<Snapshot> {
        self.client.call(Method::GET, format!("/snapshots/{}", escape(snapshot_id))).send_json().await
    }

    /// Removes a snapshot.
    ///
    /// `DELETE /sandbox/snapshots/{snapshotId}`
    pub async fn snapshot_delete(&self, snapshot_id: &str) -> Result<SnapshotDeleted> {
        self.client.call(Method::DELETE, format!("/snapshots/{}", escape(snapshot_id))).send_json().await
    }

    /// Gives a snapshot another name, or labels.
    ///
    /// `POST /sandbox/snapshots/{snapshotId}/label`
    pub async fn snapshot_label(&self, snapshot_id: &str, body: &SnapshotLabelRequest) -> Result<Snapshot> {
        self.client.call(Method::POST, format!("/snapshots/{}/label", escape(snapshot_id))).json(body)?.send_json().await
    }

    /// Makes a sandbox from a snapshot.
    ///
    /// `POST /sandbox/snapshots/{snapshotId}/clone`
    pub async fn snapshot_clone(&self, snapshot_id: &str, body: &SnapshotCloneRequest) -> Result<Sandbox> {
        self.client.call(Method::POST, format!("/snapshots/{}/clone", escape(snapshot_id))).keyed().json(body)?.send_json().await
    }

    /// Tells which files of a sandbox were added, modified or deleted; one that runs stands still meanwhile.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/diff`
    pub async fn sandbox_diff(&self, sandbox_id: &str, query: &SandboxDiffQuery) -> Result<Diff> {
        self.client.call(Method::GET, format!("/sandboxes/{}/diff", escape(sandbox_id))).query(query)?.send_json().await
    }

    /// Makes a sandbox from another as it is now, with its files and its configuration.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/clone`
    pub async fn sandbox_clone(&self, sandbox_id: &str, body: &SandboxCloneRequest) -> Result<Sandbox> {
        self.client.call(Method::POST, format!("/sandboxes/{}/clone", escape(sandbox_id))).keyed().json(body)?.send_json().await
    }

    /// Makes several such clones, or none.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/fork`
    pub async fn sandbox_fork(&self, sandbox_id: &str, body: &SandboxForkRequest) -> Result<Fork> {
        self.client.call(Method::POST, format!("/sandboxes/{}/fork", escape(sandbox_id))).keyed().json(body)?.send_json().await
    }

    /// Makes a volume.
    ///
    /// `POST /sandbox/volumes`
    pub async fn volume_create(&self, body: &VolumeCreateRequest) -> Result<Volume> {
        self.client.call(Method::POST, "/volumes").keyed().json(body)?.send_json().await
    }

    /// Lists volumes, the newest first.
    ///
    /// `GET /sandbox/volumes`
    pub async fn volume_list(&self) -> Result<VolumeList> {
        self.client.call(Method::GET, "/volumes").send_json().await
    }

    /// Shows a volume and who has it.
    ///
    /// `GET /sandbox/volumes/{volumeId}`
    pub async fn volume_get(&self, volume_id: &str) -> Result<Volume> {
        self.client.call(Method::GET, format!("/volumes/{}", escape(volume_id))).send_json().await
    }

    /// Removes a volume that no sandbox has, and all that is in it.
    ///
    /// `DELETE /sandbox/volumes/{volumeId}`
    pub async fn volume_delete(&self, volume_id: &str) -> Result<VolumeDeleted> {
        self.client.call(Method::DELETE, format!("/volumes/{}", escape(volume_id))).send_json().await
    }

    /// Mounts a volume in a sandbox, at once and whenever it is started.
    ///
    /// `POST /sandbox/volumes/{volumeId}/attach`
    pub async fn volume_attach(&self, volume_id: &str, body: &VolumeAttachRequest) -> Result<VolumeAttached> {
        self.client.call(Method::POST, format!("/volumes/{}/attach", escape(volume_id))).keyed().json(body)?.send_json().await
    }

    /// Takes a volume out of a sandbox; refused while files of it are open.
    ///
    /// `POST /sandbox/volumes/{volumeId}/detach`
    pub async fn volume_detach(&self, volume_id: &str, body: &VolumeDetachRequest) -> Result<VolumeDetached> {
        self.client.call(Method::POST, format!("/volumes/{}/detach", escape(volume_id))).json(body)?.send_json().await
    }

    /// Lists a folder of a volume.
    ///
    /// `POST /sandbox/volumes/{volumeId}/files/list`
    pub async fn volume_files(&self, volume_id: &str, body: &VolumeFilesRequest) -> Result<FileList> {
        self.client.call(Method::POST, format!("/volumes/{}/files/list", escape(volume_id))).json(body)?.send_json().await
    }

    /// Shows what a path of a volume is.
    ///
    /// `POST /sandbox/volumes/{volumeId}/files/info`
    pub async fn volume_file_info(&self, volume_id: &str, body: &VolumeFileInfoRequest) -> Result<FileMeta> {
        self.client.call(Method::POST, format!("/volumes/{}/files/info", escape(volume_id))).json(body)?.send_json().await
    }

    /// Reads a file of a volume as text.
    ///
    /// `POST /sandbox/volumes/{volumeId}/files/read`
    pub async fn volume_read(&self, volume_id: &str, body: &VolumeReadRequest) -> Result<FileText> {
        self.client.call(Method::POST, format!("/volumes/{}/files/read", escape(volume_id))).json(body)?.send_json().await
    }

    /// Reads a file of a volume; with Accept: application/octet-stream as it is.
    ///
    /// `POST /sandbox/volumes/{volumeId}/files/download`
    pub async fn volume_download(&self, volume_id: &str, body: &VolumeDownloadRequest) -> Result<FileBytes> {
        self.client.call(Method::POST, format!("/volumes/{}/files/download", escape(volume_id))).json(body)?.send_json().await
    }

    /// Reads a file of a volume; with Accept: application/octet-stream as it is, as bytes.
    ///
    /// `POST /sandbox/volumes/{volumeId}/files/download`
    pub async fn volume_download_bytes(&self, volume_id: &str, body: &VolumeDownloadRequest) -> Result<ByteStream> {
        self.client.call(Method::POST, format!("/volumes/{}/files/download", escape(volume_id))).json(body)?.send_bytes("application/octet-stream").await
    }

    /// Replaces a file of a volume with text.
    ///
    /// `POST /sandbox/volumes/{volumeId}/files/write`
    pub async fn volume_write(&self, volume_id: &str, body: &VolumeWriteRequest) -> Result<Success> {
        self.client.call(Method::POST, format!("/volumes/{}/files/write", escape(volume_id))).json(body)?.send_json().await
    }

    /// Replaces a file of a volume with bytes.
    ///
    /// `POST /sandbox/volumes/{volumeId}/files/upload`
    pub async fn volume_upload(&self, volume_id: &str, body: &VolumeUploadRequest) -> Result<Success> {
        self.client.call(Method::POST, format!("/volumes/{}/files/upload", escape(volume_id))).json(body)?.send_json().await
    }

    /// Replaces a file of a volume with bytes, from a stream of bytes.
    ///
    /// `POST /sandbox/volumes/{volumeId}/files/upload`
    pub async fn volume_upload_from(&self, volume_id: &str, query: &VolumeUploadQuery, body: impl Into<Payload>) -> Result<Success> {
        self.client.call(Method::POST, format!("/volumes/{}/files/upload", escape(volume_id))).query(query)?.payload(body.into()).send_json().await
    }

    /// Makes a folder in a volume, with those above it.
    ///
    /// `POST /sandbox/volumes/{volumeId}/files/mkdir`
    pub async fn volume_mkdir(&self, volume_id: &str, body: &VolumeMkdirRequest) -> Result<Success> {
        self.client.call(Method::POST, format!("/volumes/{}/files/mkdir", escape(volume_id))).json(body)?.send_json().await
    }

    /// Removes a file or a folder of a volume.
    ///
    /// `POST /sandbox/volumes/{volumeId}/files/delete`
    pub async fn volume_remove_file(&self, volume_id: &str, body: &VolumeRemoveFileRequest) -> Result<Success> {
        self.client.call(Method::POST, format!("/volumes/{}/files/delete", escape(volume_id))).json(body)?.send_json().await
    }

    /// Starts a shell on a terminal, which goes on until it exits or is closed.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/terminal`
    pub async fn terminal_create(&self, sandbox_id: &str, body: &TerminalCreateRequest) -> Result<Terminal> {
        self.client.call(Method::POST, format!("/sandboxes/{}/terminal", escape(sandbox_id))).keyed().json(body)?.send_json().await
    }

    /// Lists terminals, also those of commands; the newest first.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/terminal`
    pub async fn terminal_list(&self, sandbox_id: &str) -> Result<TerminalList> {
        self.client.call(Method::GET, format!("/sandboxes/{}/terminal", escape(sandbox_id))).send_json().await
    }

    /// Shows a terminal.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/terminal/{sessionId}`
    pub async fn terminal_get(&self, sandbox_id: &str, session_id: &str) -> Result<Terminal> {
        self.client.call(Method::GET, format!("/sandboxes/{}/terminal/{}", escape(sandbox_id), escape(session_id))).send_json().await
    }

    /// Ends the shell of a terminal and all that it started.
    ///
    /// `DELETE /sandbox/sandboxes/{sandboxId}/terminal/{sessionId}`
    pub async fn terminal_close(&self, sandbox_id: &str, session_id: &str) -> Result<TerminalClosed> {
        self.client.call(Method::DELETE, format!("/sandboxes/{}/terminal/{}", escape(sandbox_id), escape(session_id))).send_json().await
    }

    /// Gives a terminal another size.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/terminal/{sessionId}/resize`
    pub async fn terminal_resize(&self, sandbox_id: &str, session_id: &str, body: &TerminalResizeRequest) -> Result<TerminalSize> {
        self.client.call(Method::POST, format!("/sandboxes/{}/terminal/{}/resize", escape(sandbox_id), escape(session_id))).json(body)?.send_json().await
    }

    /// Shows a terminal and takes what is typed, over a WebSocket.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/terminal/{sessionId}/ws`
    pub async fn terminal_attach(&self, sandbox_id: &str, session_id: &str, query: &TerminalAttachQuery) -> Result<WebSocket> {
        self.client.call(Method::GET, format!("/sandboxes/{}/terminal/{}/ws", escape(sandbox_id), escape(session_id))).query(query)?.send_websocket().await
    }

    /// What a terminal that is recorded has shown until now, as asciicast v2.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/terminal/{sessionId}/recording`
    pub async fn terminal_recording(&self, sandbox_id: &str, session_id: &str) -> Result<ByteStream> {
        self.client.call(Method::GET, format!("/sandboxes/{}/terminal/{}/recording", escape(sandbox_id), escape(session_id))).send_bytes("application/x-asciicast").await
    }

    /// One end of a terminal's channel, over a WebSocket; also without the prefix.
    ///
    /// `GET /sandbox/ws/channels/{channelId}`
    pub async fn terminal_channel(&self, channel_id: &str, query: &TerminalChannelQuery) -> Result<WebSocket> {
        self.client.call(Method::GET, format!("/ws/channels/{}", escape(channel_id))).query(query)?.send_websocket().await
    }

    /// Says how many sandboxes are ready before somebody asks for one; without a token the numbers only.
    ///
    /// `GET /sandbox/pool/status`
    pub async fn pool_status(&self) -> Result<PoolStatus> {
        self.client.call(Method::GET, "/pool/status").send_json().await
    }

    /// Lists the kinds of sandboxes that the pool has ready.
    ///
    /// `GET /sandbox/pool/profiles`
    pub async fn pool_profiles(&self) -> Result<PoolProfiles> {
        self.client.call(Method::GET, "/pool/profiles").send_json().await
    }

    /// Has so many sandboxes of a kind ready from now on, also after a restart.
    ///
    /// `POST /sandbox/pool/profiles`
    pub async fn pool_add(&self, body: &PoolAddRequest) -> Result<PoolProfile> {
        self.client.call(Method::POST, "/pool/profiles").keyed().json(body)?.send_json().await
    }

    /// Removes a profile and what is ready of it.
    ///
    /// `DELETE /sandbox/pool/profiles/{profileId}`
    pub async fn pool_remove(&self, profile_id: &str) -> Result<Success> {
        self.client.call(Method::DELETE, format!("/pool/profiles/{}", escape(profile_id))).send_json().await
    }

    /// Sends one request to an exposed port of a sandbox.
    ///
    /// `POST /sandbox/proxy/{sandboxId}/{port}`
    pub async fn proxy_request(&self, sandbox_id: &str, port: &str, body: &ProxyRequestRequest) -> Result<ProxyAnswer> {
        self.client.call(Method::POST, format!("/proxy/{}/{}", escape(sandbox_id), escape(port))).json(body)?.send_json().await
    }

    /// Sets how requests are passed on to a sandbox; tells it when nothing is given.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/proxy/config`
    pub async fn proxy_config(&self, sandbox_id: &str, body: &ProxyConfigRequest) -> Result<ProxyConfig> {
        self.client.call(Method::POST, format!("/sandboxes/{}/proxy/config", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Makes an address that opens one port of a sandbox for a while.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/proxy/sign`
    pub async fn proxy_sign(&self, sandbox_id: &str, body: &ProxySignRequest) -> Result<ProxySigned> {
        self.client.call(Method::POST, format!("/sandboxes/{}/proxy/sign", escape(sandbox_id))).json(body)?.send_json().await
    }

    /// Makes a network, in which sandboxes see each other.
    ///
    /// `POST /sandbox/networks`
    pub async fn network_create(&self, body: &NetworkCreateRequest) -> Result<Network> {
        self.client.call(Method::POST, "/networks").keyed().json(body)?.send_json().await
    }

    /// Lists networks, the newest first.
    ///
    /// `GET /sandbox/networks`
    pub async fn network_list(&self) -> Result<NetworkList> {
        self.client.call(Method::GET, "/networks").send_json().await
    }

    /// Shows a network and who is in it.
    ///
    /// `GET /sandbox/networks/{networkId}`
    pub async fn network_get(&self, network_id: &str) -> Result<Network> {
        self.client.call(Method::GET, format!("/networks/{}", escape(network_id))).send_json().await
    }

    /// Removes a network; sandboxes in it are disconnected first.
    ///
    /// `DELETE /sandbox/networks/{networkId}`
    pub async fn network_delete(&self, network_id: &str) -> Result<NetworkDeleted> {
        self.client.call(Method::DELETE, format!("/networks/{}", escape(network_id))).send_json().await
    }

    /// Connects a sandbox, also one without network, at once and whenever it is started.
    ///
    /// `POST /sandbox/networks/{networkId}/connect`
    pub async fn network_connect(&self, network_id: &str, body: &NetworkConnectRequest) -> Result<NetworkConnected> {
        self.client.call(Method::POST, format!("/networks/{}/connect", escape(network_id))).keyed().json(body)?.send_json().await
    }

    /// Takes a sandbox out of a network; what is open between it and the others is cut.
    ///
    /// `POST /sandbox/networks/{networkId}/disconnect`
    pub async fn network_disconnect(&self, network_id: &str, body: &NetworkDisconnectRequest) -> Result<NetworkDisconnected> {
        self.client.call(Method::POST, format!("/networks/{}/disconnect", escape(network_id))).json(body)?.send_json().await
    }

    /// Lets a port of a sandbox be reached on the host, with or without a network.
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/ports`
    pub async fn port_expose(&self, sandbox_id: &str, body: &PortExposeRequest) -> Result<Port> {
        self.client.call(Method::POST, format!("/sandboxes/{}/ports", escape(sandbox_id))).keyed().json(body)?.send_json().await
    }

    /// Lists the ports of a sandbox that can be reached on the host.
    ///
    /// `GET /sandbox/sandboxes/{sandboxId}/ports`
    pub async fn port_list(&self, sandbox_id: &str) -> Result<PortList> {
        self.client.call(Method::GET, format!("/sandboxes/{}/ports", escape(sandbox_id))).send_json().await
    }

    /// A port cannot be reached on the host any more; connections are cut.
    ///
    /// `DELETE /sandbox/sandboxes/{sandboxId}/ports`
    pub async fn port_unexpose(&self, sandbox_id: &str, query: &PortUnexposeQuery) -> Result<PortRemoved> {
        self.client.call(Method::DELETE, format!("/sandboxes/{}/ports", escape(sandbox_id))).query(query)?.send_json().await
    }

    /// Connects to a TCP port of a sandbox: the connection becomes that one (Upgrade: cay-dial).
    ///
    /// `POST /sandbox/sandboxes/{sandboxId}/dial/{port}`
    pub async fn port_dial(&self, sandbox_id: &str, port: &str) -> Result<Upgraded> {
        self.client.call(Method::POST, format!("/sandboxes/{}/dial/{}", escape(sandbox_id), escape(port))).send_upgrade("cay-dial").await
    }

    /// Lists what has happened, the newest first.
    ///
    /// `GET /sandbox/events/history`
    pub async fn event_history(&self, query: &EventHistoryQuery) -> Result<EventList> {
        self.client.call(Method::GET, "/events/history").query(query)?.send_json().await
    }

    /// Keeps an event of the caller's own, and tells it to all who listen.
    ///
    /// `POST /sandbox/events/publish`
    pub async fn event_publish(&self, body: &EventPublishRequest) -> Result<Event> {
        self.client.call(Method::POST, "/events/publish").keyed().json(body)?.send_json().await
    }

    /// Streams what happens; Last-Event-ID goes on where a stream ended.
    ///
    /// `GET /sandbox/stream/events`
    pub async fn stream_events(&self, query: &StreamEventsQuery) -> Result<EventStream<Event>> {
        self.client.call(Method::GET, "/stream/events").query(query)?.send_events().await
    }

    /// Makes a token for some of what can be done; its text is told once.
    ///
    /// `POST /sandbox/tokens`
    pub async fn token_create(&self, body: &TokenCreateRequest) -> Result<Token> {
        self.client.call(Method::POST, "/tokens").keyed().json(body)?.send_json().await
    }

    /// Lists tokens, without their texts.
    ///
    /// `GET /sandbox/tokens`
    pub async fn token_list(&self) -> Result<TokenList> {
        self.client.call(Method::GET, "/tokens").send_json().await
    }

    /// Ends a token, and the streams and terminals that were opened with it.
    ///
    /// `DELETE /sandbox/tokens/{tokenId}`
    pub async fn token_revoke(&self, token_id: &str) -> Result<Success> {
        self.client.call(Method::DELETE, format!("/tokens/{}", escape(token_id))).send_json().await
    }

    /// Has events sent to a URL, each signed, until it takes them.
    ///
    /// `POST /sandbox/webhooks`
    pub async fn webhook_create(&self, body: &WebhookCreateRequest) -> Result<WebhookMade> {
        self.client.call(Method::POST, "/webhooks").keyed().json(body)?.send_json().await
    }

    /// Lists webhooks, the newest first.
    ///
    /// `GET /sandbox/webhooks`
    pub async fn webhook_list(&self) -> Result<WebhookList> {
        self.client.call(Method::GET, "/webhooks").send_json().await
    }

    /// Shows a webhook and how it is doing.
    ///
    /// `GET /sandbox/webhooks/{webhookId}`
    pub async fn webhook_get(&self, webhook_id: &str) -> Result<Webhook> {
        self.client.call(Method::GET, format!("/webhooks/{}", escape(webhook_id))).send_json().await
    }

    /// Puts a webhook off, or lets it go on.
    ///
    /// `PUT /sandbox/webhooks/{webhookId}`
    pub async fn webhook_update(&self, webhook_id: &str, body: &WebhookUpdateRequest) -> Result<Webhook> {
        self.client.call(Method::PUT, format!("/webhooks/{}", escape(webhook_id))).json(body)?.send_json().await
    }

    /// Removes a webhook; what was not sent is not.
    ///
    /// `DELETE /sandbox/webhooks/{webhookId}`
    pub async fn webhook_delete(&self, webhook_id: &str) -> Result<WebhookDeleted> {
        self.client.call(Method::DELETE, format!("/webhooks/{}", escape(webhook_id))).send_json().await
    }

    /// Sends a webhook.test once, at once, and tells what came of it.
    ///
    /// `POST /sandbox/webhooks/{webhookId}/test`
    pub async fn webhook_test(&self, webhook_id: &str) -> Result<Delivery> {
        self.client.call(Method::POST, format!("/webhooks/{}/test", escape(webhook_id))).send_json().await
    }

    /// Lists what was sent to a webhook last.
    ///
    /// `GET /sandbox/webhooks/{webhookId}/deliveries`
    pub async fn webhook_deliveries(&self, webhook_id: &str, query: &WebhookDeliveriesQuery) -> Result<DeliveryList> {
        self.client.call(Method::GET, format!("/webhooks/{}/deliveries", escape(webhook_id))).query(query)?.send_json().await
    }

    /// Lists who did what, the oldest of the last first.
    ///
    /// `GET /sandbox/audit`
    pub async fn audit_list(&self, query: &AuditListQuery) -> Result<AuditList> {
        self.client.call(Method::GET, "/audit").query(query)?.send_json().await
    }

    /// Reads the whole audit log and says whether a line was changed, removed, put in or appended by another.
    ///
    /// `GET /sandbox/audit/verify`
    pub async fn audit_verify(&self, query: &AuditVerifyQuery) -> Result<AuditReport> {
        self.client.call(Method::GET, "/audit/verify").query(query)?.send_json().await
    }
}

/// The `operationId`s that [`Api`] has methods for.
pub const OPERATIONS: &[&str] = &[
    "sandbox_create",
    "sandbox_list",
    "sandbox_get",
    "sandbox_update",
    "sandbox_kill",
    "sandbox_pause",
    "sandbox_resume",
    "sandbox_stop",
    "sandbox_start",
    "sandbox_touch",
    "sandbox_renew",
    "sandbox_network",
    "sandbox_network_set",
    "sandbox_network_explain",
    "sandbox_network_log",
    "stream_network",
    "cmd_run",
    "cmd_list",
    "cmd_run_stream",
    "cmd_attach",
    "cmd_background",
    "cmd_background_status",
    "cmd_background_logs",
    "cmd_get",
    "cmd_get_stream",
    "cmd_get_attach",
    "cmd_kill",
    "cmd_interrupt",
    "fs_read",
    "fs_write",
    "fs_delete",
    "fs_list",
    "fs_search",
    "fs_upload",
    "fs_download",
    "fs_info",
    "fs_move",
    "fs_copy",
    "fs_symlink",
    "fs_mkdir",
    "fs_rmdir",
    "fs_chmod",
    "queue_submit",
    "queue_list",
    "queue_status",
    "queue_logs",
    "queue_cancel",
    "queue_dlq",
    "queue_purge",
    "queue_requeue",
    "queue_forget",
    "fs_watch",
    "fs_watch_socket",
    "interp_execute",
    "interp_install",
    "interp_kernels",
    "interp_context_create",
    "interp_context_list",
    "interp_context_get",
    "interp_context_delete",
    "interp_context_restart",
    "interp_context_interrupt",
    "env_get",
    "env_set",
    "env_list",
    "env_delete",
    "git_clone",
    "git_status",
    "git_commit",
    "git_diff",
    "git_log",
    "git_branch",
    "git_checkout",
    "git_push",
    "git_pull",
    "monitor_set_alert",
    "monitor_list_alerts",
    "monitor_delete_alert",
    "monitor_alert_history",
    "proc_list",
    "proc_kill",
    "proc_top",
    "metrics_sandbox",
    "metrics_global",
    "metrics_health",
    "observability_traces",
    "observability_metrics",
    "observability_clear",
    "metrics_prometheus",
    "metrics_history",
    "stream_logs",
    "stream_metrics",
    "image_list",
    "image_catalog",
    "image_pull",
    "image_import",
    "image_prune",
    "image_get",
    "image_remove",
    "image_tag",
    "image_export",
    "image_commit",
    "lifecycle_sweep",
    "system_strays",
    "system_stray_adopt",
    "system_stray_remove",
    "system_info",
    "system_openapi",
    "worker_heartbeat",
    "worker_list",
    "worker_select",
    "worker_reap",
    "worker_migrate",
    "template_create",
    "template_list",
    "template_get",
    "template_delete",
    "template_build",
    "template_build_directory",
    "snapshot_create",
    "snapshot_list",
    "snapshot_restore",
    "snapshot_all",
    "snapshot_import",
    "snapshot_export",
    "snapshot_get",
    "snapshot_delete",
    "snapshot_label",
    "snapshot_clone",
    "sandbox_diff",
    "sandbox_clone",
    "sandbox_fork",
    "volume_create",
    "volume_list",
    "volume_get",
    "volume_delete",
    "volume_attach",
    "volume_detach",
    "volume_files",
    "volume_file_info",
    "volume_read",
    "volume_download",
    "volume_write",
    "volume_upload",
    "volume_mkdir",
    "volume_remove_file",
    "terminal_create",
    "terminal_list",
    "terminal_get",
    "terminal_close",
    "terminal_resize",
    "terminal_attach",
    "terminal_recording",
    "terminal_channel",
    "pool_status",
    "pool_profiles",
    "pool_add",
    "pool_remove",
    "proxy_request",
    "proxy_config",
    "proxy_sign",
    "network_create",
    "network_list",
    "network_get",
    "network_delete",
    "network_connect",
    "network_disconnect",
    "port_expose",
    "port_list",
    "port_unexpose",
    "port_dial",
    "event_history",
    "event_publish",
    "stream_events",
    "token_create",
    "token_list",
    "token_revoke",
    "webhook_create",
    "webhook_list",
    "webhook_get",
    "webhook_update",
    "webhook_delete",
    "webhook_test",
    "webhook_deliveries",
    "audit_list",
    "audit_verify",
];

/// Those that are another's twin under another path, and that one.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("worker_heartbeat_too", "worker_heartbeat"),
    ("worker_list_too", "worker_list"),
    ("worker_select_too", "worker_select"),
    ("worker_select_get", "worker_select"),
    ("worker_reap_too", "worker_reap"),
    ("worker_migrate_too", "worker_migrate"),
    ("sandbox_network_explain_post", "sandbox_network_explain"),
];
