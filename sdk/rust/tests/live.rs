//! What a user does, against a daemon: `CAY_HOST=… cargo test -- --ignored`. tests/integration/test_sdk_rust.py starts one.
//! What all clients have in common is in sdk/conformance; this is what is Rust's own.

use std::time::Duration;

use cay::types::{CreateEvent, FileChangeType, Reason, SandboxListQuery, StreamEventsQuery, TerminalCreateRequest, VolumeMount};
use cay::{Client, ExecEvent, Payload, Sandbox};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn sandbox() -> Sandbox {
    Client::new().unwrap().create("host").metadata("of", "rust").await.unwrap()
}

/// Waits until no process of the sandbox has that word in its command line.
async fn gone(sandbox: &Sandbox, word: &str) {
    while sandbox.processes().list().await.unwrap().iter().any(|process| process.command.contains(word)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn there(sandbox: &Sandbox, word: &str) {
    while !sandbox.processes().list().await.unwrap().iter().any(|process| process.command.contains(word)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn one_key_makes_one_sandbox() {
    let client = Client::new().unwrap();
    let make = || client.create("host").metadata("of", "key").idempotency_key(format!("rust-{}", std::process::id()));
    let (one, two) = (make().await.unwrap(), make().await.unwrap());
    assert_eq!(one.id(), two.id());
    let query = SandboxListQuery { metadata: Some([("of".to_owned(), "key".to_owned())].into()), ..Default::default() };
    assert_eq!(client.list_where(query).await.unwrap().len(), 1);
    one.kill().await.unwrap();
    assert_eq!(one.exec("true").await.unwrap_err().status(), Some(404));
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn a_create_tells_what_happens() {
    let client = Client::new().unwrap();
    let mut events = client.create("host").events().await.unwrap();
    let mut made = None;
    while let Some(event) = events.next().await {
        if let CreateEvent::Sandbox(event) = event.unwrap() {
            made = Some(event.sandbox.id);
        }
    }
    client.get(&made.unwrap()).await.unwrap().kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn bytes_of_a_command_are_exact() {
    let sandbox = sandbox().await;
    let output = sandbox.exec(r"printf 'a\377\000b'; printf '\376' >&2; exit 3").await.unwrap();
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"a\xff\0b"[..], &b"\xfe"[..]));
    assert_eq!((output.exit_code, output.stdout().as_ref()), (3, "a\u{fffd}\0b"));
    // Text that says U+FFFD itself is left as it is.
    assert_eq!(sandbox.exec(["printf", "\u{fffd}"]).await.unwrap().stdout, "\u{fffd}".as_bytes());
    sandbox.kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn input_of_any_size_reaches_a_command() {
    let sandbox = sandbox().await;
    for size in [0, 5, 3 << 20] {
        let output = sandbox.exec("wc -c").stdin(vec![b'x'; size]).await.unwrap();
        assert_eq!(output.stdout().trim(), size.to_string());
    }
    // One that does not read it all is no failure.
    assert_eq!(sandbox.exec("head -c 1").stdin(vec![b'x'; 3 << 20]).await.unwrap().stdout(), "x");
    // The output comes back with the error: until the time limit is long enough for it on this machine.
    let mut output = 0;
    for seconds in [1, 5, 25] {
        let limit = Duration::from_secs(seconds);
        let error = sandbox.exec("cat; sleep 1000").stdin(vec![b'y'; 2 << 20]).timeout(limit).await.unwrap_err();
        assert_eq!(error.code(), Some("command_timeout"));
        output = error.api().unwrap().text("stdout").unwrap().len();
        if output == 2 << 20 {
            break;
        }
    }
    assert_eq!(output, 2 << 20);
    sandbox.kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn limits_of_a_process_are_set() {
    let sandbox = sandbox().await;
    assert_eq!(sandbox.exec("ulimit -n").rlimit("nofile", 77, None).await.unwrap().stdout(), "77\n");
    sandbox.kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn a_dropped_future_ends_its_command() {
    let sandbox = sandbox().await;
    let exec = sandbox.exec(["sleep", "54321"]);
    let task = tokio::spawn(async move { exec.await });
    there(&sandbox, "54321").await;
    task.abort();
    gone(&sandbox, "54321").await;
    sandbox.kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn a_dropped_stream_ends_its_command_and_a_detached_one_goes_on() {
    let sandbox = sandbox().await;
    let mut events = sandbox.exec("echo ready; exec sleep 65432").stream().await.unwrap();
    while !matches!(events.next().await.unwrap().unwrap(), ExecEvent::Stdout(_)) {}
    drop(events);
    gone(&sandbox, "65432").await;

    let mut events = sandbox.exec("echo ready; read word; echo got $word").detach().attach().await.unwrap().events;
    while !matches!(events.next().await.unwrap().unwrap(), ExecEvent::Stdout(_)) {}
    let (id, cursor) = (events.id().to_owned(), events.cursor());
    drop(events);
    let mut back = sandbox.attach(&id, cursor).await.unwrap();
    back.input.write_all(b"it\n").await.unwrap();
    back.input.flush().await.unwrap();
    let mut said = Vec::new();
    while let Some(event) = back.events.next().await {
        match event.unwrap() {
            ExecEvent::Stdout(bytes) => said.extend_from_slice(&bytes),
            ExecEvent::Exited(end) => assert!(end.success()),
            _ => {}
        }
    }
    assert_eq!(said, b"got it\n");
    sandbox.kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn signals_and_sizes_reach_an_attached_command() {
    let sandbox = sandbox().await;
    let mut attached = sandbox.exec("stty size; read x; stty size; exec sleep 60").attach_terminal(30, 90).await.unwrap();
    let mut shown = String::new();
    let mut sent = 0;
    let end = loop {
        match attached.events.next().await.unwrap().unwrap() {
            ExecEvent::Stdout(bytes) => shown.push_str(&String::from_utf8_lossy(&bytes)),
            ExecEvent::Exited(end) => break end,
            _ => {}
        }
        if sent == 0 && shown.contains("30 90") {
            attached.input.resize(40, 120).await.unwrap();
            attached.input.write_all(b"\n").await.unwrap();
            attached.input.flush().await.unwrap();
            sent = 1;
        }
        if sent == 1 && shown.contains("40 120") {
            attached.input.signal(9).await.unwrap();
            sent = 2;
        }
    };
    assert_eq!((end.exit_code, end.reason), (137, Reason::Signal));
    sandbox.kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn files_are_streamed_both_ways() {
    let sandbox = sandbox().await;
    let folder = std::env::temp_dir().join(format!("cay-rust-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let (there, back) = (folder.join("there"), folder.join("back"));
    std::fs::write(&there, vec![7; 5 << 20]).unwrap();
    let files = sandbox.filesystem();
    files.upload_file(&there, "a b/#%?.bin").await.unwrap();
    assert_eq!(files.download_file("a b/#%?.bin", &back).await.unwrap(), 5 << 20);
    assert_eq!(std::fs::read(&back).unwrap(), std::fs::read(&there).unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(files.read("../etc/passwd").await.unwrap_err().code(), Some("path_traversal"));
    assert!(files.anywhere().read("/etc/passwd").await.unwrap().contains("root"));
    files.upload("p", Payload::from("text")).await.unwrap();
    files.rename("p", "q").await.unwrap();
    assert_eq!(files.info("q").await.unwrap().size, 4);
    files.copy("q", "r").await.unwrap();
    files.symlink("r", "link").await.unwrap();
    assert_eq!(files.download_part("link", 1, 2).await.unwrap(), b"ex");
    sandbox.kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn changes_to_files_are_told() {
    let sandbox = sandbox().await;
    let mut changes = sandbox.filesystem().watch("/workspace", true).await.unwrap();
    assert_eq!(changes.next().await.unwrap().unwrap().r#type, FileChangeType::Ready);
    sandbox.filesystem().write("new.txt", "x").await.unwrap();
    while let Some(change) = changes.next().await {
        if change.unwrap().path.as_deref() == Some("/workspace/new.txt") {
            break;
        }
    }
    sandbox.kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn a_terminal_shows_what_its_shell_does() {
    let sandbox = sandbox().await;
    let made = sandbox.terminal().create(TerminalCreateRequest { cols: Some(90), ..Default::default() }).await.unwrap();
    let mut session = sandbox.terminal().connect(&made.session_id).await.unwrap();
    session.resize(100, 50).await.unwrap();
    session.write("stty size; echo $((6*7)); exit 4\n").await.unwrap();
    let mut shown = Vec::new();
    while let Some(bytes) = session.read().await.unwrap() {
        shown.extend_from_slice(&bytes);
    }
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(shown.contains("50 100") && shown.contains("42"), "{shown}");
    assert_eq!(session.exit().unwrap().exit_code, 4);
    sandbox.kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn a_port_is_dialled() {
    let sandbox = sandbox().await;
    let server = "import socket; s = socket.create_server(('', 4711)); print('up', flush=True); c = s.accept()[0]; c.send(c.recv(9)[::-1])";
    let mut events = sandbox.exec(["python3", "-c", server]).stream().await.unwrap();
    while !matches!(events.next().await.unwrap().unwrap(), ExecEvent::Stdout(_)) {}
    let mut stream = sandbox.ports().dial(4711).await.unwrap();
    stream.write_all(b"abc").await.unwrap();
    let mut said = [0; 3];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"cba");
    assert!(events.wait().await.unwrap().success());
    sandbox.kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn a_command_in_the_background_is_waited_for() {
    let sandbox = sandbox().await;
    let started = sandbox.exec("cat; echo done; exit 5").stdin("in\n").background().await.unwrap();
    let (end, output) = sandbox.background(started.id()).await.unwrap().wait().await.unwrap();
    assert_eq!((end.exit_code, output.as_str()), (Some(5), "in\ndone\n"));
    let long = sandbox.exec("sleep 76543").background().await.unwrap();
    long.kill().await.unwrap();
    assert_eq!(long.wait().await.unwrap().0.reason, Some(Reason::Cancelled));
    sandbox.kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn events_go_on_where_a_stream_ended() {
    let sandbox = sandbox().await;
    let client = sandbox.client();
    for number in 0..3 {
        client.events().publish("rust.test", sandbox.id(), [("number".to_owned(), number.into())].into()).await.unwrap();
    }
    let query = |last: Option<&str>| StreamEventsQuery {
        topic: Some("rust.test".into()),
        sandbox_id: Some(sandbox.id().to_owned()),
        since: last.is_none().then_some(1),
        last_event_id: last.map(str::to_owned),
        ..Default::default()
    };
    let mut events = client.events().stream(query(None)).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().data["number"], 0);
    let last = events.last_event_id().unwrap().to_owned();
    drop(events);
    let mut events = client.events().stream(query(Some(&last))).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().data["number"], 1);
    sandbox.kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn a_volume_outlives_its_sandbox() {
    let client = Client::new().unwrap();
    let name = format!("rust-{}", std::process::id());
    let volume = client.volumes().create(&name, Some(16)).await.unwrap();
    let mount = VolumeMount { name: Some(name), mount_path: "/data".into(), ..Default::default() };
    let sandbox = client.create("host").volume(mount).await.unwrap();
    sandbox.exec("echo kept >/data/a").await.unwrap();
    sandbox.kill().await.unwrap();
    assert_eq!(client.volumes().download(&volume.id, "a").await.unwrap().collect().await.unwrap(), b"kept\n");
    client.volumes().delete(&volume.id).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a daemon"]
async fn branches_share_what_was_there() {
    let sandbox = sandbox().await;
    sandbox.filesystem().write("a", "1").await.unwrap();
    let branches = sandbox.fork(2).await.unwrap();
    assert_eq!(branches.len(), 2);
    for branch in &branches {
        assert_eq!(branch.filesystem().read("a").await.unwrap(), "1");
        branch.kill().await.unwrap();
    }
    let snapshot = sandbox.snapshot(Some("before")).await.unwrap();
    sandbox.filesystem().write("a", "2").await.unwrap();
    sandbox.restore(&snapshot.id).await.unwrap();
    assert_eq!(sandbox.filesystem().read("a").await.unwrap(), "1");
    sandbox.kill().await.unwrap();
    sandbox.client().api().snapshot_delete(&snapshot.id).await.unwrap();
}
