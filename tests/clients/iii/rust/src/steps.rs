use std::sync::{Arc, Mutex};

use base64::prelude::{Engine, BASE64_STANDARD};
use iii_sdk::channel::{ChannelReader, StreamChannelRef};
use iii_sdk::helpers::{create_channel, extract_channel_refs};
use iii_sdk::protocol::RegisterTriggerInput;
use iii_sdk::{Error, IIIClient, RegisterFunction, TriggerAction};
use serde_json::{json, Value};
use sha2::{Digest, Sha256};

use crate::{call, connect, listed, request, url};

const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

fn done(step: &str) {
    println!("ok {step}");
}

fn digest(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn failure(iii: &IIIClient, function_id: &str, payload: Value) -> (String, String) {
    match iii.trigger(request(function_id, payload)).await {
        Err(Error::Remote { code, message, .. }) => (code, message),
        other => panic!("{function_id}: {other:?}"),
    }
}

/// The S-code and all else that a sandbox function says: JSON after a prefix.
async fn envelope(iii: &IIIClient, function_id: &str, payload: Value) -> Value {
    let (code, message) = failure(iii, function_id, payload).await;
    assert_eq!(code, "invocation_failed");
    let text = message.strip_prefix("handler error: ").unwrap_or_else(|| panic!("{message}"));
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{message}: {e}"))
}

async fn code(iii: &IIIClient, function_id: &str, payload: Value) -> String {
    envelope(iii, function_id, payload).await["code"].as_str().expect("a code").to_string()
}

async fn functions(a: &IIIClient, b: &IIIClient) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let add = RegisterFunction::new(move |input: Value, metadata: Option<Value>| {
        noted.lock().expect("a lock").push(metadata);
        match input["fail"].as_bool() {
            Some(true) => Err(Error::Handler("on purpose".to_string())),
            _ => Ok(json!({"sum": input["x"].as_i64().unwrap_or(0) + input["y"].as_i64().unwrap_or(0)})),
        }
    });
    a.register_function("cay.test::add", add.description("adds").metadata(json!({"of": "tests"})));
    let row = listed(b, "cay.test::add").await;
    assert_eq!((&row["description"], &row["metadata"]), (&json!("adds"), &json!({"of": "tests"})));
    done("register");

    assert_eq!(call(b, "cay.test::add", json!({"x": 2, "y": 3})).await, json!({"sum": 5}));
    let (why, text) = failure(b, "cay.test::add", json!({"fail": true})).await;
    assert!(why == "invocation_failed" && text.contains("on purpose"), "{why} {text}");
    let tasks: Vec<_> = (0..50)
        .map(|x| {
            let b = b.clone();
            tokio::spawn(async move { call(&b, "cay.test::add", json!({"x": x, "y": 1})).await })
        })
        .collect();
    for (x, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.expect("a task"), json!({"sum": x + 1}));
    }
    done("call");

    let asked = request("cay.test::add", json!({"x": 1, "y": 1})).metadata(json!({"tenant": "blue"}));
    b.trigger(asked).await.expect("a sum");
    assert_eq!(seen.lock().expect("a lock").last(), Some(&Some(json!({"tenant": "blue"}))));
    done("metadata");

    let (tell, arrived) = tokio::sync::oneshot::channel();
    let tell = Mutex::new(Some(tell));
    a.register_function(
        "cay.test::void",
        RegisterFunction::new(move |input: Value| {
            if let Some(tell) = tell.lock().expect("a lock").take() {
                let _ = tell.send(input["word"].clone());
            }
            Ok::<Value, Error>(Value::Null)
        }),
    );
    listed(b, "cay.test::void").await;
    let mut asked = request("cay.test::void", json!({"word": "fire"}));
    asked.action = Some(TriggerAction::Void);
    b.trigger(asked).await.expect("nothing");
    assert_eq!(arrived.await.expect("a word"), json!("fire"));
    done("void");

    let mut asked = request("cay.test::add", json!({"x": 1, "y": 1}));
    asked.action = Some(TriggerAction::Enqueue { queue: "jobs".to_string() });
    match b.trigger(asked).await {
        Err(Error::Remote { code, message, .. }) => assert!(code == "enqueue_error" && message.contains("genuine iii engine"), "{code} {message}"),
        other => panic!("{other:?}"),
    }
    done("enqueue");

    // A trigger is refused, and the connection goes on.
    let cron = RegisterTriggerInput::new("cron", "cay.test::add", json!({"expression": "* * * * * *"}));
    #[allow(deprecated)]
    let bound = b.register_trigger(cron).expect("a trigger");
    let listed = call(b, "engine::registered-triggers::list", json!({})).await;
    assert_eq!(listed["registered_triggers"], json!([]));
    bound.unregister();
    assert_eq!(call(b, "cay.test::add", json!({"x": 1, "y": 2})).await, json!({"sum": 3}));
    done("trigger");
    assert_eq!(failure(b, "cay.test::no-such", json!({})).await.0, "function_not_found");
    done("unknown");
}

