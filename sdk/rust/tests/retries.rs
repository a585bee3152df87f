//! What is sent again and what is not, against a server that says and does what a test tells it.

use std::time::Duration;

use cay::types::{SandboxCreateRequest, SandboxStatus};
use cay::{Client, Error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SANDBOX: &str = r#"{"id":"sbx_0","name":"a","image":"host","status":"dreaming","createdAt":1,"expiresAt":2,"metadata":{},
"config":{"image":"host","timeout":1,"memory":1,"cpu":1.0,"disk":1,"pids":1,"workdir":"/","later":[1]},"runtime":"native","isolation":"some","later":{"x":1}}"#;

/// One request of a connection: its head and its body.
async fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.split_once("content-length: ").map_or(0, |(_, rest)| rest.lines().next().unwrap().parse().unwrap());
            if body.len() >= length {
                return Some((head, body.to_owned()));
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

fn answer(status: &str, headers: &str, body: &str) -> Option<String> {
    Some(format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()))
}

/// Answers one request after the other with these; `None` hangs up. Gives the heads and bodies that came.
async fn serve(answers: Vec<Option<String>>) -> (Client, tokio::task::JoinHandle<Vec<(String, String)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::builder().address(format!("http://{}", listener.local_addr().unwrap())).build().unwrap();
    let task = tokio::spawn(async move {
        let mut seen = Vec::new();
        let mut answers = answers.into_iter().peekable();
        while answers.peek().is_some() {
            let (mut stream, _) = listener.accept().await.unwrap();
            while answers.peek().is_some() {
                let Some(asked) = request(&mut stream).await else { break };
                seen.push(asked);
                match answers.next().unwrap() {
                    Some(text) => stream.write_all(text.as_bytes()).await.unwrap(),
                    None => break,
                }
            }
        }
        seen
    });
    (client, task)
}

fn key(head: &str) -> &str {
    head.split_once("idempotency-key: ").map_or("", |(_, rest)| rest.lines().next().unwrap())
}

#[tokio::test]
async fn an_answer_without_an_end_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::builder().address(format!("http://{}", listener.local_addr().unwrap())).build().unwrap();
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await.unwrap();
        let piece = vec![b' '; 1 << 20];
        for _ in 0..512 {
            if stream.write_all(&piece).await.is_err() {
                return true; // it was hung up on
            }
        }
        false
    });
    let error = client.get("a").await.unwrap_err();
    assert!(matches!(error, Error::Protocol(_)), "{error}");
    assert!(task.await.unwrap());
}

#[tokio::test]
async fn what_makes_something_is_sent_again_with_the_same_key() {
    let (client, seen) = serve(vec![None, answer("200 OK", "", SANDBOX)]).await;
    let sandbox = client.create("host").name("a").await.unwrap();
    assert_eq!(sandbox.id(), "sbx_0");
    let seen = seen.await.unwrap();
    assert_eq!(seen.len(), 2);
    assert!(!key(&seen[0].0).is_empty());
    assert_eq!(key(&seen[0].0), key(&seen[1].0));
    assert_eq!(seen[0].1, seen[1].1);
}

#[tokio::test]
async fn a_key_of_the_callers_own_is_the_one_that_is_sent() {
    let (client, seen) = serve(vec![answer("200 OK", "", SANDBOX)]).await;
    client.create("host").idempotency_key("order-4711").await.unwrap();
    assert_eq!(key(&seen.await.unwrap()[0].0), "order-4711");
}

#[tokio::test]
async fn what_only_looks_is_sent_again() {
    let (client, seen) = serve(vec![None, answer("200 OK", "", SANDBOX)]).await;
    client.get("a").await.unwrap();
    assert_eq!(seen.await.unwrap().len(), 2);
}

