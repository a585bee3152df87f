//! A small client of the REST contract in Rust, whose types are as strict as serde makes them: every call of
//! ../calls.txt, each with its effect. CAY_URL says where the daemon is, CAY_TEST_ENV what sandboxes get as their
//! environment, and CAY_TEST_CA what they trust.

#![allow(dead_code)] // a field that is read from an answer has been checked by that

mod http;

use http::{del, get, post, stream, Failed, Res};
use serde::Deserialize;
use serde_json::{json, Map, Value};
use std::time::{Duration, Instant};

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Sandbox { id: String, name: String, image: String, status: String, created_at: i64, expires_at: i64, config: Map<String, Value>, metadata: std::collections::HashMap<String, String> }
#[derive(Deserialize, Debug)]
struct Sandboxes { items: Vec<Sandbox>, total: i64, page: i64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Exec { exit_code: i32, stdout: String, stderr: String, duration: f64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct FileInfo { name: String, path: String, size: i64, is_directory: bool, modified_at: i64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Metrics { sandbox_id: String, cpu_percent: f64, memory_usage_mb: f64, memory_limit_mb: f64, network_rx_bytes: i64, network_tx_bytes: i64, pids: i64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Snapshot { id: String, sandbox_id: String, name: String, image_id: String, size: i64, created_at: i64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Template { id: String, name: String, description: String, config: Map<String, Value>, builtin: bool, created_at: i64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Job { id: String, sandbox_id: String, command: String, status: String, result: Option<Exec>, error: Option<String>, retries: i64, max_retries: i64, created_at: i64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Event { id: String, topic: String, sandbox_id: String, data: Map<String, Value>, timestamp: i64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Alert { id: String, sandbox_id: String, metric: String, threshold: f64, action: String, triggered: bool, last_checked: Option<i64>, last_triggered: Option<i64>, created_at: i64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct AlertEvent { alert_id: String, sandbox_id: String, metric: String, value: f64, threshold: f64, action: String, timestamp: i64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Network { id: String, name: String, docker_network_id: String, sandboxes: Vec<String>, created_at: i64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Volume { id: String, name: String, docker_volume_name: String, mount_path: Option<String>, sandbox_id: Option<String>, size: Option<String>, created_at: i64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Port { container_port: i64, host_port: i64, protocol: String, state: String }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Trace { id: String, function_id: String, sandbox_id: Option<String>, duration: f64, status: String, error: Option<String>, timestamp: i64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Numbers { total_requests: i64, total_errors: i64, avg_duration: f64, p95_duration: f64, active_sandboxes: i64, function_counts: std::collections::HashMap<String, i64> }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Kernel { name: String, language: String, display_name: String }
#[derive(Deserialize, Debug)]
struct Process { pid: i64, user: String, cpu: String, memory: String, command: String }
#[derive(Deserialize, Debug)]
struct Usage { pid: i64, cpu: String, mem: String, vsz: i64, rss: i64, command: String }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Terminal { session_id: String, sandbox_id: String, exec_id: String, cols: i64, rows: i64, shell: String, status: String, created_at: i64 }
#[derive(Deserialize, Debug)]
struct Log { r#type: String, data: String, timestamp: i64 }
#[derive(Deserialize, Debug)]
struct FileStatus { status: String, path: String }
#[derive(Deserialize, Debug)]
struct GitStatus { branch: String, clean: bool, files: Vec<FileStatus> }
#[derive(Deserialize, Debug)]
struct Entry { hash: String, message: String, author: String, date: String }
#[derive(Deserialize, Debug)]
struct Branches { branches: Vec<String>, current: String }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Ran { output: String, error: Option<String>, execution_time: f64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Background { id: String, sandbox_id: String, command: String, pid: Option<i64>, running: bool, started_at: i64 }
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Proxied { status_code: i64, headers: std::collections::HashMap<String, String>, body: String, url: String }

/// The one list in an answer, under its name.
fn list<T: serde::de::DeserializeOwned>(mut answer: Value, name: &str) -> Res<Vec<T>> {
    Ok(serde_json::from_value(answer[name].take())?)
}

fn ok(name: &str) {
    println!("ok {name}");
}

fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Res<Option<T>>) -> Res<T> {
    let end = Instant::now() + http::limit();
    while Instant::now() < end {
        if let Some(got) = ask()? {
            return Ok(got);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(what.into())
}

fn create(made: &mut Vec<String>, mut fields: Value) -> Res<Sandbox> {
    fields["image"] = json!("host");
    let sandbox: Sandbox = post("/sandboxes", fields)?;
    made.push(sandbox.id.clone());
    Ok(sandbox)
}

fn sandboxes(made: &mut Vec<String>) -> Res<String> {
    let env: Value = serde_json::from_str(&std::env::var("CAY_TEST_ENV").unwrap_or_else(|_| "{}".into()))?;
    let sandbox = create(made, json!({"name": "contract-rs", "timeout": 600, "memory": 512, "cpu": 1.0, "network": true, "env": env, "workdir": null, "template": null}))?;
    assert_eq!((sandbox.status.as_str(), sandbox.image.as_str()), ("running", "host"));
    ok("createSandbox");
    let listed: Sandboxes = get("/sandboxes")?;
    assert!(listed.items.iter().any(|s| s.id == sandbox.id) && listed.total >= 1);
    ok("listSandboxes");
    assert_eq!(get::<Sandbox>(&format!("/sandboxes/{}", sandbox.id))?.name, "contract-rs");
    ok("getSandbox");
    assert!(list::<Template>(get("/templates")?, "templates")?.iter().any(|t| t.builtin));
    ok("listTemplates");
    Ok(sandbox.id)
}

fn commands(at: &str) -> Res<()> {
    let done: Exec = post(&format!("{at}/exec"), json!({"command": "echo out; echo err >&2; exit 3", "timeout": null}))?;
    assert_eq!((done.exit_code, done.stdout.as_str(), done.stderr.as_str()), (3, "out\n", "err\n"));
    assert!(done.duration > 0.0);
    ok("sandbox.exec");
    let mut seen = Vec::new();
    stream("POST", &format!("{at}/exec/stream"), json!({"command": "echo a; exit 4"}), |e: Log| {
        seen.push((e.r#type, e.data));
        true
    })?;
    assert_eq!(seen, [("stdout".into(), "a\n".into()), ("exit".to_string(), "4".to_string())]);
    ok("sandbox.execStream");
    assert_eq!(post::<Sandbox>(&format!("{at}/pause"), Value::Null)?.status, "paused");
    ok("sandbox.pause");
    assert_eq!(post::<Sandbox>(&format!("{at}/resume"), Value::Null)?.status, "running");
    ok("sandbox.resume");
    assert!(get::<Metrics>(&format!("{at}/metrics"))?.pids >= 1);
    ok("sandbox.metrics");
    assert_eq!(get::<Sandbox>(at)?.status, "running");
    ok("sandbox.refresh");
    Ok(())
}

fn environment(at: &str) -> Res<()> {
    assert_eq!(post::<Value>(&format!("{at}/env"), json!({"vars": {"CONTRACT": "1 2"}}))?, json!({"set": ["CONTRACT"], "count": 1}));
    assert_eq!(post::<Exec>(&format!("{at}/exec"), json!({"command": "echo $CONTRACT"}))?.stdout, "1 2\n");
    ok("env.set");
    let key = json!({"key": "CONTRACT"});
    assert_eq!(post::<Value>(&format!("{at}/env/get"), key.clone())?, json!({"key": "CONTRACT", "value": "1 2", "exists": true}));
    ok("env.get");
    assert_eq!(get::<Value>(&format!("{at}/env"))?["vars"]["CONTRACT"], "1 2");
    ok("env.list");
    assert_eq!(post::<Value>(&format!("{at}/env/delete"), key.clone())?["deleted"], "CONTRACT");
    assert_eq!(post::<Value>(&format!("{at}/env/get"), key)?["exists"], false);
    ok("env.delete");
    Ok(())
}

fn files(at: &str) -> Res<()> {
    let path = "/workspace/d/f.txt";
    assert_eq!(post::<Value>(&format!("{at}/files/write"), json!({"path": path, "content": "grüße\n"}))?, json!({"success": true}));
    ok("filesystem.write");
    assert_eq!(post::<String>(&format!("{at}/files/read"), json!({"path": path}))?, "grüße\n");
    ok("filesystem.read");
    let found: Vec<FileInfo> = post(&format!("{at}/files/list"), json!({"path": "/workspace/d"}))?;
    assert_eq!(found.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["f.txt"]);
    ok("filesystem.list");
    assert_eq!(post::<Vec<String>>(&format!("{at}/files/search"), json!({"pattern": "*.txt", "dir": "/workspace/d"}))?, [path]);
    ok("filesystem.search");
    let data = "AAECA/8=".to_string();
    post::<Value>(&format!("{at}/files/upload"), json!({"path": "/workspace/d/b", "content": data}))?;
    ok("filesystem.upload");
    assert_eq!(post::<String>(&format!("{at}/files/download"), json!({"path": "/workspace/d/b"}))?, data);
    ok("filesystem.download");
    post::<Value>(&format!("{at}/files/delete"), json!({"path": "/workspace/d/b"}))?;
    assert_eq!(post::<Exec>(&format!("{at}/exec"), json!({"command": "test ! -e /workspace/d/b"}))?.exit_code, 0);
    ok("filesystem.delete");
    Ok(())
}

fn git(at: &str) -> Res<()> {
    let path = "/workspace/repo";
    let run = |what: &str, body: Value| -> Res<i32> { Ok(post::<Exec>(&format!("{at}/{what}"), body)?.exit_code) };

    run("exec", json!({"command": "git init -q --bare -b main /workspace/origin.git"}))?;
    assert_eq!(run("git/clone", json!({"url": "/workspace/origin.git", "path": path, "branch": null, "depth": null}))?, 0);
    ok("git.clone");
    run("exec", json!({"command": "git config user.name C; git config user.email c@example.com; git checkout -q -b main", "cwd": path}))?;
    post::<Value>(&format!("{at}/files/write"), json!({"path": format!("{path}/a.txt"), "content": "one\n"}))?;
    let status: GitStatus = get(&format!("{at}/git/status?path={path}"))?;
    assert!(!status.clean && status.files[0].status == "??" && status.files[0].path == "a.txt");
    ok("git.status");
    assert_eq!(run("git/commit", json!({"message": "first", "path": path, "all": true}))?, 0);
    ok("git.commit");
    post::<Value>(&format!("{at}/files/write"), json!({"path": format!("{path}/a.txt"), "content": "two\n"}))?;
    assert!(get::<Value>(&format!("{at}/git/diff?path={path}&staged=false"))?["diff"].as_str().unwrap().contains("+two"));
    ok("git.diff");
    assert_eq!(list::<Entry>(get(&format!("{at}/git/log?path={path}&count=1"))?, "entries")?[0].message, "first");
    ok("git.log");
    let branches: Branches = post(&format!("{at}/git/branch"), json!({"path": path, "name": "side", "delete": null}))?;
    assert!(branches.current == "side" && branches.branches.contains(&"main".to_string()));
    ok("git.branch");
    assert_eq!(run("git/checkout", json!({"ref": "main", "path": path}))?, 0);
    ok("git.checkout");
    assert_eq!(run("git/push", json!({"path": path, "remote": "origin", "branch": "main", "force": null}))?, 0);
    ok("git.push");
    assert_eq!(run("git/pull", json!({"path": path, "remote": "origin", "branch": "main"}))?, 0);
    ok("git.pull");
    Ok(())
}

fn interpreter(at: &str) -> Res<()> {
    let ran: Ran = post(&format!("{at}/interpret/execute"), json!({"code": "print(6 * 7)", "language": "python"}))?;
    assert!(ran.output == "42\n" && ran.error.is_none() && ran.execution_time > 0.0);
    ok("interpreter.run");
    assert!(get::<Vec<Kernel>>(&format!("{at}/interpret/kernels"))?.iter().any(|k| k.language == "python"));
    ok("interpreter.kernels");
    if let (Ok(ca), Ok(place)) = (std::env::var("CAY_TEST_CA"), std::env::var("CAY_TEST_CA_AT")) {
        post::<Value>(&format!("{at}/files/write"), json!({"path": place, "content": std::fs::read_to_string(ca)?}))?;
    }
    assert!(post::<Value>(&format!("{at}/interpret/install"), json!({"packages": ["cay-demo"], "manager": "npm"}))?["output"].is_string());
    ok("interpreter.install");
    Ok(())
}

fn processes(at: &str) -> Res<()> {
    let pid = post::<Background>(&format!("{at}/exec/background"), json!({"command": "exec sleep 1000"}))?.pid.unwrap();
    let runs = || -> Res<bool> { Ok(list::<Process>(get(&format!("{at}/processes"))?, "processes")?.iter().any(|p| p.pid == pid)) };
    assert!(runs()?);
    ok("processes.list");
    assert!(list::<Usage>(get(&format!("{at}/processes/top"))?, "processes")?.iter().any(|p| p.pid == pid));
    ok("processes.top");
    assert_eq!(post::<Value>(&format!("{at}/processes/kill"), json!({"pid": pid, "signal": null}))?["killed"], pid);
    wait_for("it is not killed", || Ok((!runs()?).then_some(())))?;
    ok("processes.kill");
    Ok(())
}

fn ports(at: &str, id: &str) -> Res<()> {
    let server: Background = post(&format!("{at}/exec/background"), json!({"command": "exec python3 -m http.server 8123 --bind 127.0.0.1 --directory /workspace"}))?;
    assert!(post::<Port>(&format!("{at}/ports"), json!({"containerPort": 8123, "hostPort": 0, "protocol": null}))?.host_port > 0);
    ok("ports.expose");
    assert_eq!(list::<Port>(get(&format!("{at}/ports"))?, "ports")?[0].container_port, 8123);
    ok("ports.list");
    let answer: Proxied = wait_for("the server does not answer", || Ok(post(&format!("/proxy/{id}/8123"), json!({"method": "GET", "path": "/"})).ok()))?;
    assert!(answer.status_code == 200 && answer.body.contains("repo"));
    ok("ports.getProxyUrl");
    assert_eq!(del::<Value>(&format!("{at}/ports?containerPort=8123"))?, json!({"removed": 8123}));
    ok("ports.unexpose");
    post::<Value>(&format!("{at}/processes/kill"), json!({"pid": server.pid, "signal": "KILL"}))?;
    Ok(())
}

fn queue(at: &str, id: &str) -> Res<()> {
    let job: Job = post(&format!("{at}/exec/queue"), json!({"command": "echo queued; exit 5", "maxRetries": null, "timeout": 20}))?;
    assert_eq!((job.status.as_str(), job.sandbox_id.as_str()), ("pending", id));
    ok("queue.submit");
    let done = wait_for("it does not end", || Ok(Some(get::<Job>(&format!("/queue/{}/status", job.id))?).filter(|j| j.status == "completed")))?;
    let result = done.result.unwrap();
    assert_eq!((result.exit_code, result.stdout.as_str()), (5, "queued\n"));
    ok("queue.status");
    let later: Job = post(&format!("{at}/exec/queue"), json!({"command": "true", "delay": 600}))?;
    assert_eq!(post::<Value>(&format!("/queue/{}/cancel", later.id), Value::Null)?, json!({"cancelled": later.id}));
    assert_eq!(get::<Job>(&format!("/queue/{}/status", later.id))?.status, "cancelled");
    ok("queue.cancel");
    let dead: Value = get("/queue/dlq?limit=5")?;
    assert!(dead["total"].is_i64());
    list::<Job>(dead, "jobs")?;
    ok("queue.dlq");
    Ok(())
}

fn streams(made: &mut Vec<String>) -> Res<()> {
    let talker = create(made, json!({"entrypoint": ["sh", "-c", "echo one; echo two >&2; exec sleep 1000"]}))?;
    let at = format!("/sandboxes/{}", talker.id);
    wait_for("the log has other lines", || {
        let mut seen = Vec::new();
        stream("GET", &format!("{at}/stream/logs?tail=10&follow=false"), Value::Null, |e: Log| {
            seen.push(format!("{} {}", e.r#type, e.data));
            true
        })?;
        assert_eq!(seen.pop().as_deref(), Some("end "));
        seen.sort();
        Ok((seen == ["stderr two", "stdout one"]).then_some(()))
    })?;
    ok("streams.logs");
    stream("GET", &format!("{at}/stream/metrics?interval=1"), Value::Null, |m: Metrics| {
        assert_eq!(m.sandbox_id, talker.id);
        false
    })?;
    ok("streams.metrics");
    Ok(())
}

fn monitor(at: &str) -> Res<()> {
    let alert: Alert = post(&format!("{at}/alerts"), json!({"metric": "pids", "threshold": 1.0, "action": null}))?;
    assert_eq!(alert.action, "notify");
    ok("monitor.setAlert");
    assert!(list::<Alert>(get(&format!("{at}/alerts"))?, "alerts")?.iter().any(|a| a.id == alert.id));
    ok("monitor.listAlerts");
    let fired = wait_for("it does not fire", || Ok(list::<AlertEvent>(get(&format!("{at}/alerts/history?limit=5"))?, "events")?.pop()))?;
    assert_eq!(fired.alert_id, alert.id);
    ok("monitor.history");
    assert_eq!(del::<Value>(&format!("/alerts/{}", alert.id))?, json!({"deleted": alert.id}));
    ok("monitor.deleteAlert");
    Ok(())
}

fn terminal(at: &str) -> Res<()> {
    let session: Terminal = post(&format!("{at}/terminal"), json!({"cols": 100, "rows": 30, "shell": "/bin/sh"}))?;
    ok("terminal.create");
    let size = json!({"cols": 120, "rows": 40});
    assert_eq!(post::<Value>(&format!("{at}/terminal/{}/resize", session.session_id), size.clone())?, size);
    ok("terminal.resize");
    assert_eq!(del::<Value>(&format!("{at}/terminal/{}", session.session_id))?, json!({"closed": session.session_id}));
    ok("terminal.close");
    Ok(())
}

fn events(id: &str) -> Res<()> {
    let event: Event = post("/events/publish", json!({"topic": "contract.rust", "sandboxId": id, "data": null}))?;
    assert!(event.data.is_empty());
    ok("events.publish");
    let told = wait_for("it is not in the history", || Ok(list::<Event>(get(&format!("/events/history?sandboxId={id}&topic=contract.rust&limit=5"))?, "events")?.pop()))?;
    assert_eq!(told.id, event.id);
    ok("events.history");
    Ok(())
}

fn networks(made: &mut Vec<String>) -> Res<()> {
    let network: Network = post("/networks", json!({"name": "contract-rs", "driver": null}))?;
    ok("networks.create");
    let other = create(made, json!({}))?;
    let member = json!({"sandboxId": other.id});
    assert_eq!(post::<Value>(&format!("/networks/{}/connect", network.id), member.clone())?["connected"], true);
    ok("networks.connect");
    let listed = list::<Network>(get("/networks")?, "networks")?;
    assert_eq!(listed.iter().find(|n| n.id == network.id).unwrap().sandboxes, [other.id]);
    ok("networks.list");
    assert_eq!(post::<Value>(&format!("/networks/{}/disconnect", network.id), member)?["disconnected"], true);
    ok("networks.disconnect");
    assert_eq!(del::<Value>(&format!("/networks/{}", network.id))?["deleted"], network.id);
    ok("networks.delete");
    Ok(())
}

fn observability(id: &str) -> Res<()> {
    wait_for("there is no trace", || {
        let traces = list::<Trace>(get(&format!("/observability/traces?sandboxId={id}&functionId=cmd%3A%3Arun&limit=3"))?, "traces")?;
        assert!(traces.iter().all(|t| t.function_id == "cmd::run"));
        Ok((!traces.is_empty()).then_some(()))
    })?;
    ok("observability.traces");
    let numbers: Numbers = get("/observability/metrics")?;
    assert!(numbers.total_requests > 0 && numbers.function_counts["cmd::run"] > 0);
    ok("observability.metrics");
    assert!(post::<Value>("/observability/clear", json!({"before": 1}))?["cleared"].is_i64());
    ok("observability.clear");
    Ok(())
}

fn volumes(at: &str, id: &str) -> Res<()> {
    let volume: Volume = post("/volumes", json!({"name": "contract-rs", "driver": null}))?;
    ok("volumes.create");
    assert_eq!(post::<Value>(&format!("/volumes/{}/attach", volume.id), json!({"sandboxId": id, "mountPath": "/data"}))?["mountPath"], "/data");
    post::<Exec>(&format!("{at}/exec"), json!({"command": "echo kept >/data/f"}))?;
    ok("volumes.attach");
    let listed = list::<Volume>(get("/volumes")?, "volumes")?;
    assert_eq!(listed.iter().find(|v| v.id == volume.id).unwrap().sandbox_id.as_deref(), Some(id));
    ok("volumes.list");
    assert_eq!(post::<Value>(&format!("/volumes/{}/detach", volume.id), Value::Null)?["detached"], true);
    ok("volumes.detach");
    assert_eq!(del::<Value>(&format!("/volumes/{}", volume.id))?["deleted"], volume.id);
    ok("volumes.delete");
    Ok(())
}

fn snapshots(made: &mut Vec<String>, at: &str) -> Res<()> {
    let path = "/workspace/kept";
    let write = |text: &str| post::<Value>(&format!("{at}/files/write"), json!({"path": path, "content": text}));
    let read = |at: &str| post::<String>(&format!("{at}/files/read"), json!({"path": path}));

    write("before")?;
    let shot: Snapshot = post(&format!("{at}/snapshots"), json!({"name": null}))?;
    ok("sandbox.snapshot");
    assert!(list::<Snapshot>(get(&format!("{at}/snapshots"))?, "snapshots")?.iter().any(|s| s.id == shot.id));
    ok("sandbox.listSnapshots");
    write("after")?;
    assert_eq!(post::<Sandbox>(&format!("{at}/snapshots/restore"), json!({"snapshotId": shot.id}))?.status, "running");
    assert_eq!(read(at)?, "before");
    ok("sandbox.restore");
    let twin: Sandbox = post(&format!("{at}/clone"), json!({"name": null}))?;
    made.push(twin.id.clone());
    let there = format!("/sandboxes/{}", twin.id);
    assert_eq!(read(&there)?, "before");
    ok("sandbox.clone");
    assert_eq!(del::<Value>(&there)?, json!({"success": true}));
    made.pop();
    assert_eq!(get::<Sandbox>(&there).unwrap_err().downcast_ref::<Failed>().unwrap().status, 404);
    ok("sandbox.kill");
    del::<Value>(&format!("/snapshots/{}", shot.id))?;
    Ok(())
}

fn run(made: &mut Vec<String>) -> Res<()> {
    let id = sandboxes(made)?;
    let at = format!("/sandboxes/{id}");

    commands(&at)?;
    environment(&at)?;
    files(&at)?;
    git(&at)?;
    interpreter(&at)?;
    processes(&at)?;
    ports(&at, &id)?;
    queue(&at, &id)?;
    streams(made)?;
    monitor(&at)?;
    terminal(&at)?;
    events(&id)?;
    networks(made)?;
    observability(&id)?;
    volumes(&at, &id)?;
    snapshots(made, &at)
}

fn main() {
    let mut made = Vec::new();
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&mut made)));
    for id in &made {
        let _ = del::<Value>(&format!("/sandboxes/{id}"));
    }
    match ended {
        Ok(Ok(())) => (),
        Ok(Err(e)) => {
            eprintln!("{e}");
            std::process::exit(1);
        }
        Err(_) => std::process::exit(1), // it has said what is wrong
    }
}