/// Calls with the id of one sandbox in them.
struct Box<'a> {
    iii: &'a IIIClient,
    id: &'a str,
}

impl Box<'_> {
    fn with(&self, mut fields: Value) -> Value {
        fields["sandbox_id"] = json!(self.id);
        fields
    }

    async fn exec(&self, fields: Value) -> Value {
        call(self.iii, "sandbox::exec", self.with(fields)).await
    }

    async fn exec_code(&self, fields: Value) -> String {
        code(self.iii, "sandbox::exec", self.with(fields)).await
    }

    async fn fs(&self, what: &str, fields: Value) -> Value {
        call(self.iii, &format!("sandbox::fs::{what}"), self.with(fields)).await
    }

    async fn fs_code(&self, what: &str, fields: Value) -> String {
        code(self.iii, &format!("sandbox::fs::{what}"), self.with(fields)).await
    }
}

async fn commands(at: &Box<'_>) {
    let script = r#"import sys; print("hi"); print("there", file=sys.stderr); sys.exit(3)"#;
    let out = at.exec(json!({"cmd": "python3", "args": ["-c", script]})).await;
    assert_eq!(json!([out["stdout"], out["stderr"], out["exit_code"], out["success"]]), json!(["hi\n", "there\n", 3, false]));
    assert!(out["timed_out"] == json!(false) && out["duration_ms"].is_u64(), "{out}");
    let typed = at.exec(json!({"cmd": "cat", "stdin": BASE64_STANDARD.encode("typed\n")})).await;
    assert_eq!(typed["stdout"], "typed\n");
    assert_eq!(at.exec(json!({"cmd": "no-such-program"})).await["exit_code"], 127);
    assert_eq!(at.exec(json!({"cmd": "pwd", "workdir": "/usr"})).await["stdout"], "/usr\n");
    done("exec");

    assert_eq!(at.exec(json!({"argv": ["echo", "a  b"]})).await["stdout"], "a  b\n");
    assert_eq!(at.exec(json!({"cmd": "echo 'c  d' e"})).await["stdout"], "c  d e\n");
    assert_eq!(at.exec_code(json!({"cmd": "echo x", "args": ["y"]})).await, "S001");
    done("exec-shapes");

    let show = json!({"cmd": "sh", "args": ["-c", "echo $A-$B-$C"]});
    let with = |env: Value| json!({"cmd": show["cmd"], "args": show["args"], "env": env});
    assert_eq!(at.exec(show.clone()).await["stdout"], "1-2-\n");
    assert_eq!(at.exec(with(json!(["B=3", "C=4"]))).await["stdout"], "1-3-4\n");
    assert_eq!(at.exec(with(json!({"C": "5"}))).await["stdout"], "1-2-5\n");
    done("env");

    let lost = envelope(at.iii, "sandbox::exec", json!({"sandbox_id": NOBODY, "cmd": "true"})).await;
    assert_eq!(json!([lost["type"], lost["code"], lost["retryable"]]), json!(["validation", "S002", false]));
    assert_eq!(code(at.iii, "sandbox::exec", json!({"sandbox_id": "no-uuid", "cmd": "true"})).await, "S001");
    assert_eq!(at.exec_code(json!({"cmd": "true", "stdin": "!!!"})).await, "S001");
    assert_eq!(at.exec_code(json!({"cmd": "sleep", "args": ["1000"], "timeout_ms": 100})).await, "S200");
    let unknown = code(at.iii, "sandbox::create", json!({"image": "no.such.host.invalid/x:1"})).await;
    assert!(unknown == "S100" || unknown == "S102", "{unknown}");
    done("errors");
}

async fn read_all(reference: &Value) -> Vec<u8> {
    let reference: StreamChannelRef = serde_json::from_value(reference.clone()).expect("a reference");
    ChannelReader::new(&url(), &reference).read_all().await.expect("all of it")
}

