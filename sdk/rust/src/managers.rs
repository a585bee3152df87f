//! What is in a sandbox, noun by noun.

use std::collections::BTreeMap;

use crate::call::{escape, Upgraded};
use crate::error::Result;
use crate::sandbox::Sandbox;
use crate::sse::EventStream;
use crate::types::{
    Alert, AlertAction, AlertEvent, CodeContext, Command, EnvDeleteRequest, EnvGetRequest, EnvSetRequest, ExecResult, Execution,
    ExecutionEvent, GitBranchRequest, GitBranches, GitCheckoutRequest, GitCloneRequest, GitCommitRequest, GitDiff, GitDiffQuery,
    GitEntry, GitLogQuery, GitPullRequest, GitPushRequest, GitStatus, GitStatusQuery, Installed, InterpContextCreateRequest,
    InterpExecuteRequest, InterpInstallRequest, Job, JobList, JobLogs, Kernel, LogEvent, Metric, Metrics,
    MonitorAlertHistoryQuery, MonitorSetAlertRequest, Port, PortExposeRequest, PortUnexposeQuery, ProcKillRequest, Process,
    ProcessUsage, QueueDlqQuery, QueueLogsQuery, QueueSubmitRequest, StreamLogsQuery, StreamMetricsQuery,
};

macro_rules! manager {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name<'a> {
            pub(crate) sandbox: &'a Sandbox,
        }

        impl $name<'_> {
            fn api(&self) -> crate::operations::Api<'_> {
                self.sandbox.client().api()
            }

            fn id(&self) -> &str {
                self.sandbox.id()
            }
        }
    };
}

manager! {
    /// The environment of a sandbox's commands; [`Sandbox::env`] gives it.
    EnvManager
}

impl EnvManager<'_> {
    /// A variable; `None` when there is none of that name.
    pub async fn get(&self, key: &str) -> Result<Option<String>> {
        let request = EnvGetRequest { key: key.to_owned(), ..Default::default() };
        let answer = self.api().env_get(self.id(), &request).await?;
        Ok(answer.value.filter(|_| answer.exists))
    }

    /// Sets variables, beside those that there are.
    pub async fn set<K: Into<String>, V: Into<String>>(&self, vars: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let vars = vars.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        self.api().env_set(self.id(), &EnvSetRequest { vars, ..Default::default() }).await.map(drop)
    }

    /// All of them.
    pub async fn list(&self) -> Result<BTreeMap<String, String>> {
        Ok(self.api().env_list(self.id()).await?.vars)
    }

    /// Removes one.
    pub async fn delete(&self, key: &str) -> Result<()> {
        self.api().env_delete(self.id(), &EnvDeleteRequest { key: key.to_owned(), ..Default::default() }).await.map(drop)
    }
}

manager! {
    /// Git in a sandbox; [`Sandbox::git`] gives it.
    GitManager
}

impl GitManager<'_> {
    /// Clones a repository. What `options` says of the URL does not count.
    pub async fn clone_repo(&self, url: &str, options: GitCloneRequest) -> Result<ExecResult> {
        self.api().git_clone(self.id(), &GitCloneRequest { url: url.to_owned(), ..options }).await
    }

    /// What has changed.
    pub async fn status(&self, path: Option<&str>) -> Result<GitStatus> {
        self.api().git_status(self.id(), &GitStatusQuery { path: path.map(str::to_owned), ..Default::default() }).await
    }

    /// Commits.
    pub async fn commit(&self, message: &str, options: GitCommitRequest) -> Result<ExecResult> {
        self.api().git_commit(self.id(), &GitCommitRequest { message: message.to_owned(), ..options }).await
    }

    /// What differs.
    pub async fn diff(&self, options: GitDiffQuery) -> Result<GitDiff> {
        self.api().git_diff(self.id(), &options).await
    }

    /// The last commits, the newest first.
    pub async fn log(&self, options: GitLogQuery) -> Result<Vec<GitEntry>> {
        Ok(self.api().git_log(self.id(), &options).await?.entries)
    }

    /// The branches; with a name, makes or removes one first.
    pub async fn branch(&self, options: GitBranchRequest) -> Result<GitBranches> {
        self.api().git_branch(self.id(), &options).await
    }

    /// Goes to a branch, tag or commit.
    pub async fn checkout(&self, reference: &str, path: Option<&str>) -> Result<ExecResult> {
        let request = GitCheckoutRequest { r#ref: reference.to_owned(), path: path.map(str::to_owned), ..Default::default() };
        self.api().git_checkout(self.id(), &request).await
    }

    /// Pushes.
    pub async fn push(&self, options: GitPushRequest) -> Result<ExecResult> {
        self.api().git_push(self.id(), &options).await
    }

    /// Pulls.
    pub async fn pull(&self, options: GitPullRequest) -> Result<ExecResult> {
        self.api().git_pull(self.id(), &options).await
    }
}