#[tokio::test]
async fn what_could_happen_twice_is_not() {
    let (client, seen) = serve(vec![answer("200 OK", "", SANDBOX), None]).await;
    let sandbox = client.get("a").await.unwrap();
    let error = sandbox.pause().await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    assert_eq!(seen.await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_busy_daemon_is_asked_again_when_it_said_so() {
    let busy = r#"{"error":"not now","code":"busy"}"#;
    let (client, seen) = serve(vec![answer("503 Busy", "retry-after: 0\r\n", busy), answer("200 OK", "", SANDBOX)]).await;
    client.get("a").await.unwrap();
    assert_eq!(seen.await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_daemon_that_will_be_busy_for_long_is_not_asked_before() {
    let (client, served) = serve(vec![answer("503 X", "Retry-After: 3600\r\n", r#"{"code":"busy","error":"later"}"#)]).await;
    let error = client.get("a").await.unwrap_err();
    assert_eq!((error.code(), served.await.unwrap().len()), (Some("busy"), 1));
}

#[tokio::test]
async fn a_command_of_a_busy_daemon_is_refused_in_its_words() {
    let busy = r#"{"error":"not now","code":"busy"}"#;
    let (client, seen) = serve(vec![answer("200 OK", "", SANDBOX), answer("503 Busy", "retry-after: 7\r\n", busy)]).await;
    let error = client.get("a").await.unwrap().exec("true").await.unwrap_err();
    assert_eq!((error.code(), error.status()), (Some("busy"), Some(503)));
    assert_eq!(error.api().unwrap().retry_after, Some(Duration::from_secs(7)));
    assert!(error.exec_id().unwrap().starts_with("ex_"));
    assert_eq!(seen.await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_command_that_was_never_heard_of_is_sent_again_under_the_same_id() {
    let unknown = r#"{"error":"no such command","code":"exec_not_found"}"#;
    let done = r#"{"exitCode":0,"stdout":"hi\n","stderr":"","duration":1.5,"reason":"exit","truncated":false}"#;
    let answers = vec![answer("200 OK", "", SANDBOX), None, answer("404 Not Found", "", unknown), answer("200 OK", "", done)];
    let (client, seen) = serve(answers).await;
    let output = client.get("a").await.unwrap().exec("echo hi").await.unwrap();
    assert_eq!(output.stdout(), "hi\n");
    let seen = seen.await.unwrap();
    assert!(seen[2].0.starts_with("post /sandbox/sandboxes/sbx_0/exec/ex_"), "{}", seen[2].0);
    assert_eq!(seen[1].1, seen[3].1);
}

#[tokio::test]
async fn words_and_members_of_a_newer_daemon_are_taken() {
    let (client, _seen) = serve(vec![answer("200 OK", "", SANDBOX)]).await;
    let sandbox = client.get("a").await.unwrap();
    assert_eq!(*sandbox.status(), SandboxStatus::Unlisted("dreaming".into()));
    assert_eq!(sandbox.status().to_string(), "dreaming");
}

#[tokio::test]
async fn nobody_at_an_address_is_told_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = Client::builder().address(format!("http://{address}"));
    let error = cay::create_sandbox(SandboxCreateRequest::default(), Some(config)).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn a_future_that_is_dropped_hangs_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::builder().address(format!("http://{}", listener.local_addr().unwrap())).build().unwrap();
    let call = tokio::spawn(async move { client.get("a").await });
    let (mut stream, _) = listener.accept().await.unwrap();
    request(&mut stream).await.unwrap();
    call.abort();
    assert_eq!(request(&mut stream).await, None);
}

#[tokio::test]
async fn an_id_that_another_command_has_is_refused_however_slowly() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::builder().address(format!("http://{}", listener.local_addr().unwrap())).build().unwrap();
    let asked = tokio::spawn(async move {
        let mut count = 0;
        for text in [answer("200 OK", "", SANDBOX), answer("409 Conflict", "", r#"{"error":"there","code":"exec_exists"}"#)] {
            let (mut stream, _) = listener.accept().await.unwrap();
            request(&mut stream).await.unwrap();
            tokio::time::sleep(Duration::from_millis(150)).await;
            let text = text.unwrap().replacen("\r\n", "\r\nconnection: close\r\n", 1);
            stream.write_all(text.as_bytes()).await.unwrap();
            count += 1;
        }
        count
    });
    let exec = client.get("a").await.unwrap().exec("true").with_id("ex_0123456789abcdef01234567");
    assert_eq!(exec.await.unwrap_err().code(), Some("exec_exists"));
    assert_eq!(asked.await.unwrap(), 2);
}

#[tokio::test]
async fn a_file_that_breaks_off_leaves_what_was_there() {
    let broken = "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: 100\r\n\r\nhalf";
    let (client, _) = serve(vec![answer("200 OK", "", SANDBOX), Some(broken.into())]).await;
    let folder = std::env::temp_dir().join(format!("cay-rust-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("file"), "before").unwrap();
    let error = client.get("a").await.unwrap().filesystem().download_file("x", folder.join("file")).await.unwrap_err();
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let kept = std::fs::read_to_string(folder.join("file")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(matches!(error, Error::Lost { .. }));
    assert_eq!((names, kept.as_str()), (vec!["file".into()], "before"));
}