async fn files(at: &Box<'_>) {
    assert_eq!(at.fs("mkdir", json!({"path": "/tmp/d/e", "parents": true})).await, json!({"created": true}));
    assert_eq!(at.fs_code("mkdir", json!({"path": "/tmp/d"})).await, "S213");
    done("mkdir");

    let wrote = at.fs("write", json!({"path": "/tmp/d/a.txt", "content": "one\ntwo\nthree\n", "mode": "0600"})).await;
    assert_eq!(wrote, json!({"bytes_written": 14, "path": "/tmp/d/a.txt"}));
    let raw = at.fs("write", json!({"path": "/tmp/d/b.bin", "content_b64": BASE64_STANDARD.encode([0, 255, 1])})).await;
    assert_eq!(raw["bytes_written"], 3);
    let parent = envelope(at.iii, "sandbox::fs::write", at.with(json!({"path": "/tmp/none/x", "content": ""}))).await;
    assert_eq!((&parent["code"], &parent["fix"]), (&json!("S211"), &json!({"parents": true})));
    done("write");

    let about = at.fs("stat", json!({"path": "/tmp/d/a.txt"})).await;
    assert_eq!(json!([about["name"], about["is_dir"], about["size"], about["mode"]]), json!(["a.txt", false, 14, "0600"]));
    assert_eq!(at.fs_code("stat", json!({"path": "/tmp/none"})).await, "S211");
    done("stat");

    let got = at.fs("ls", json!({"path": "/tmp/d"})).await;
    let mut names: Vec<&str> = got["entries"].as_array().expect("entries").iter().filter_map(|e| e["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a.txt", "b.bin", "e"]);
    assert_eq!(at.fs_code("ls", json!({"path": "/tmp/d/a.txt"})).await, "S212");
    done("ls");

    let got = at.fs("read", json!({"path": "/tmp/d/a.txt"})).await;
    assert_eq!(json!([got["size"], got["mode"], got["body"]]), json!([14, "0600", "one\ntwo\nthree\n"]));
    assert_eq!(read_all(&got["content"]).await, b"one\ntwo\nthree\n");
    assert_eq!(at.fs_code("read", json!({"path": "/tmp/d"})).await, "S212");
    done("read");

    let found = at.fs("grep", json!({"path": "/tmp/d", "pattern": "^t"})).await;
    assert_eq!(found["matches"][1], json!({"path": "/tmp/d/a.txt", "line": 3, "content": "three"}));
    assert_eq!(found["truncated"], false);
    assert_eq!(at.fs_code("grep", json!({"path": "/tmp/d", "pattern": "("})).await, "S217");
    done("grep");

    let swap = json!({"files": ["/tmp/d/a.txt"], "pattern": "t(\\w)", "replacement": "T$1"});
    assert_eq!(at.fs("sed", swap).await["total_replacements"], 2);
    assert_eq!(at.fs("read", json!({"path": "/tmp/d/a.txt"})).await["body"], "one\nTwo\nThree\n");
    done("sed");

    assert_eq!(at.fs("chmod", json!({"path": "/tmp/d", "mode": "0700", "recursive": true})).await, json!({"updated": 4}));
    assert_eq!(at.fs("stat", json!({"path": "/tmp/d/b.bin"})).await["mode"], "0700");
    done("chmod");

    assert_eq!(at.fs("mv", json!({"src": "/tmp/d/a.txt", "dst": "/tmp/d/c.txt"})).await, json!({"moved": true}));
    assert_eq!(at.fs_code("mv", json!({"src": "/tmp/d/c.txt", "dst": "/tmp/d/b.bin"})).await, "S213");
    done("mv");

    assert_eq!(at.fs_code("rm", json!({"path": "/tmp/d"})).await, "S214");
    assert_eq!(at.fs("rm", json!({"path": "/tmp/d", "recursive": true})).await, json!({"removed": true}));
    assert_eq!(at.fs_code("rm", json!({"path": "/tmp/d"})).await, "S211");
    done("rm");
}

async fn one_shots(iii: &IIIClient) {
    let asked = json!({"image": "host", "lang": "python", "code": "import helper; print(helper.word)",
                       "files": [{"path": "/tmp/helper.py", "content": "word = 'from a file'\n"}]});
    let ran = call(iii, "sandbox::run", asked).await;
    assert_eq!(json!([ran["stdout"], ran["exit_code"], ran.get("sandbox_id")]), json!(["from a file\n", 0, null]));
    let inner = envelope(iii, "sandbox::run", json!({"image": "no.such.host.invalid/x:1", "lang": "sh", "code": "true"})).await;
    assert_eq!((&inner["fix"]["inner_code"], &inner["fix"]["sandbox_id"]), (&inner["code"], &json!("")));
    done("run");

    let got = call(iii, "sandbox::catalog::list", json!({})).await;
    assert_eq!(json!([got["images"][0]["name"], got["images"][0]["kind"], got["images"][1]["name"]]), json!(["python", "preset", "node"]));
    done("catalog");
}