manager! {
    /// Code in a sandbox; [`Sandbox::interpreter`] gives it.
    CodeInterpreter
}

impl CodeInterpreter<'_> {
    /// Runs code, in a process of its own.
    pub async fn run(&self, code: &str, language: Option<&str>) -> Result<Execution> {
        self.execute(InterpExecuteRequest { code: code.to_owned(), language: language.map(str::to_owned), ..Default::default() })
            .await
    }

    /// Runs code in a context, which keeps its variables.
    pub async fn run_in(&self, context_id: &str, code: &str) -> Result<Execution> {
        self.execute(InterpExecuteRequest {
            code: code.to_owned(),
            context_id: Some(context_id.to_owned()),
            ..Default::default()
        })
        .await
    }

    /// Runs code, with all that can be said of it.
    pub async fn execute(&self, request: InterpExecuteRequest) -> Result<Execution> {
        self.api().interp_execute(self.id(), &request).await
    }

    /// Runs code, and gives what it prints and makes as it comes.
    pub async fn stream(&self, request: InterpExecuteRequest) -> Result<EventStream<ExecutionEvent>> {
        self.api().interp_execute_events(self.id(), &request).await
    }

    /// Installs packages.
    pub async fn install<S: Into<String>>(
        &self,
        packages: impl IntoIterator<Item = S>,
        manager: Option<&str>,
    ) -> Result<Installed> {
        let request = InterpInstallRequest {
            packages: packages.into_iter().map(Into::into).collect(),
            manager: manager.map(Into::into),
            ..Default::default()
        };
        self.api().interp_install(self.id(), &request).await
    }

    /// The languages that it has.
    pub async fn kernels(&self) -> Result<Vec<Kernel>> {
        self.api().interp_kernels(self.id()).await
    }

    /// Starts an interpreter that keeps its variables.
    pub async fn create_context(&self, request: InterpContextCreateRequest) -> Result<CodeContext> {
        self.api().interp_context_create(self.id(), &request).await
    }

    /// Those that run.
    pub async fn contexts(&self) -> Result<Vec<CodeContext>> {
        Ok(self.api().interp_context_list(self.id()).await?.contexts)
    }

    /// Starts one anew.
    pub async fn restart_context(&self, context_id: &str) -> Result<CodeContext> {
        self.api().interp_context_restart(self.id(), context_id).await
    }

    /// Ends what one is doing.
    pub async fn interrupt_context(&self, context_id: &str) -> Result<()> {
        self.api().interp_context_interrupt(self.id(), context_id).await.map(drop)
    }

    /// Ends one.
    pub async fn delete_context(&self, context_id: &str) -> Result<()> {
        self.api().interp_context_delete(self.id(), context_id).await.map(drop)
    }
}

manager! {
    /// The processes of a sandbox; [`Sandbox::processes`] gives it.
    ProcessManager
}

impl ProcessManager<'_> {
    /// All of them.
    pub async fn list(&self) -> Result<Vec<Process>> {
        Ok(self.api().proc_list(self.id()).await?.processes)
    }

    /// Sends one a signal; TERM otherwise.
    pub async fn kill(&self, pid: i64, signal: Option<&str>) -> Result<()> {
        let request = ProcKillRequest { pid, signal: signal.map(Into::into), ..Default::default() };
        self.api().proc_kill(self.id(), &request).await.map(drop)
    }

    /// What each uses.
    pub async fn top(&self) -> Result<Vec<ProcessUsage>> {
        Ok(self.api().proc_top(self.id()).await?.processes)
    }
}

manager! {
    /// The ports of a sandbox; [`Sandbox::ports`] gives it.
    PortManager
}