async fn bytes(a: &IIIClient, b: &IIIClient, at: &Box<'_>) {
    let size: usize = std::env::var("III_SIZE").map_or(1 << 20, |text| text.parse().expect("a number"));
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let data: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .take(size.div_ceil(8))
    .flatten()
    .take(size)
    .collect();

    let up = create_channel(a, None).await.expect("a channel");
    let writing = {
        let (a, asked) = (a.clone(), at.with(json!({"path": "/tmp/big", "content": up.reader_ref})));
        tokio::spawn(async move { call(&a, "sandbox::fs::write", asked).await })
    };
    up.writer.write(&data).await.expect("all of it");
    up.writer.close().await.expect("an end");
    assert_eq!(writing.await.expect("a task")["bytes_written"], size);
    let sum = at.exec(json!({"cmd": "sha256sum", "args": ["/tmp/big"]})).await;
    assert_eq!(sum["stdout"].as_str().and_then(|text| text.split(' ').next()), Some(digest(&data).as_str()));
    done("upload");

    let got = at.fs("read", json!({"path": "/tmp/big"})).await;
    assert_eq!(got["size"], size);
    assert_eq!(digest(&read_all(&got["content"]).await), digest(&data));
    at.fs("rm", json!({"path": "/tmp/big"})).await;
    done("download");

    // From one client to another: text beside bytes.
    let drain = RegisterFunction::new_async(|input: Value| async move {
        let refs = extract_channel_refs(&input);
        let reader = ChannelReader::new(&url(), &refs[0].1);
        let texts = Arc::new(Mutex::new(Vec::new()));
        let noted = texts.clone();
        reader.on_message(move |text| noted.lock().expect("a lock").push(text)).await;
        let all = reader.read_all().await?;
        let texts = texts.lock().expect("a lock").clone();
        Ok::<Value, Error>(json!({"bytes": all.len(), "digest": digest(&all), "texts": texts}))
    });
    a.register_function("cay.test::drain", drain);
    listed(b, "cay.test::drain").await;
    let between = create_channel(b, None).await.expect("a channel");
    let draining = {
        let (b, asked) = (b.clone(), json!({"from": between.reader_ref}));
        tokio::spawn(async move { call(&b, "cay.test::drain", asked).await })
    };
    let part = &data[..size.min(300_000)];
    between.writer.send_message("first").await.expect("a text");
    between.writer.write(part).await.expect("all of it");
    between.writer.close().await.expect("an end");
    assert_eq!(draining.await.expect("a task"), json!({"bytes": part.len(), "digest": digest(part), "texts": ["first"]}));
    done("channel");
}

async fn introspection(b: &IIIClient) {
    assert_eq!(call(b, "engine::functions::info", json!({"function_id": "cay.test::add"})).await["worker_name"], "cay-test-a");
    let got = call(b, "engine::functions::list", json!({})).await;
    let rows = got["functions"].as_array().expect("functions");
    assert!(["sandbox::create", "sandbox::fs::sed"].iter().all(|id| rows.iter().any(|row| row["function_id"] == *id)), "{got}");
    let got = call(b, "engine::workers::list", json!({})).await;
    let rows = got["workers"].as_array().expect("workers");
    assert!(rows.iter().any(|row| row["name"] == "cay-test-a" && row["runtime"] == "rust"), "{got}");
    done("functions");
}

pub async fn all() {
    let (a, b) = (connect("cay-test-a"), connect("cay-test-b"));
    functions(&a, &b).await;
    let made = call(&a, "sandbox::create", json!({"image": "host", "name": "steps", "env": ["A=1", "B=2"]})).await;
    let id = made["sandbox_id"].as_str().expect("an id").to_string();
    assert!(id.len() == 36 && made["image"] == "host", "{made}");
    done("create");
    let at = Box { iii: &a, id: &id };
    commands(&at).await;
    let got = call(&b, "sandbox::list", json!({})).await;
    let row = got["sandboxes"].as_array().and_then(|rows| rows.iter().find(|row| row["sandbox_id"] == id.as_str())).expect("a row");
    assert_eq!(json!([row["name"], row["image"], row["exec_in_progress"], row["stopped"]]), json!(["steps", "host", false, false]));
    done("list");
    files(&at).await;
    one_shots(&a).await;
    bytes(&a, &b, &at).await;
    introspection(&b).await;
    let stopped = call(&a, "sandbox::stop", at.with(json!({"wait": true}))).await;
    assert_eq!(stopped, json!({"sandbox_id": id, "stopped": true}));
    assert_eq!(code(&a, "sandbox::stop", at.with(json!({}))).await, "S002");
    done("stop");
    a.shutdown_async().await;
    b.shutdown_async().await;
}