impl PortManager<'_> {
    /// Makes a port of it one of the host; a free one otherwise.
    pub async fn expose(&self, container_port: u16, host_port: Option<u16>, protocol: Option<&str>) -> Result<Port> {
        let request = PortExposeRequest { container_port, host_port, protocol: protocol.map(Into::into), ..Default::default() };
        self.api().port_expose(self.id(), &request).await
    }

    /// Those that are.
    pub async fn list(&self) -> Result<Vec<Port>> {
        Ok(self.api().port_list(self.id()).await?.ports)
    }

    /// Takes it back.
    pub async fn unexpose(&self, container_port: u16) -> Result<()> {
        let query = PortUnexposeQuery { container_port, ..Default::default() };
        self.api().port_unexpose(self.id(), &query).await.map(drop)
    }

    /// Where a server in the sandbox is reached through the daemon, with any method.
    pub fn proxy_url(&self, container_port: u16) -> String {
        self.sandbox.client().url(&format!("/proxy/{}/{container_port}/", escape(self.id())))
    }

    /// A connection to a TCP port of it, exposed or not.
    pub async fn dial(&self, port: u16) -> Result<Upgraded> {
        self.api().port_dial(self.id(), &port.to_string()).await
    }
}

manager! {
    /// Commands that run one after the other; [`Sandbox::queue`] gives it.
    QueueManager
}

impl QueueManager<'_> {
    /// Puts a command at the end. What `options` says of the command does not count.
    pub async fn submit(&self, command: impl Into<Command>, options: QueueSubmitRequest) -> Result<Job> {
        self.api().queue_submit(self.id(), &QueueSubmitRequest { command: command.into(), ..options }).await
    }

    /// How a job is.
    pub async fn status(&self, job_id: &str) -> Result<Job> {
        self.api().queue_status(job_id).await
    }

    /// What a job put out, from a cursor on.
    pub async fn logs(&self, job_id: &str, cursor: i64) -> Result<JobLogs> {
        self.api().queue_logs(job_id, &QueueLogsQuery { cursor: Some(cursor), ..Default::default() }).await
    }

    /// Takes it out, or ends it.
    pub async fn cancel(&self, job_id: &str) -> Result<()> {
        self.api().queue_cancel(job_id).await.map(drop)
    }

    /// Jobs of this sandbox that failed for good.
    pub async fn dlq(&self, limit: Option<i64>) -> Result<JobList> {
        self.api().queue_dlq(&QueueDlqQuery { sandbox_id: Some(self.id().to_owned()), limit, ..Default::default() }).await
    }
}

manager! {
    /// What a sandbox says and uses, as it comes; [`Sandbox::streams`] gives it.
    StreamManager
}

impl StreamManager<'_> {
    /// Lines of the main process: the last of them, and with `follow` those that come.
    pub async fn logs(&self, tail: Option<i64>, follow: bool) -> Result<EventStream<LogEvent>> {
        self.api().stream_logs(self.id(), &StreamLogsQuery { tail, follow: Some(follow), ..Default::default() }).await
    }

    /// What it uses, again and again; the interval is in seconds.
    pub async fn metrics(&self, interval: Option<f64>) -> Result<EventStream<Metrics>> {
        self.api().stream_metrics(self.id(), &StreamMetricsQuery { interval, ..Default::default() }).await
    }
}

manager! {
    /// Alerts of a sandbox; [`Sandbox::monitor`] gives it.
    MonitorManager
}

impl MonitorManager<'_> {
    /// When the metric crosses the threshold there is an event, and what the action says is done.
    pub async fn set_alert(&self, metric: impl Into<Metric>, threshold: f64, action: Option<AlertAction>) -> Result<Alert> {
        let request = MonitorSetAlertRequest { metric: metric.into(), threshold, action, ..Default::default() };
        self.api().monitor_set_alert(self.id(), &request).await
    }

    /// Those that are set.
    pub async fn list_alerts(&self) -> Result<Vec<Alert>> {
        Ok(self.api().monitor_list_alerts(self.id()).await?.alerts)
    }

    /// Removes one.
    pub async fn delete_alert(&self, alert_id: &str) -> Result<()> {
        self.api().monitor_delete_alert(alert_id).await.map(drop)
    }

    /// When they went off.
    pub async fn history(&self, limit: Option<i64>) -> Result<Vec<AlertEvent>> {
        Ok(self.api().monitor_alert_history(self.id(), &MonitorAlertHistoryQuery { limit, ..Default::default() }).await?.events)
    }
}
