//! Uses the endpoint with the genuine iii-sdk of crates.io:
//!     cay-iii-client steps    every step of steps.txt, with III_SIZE bytes through channels
//!     cay-iii-client stay     stays connected, while its daemon comes and goes

mod steps;

use iii_sdk::protocol::TriggerRequest;
use iii_sdk::runtime::WorkerMetadata;
use iii_sdk::{register_worker, Error, IIIClient, InitOptions, RegisterFunction};
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, BufReader};

pub fn url() -> String {
    std::env::var("III_URL").expect("III_URL")
}

pub fn connect(name: &str) -> IIIClient {
    let metadata = WorkerMetadata { name: name.to_string(), ..WorkerMetadata::default() };
    register_worker(&url(), InitOptions { metadata: Some(metadata), ..InitOptions::default() })
}

pub fn request(function_id: &str, payload: Value) -> TriggerRequest {
    TriggerRequest { function_id: function_id.to_string(), payload, action: None, timeout_ms: Some(60_000) }
}

pub async fn call(iii: &IIIClient, function_id: &str, payload: Value) -> Value {
    iii.trigger(request(function_id, payload)).await.unwrap_or_else(|e| panic!("{function_id}: {e}"))
}

/// Registrations are not acknowledged: it is there when it is listed.
pub async fn listed(iii: &IIIClient, id: &str) -> Value {
    loop {
        let got = call(iii, "engine::functions::list", json!({"prefix": id})).await;
        let rows = got["functions"].as_array().cloned().unwrap_or_default();
        if let Some(row) = rows.into_iter().find(|row| row["function_id"] == id) {
            return row;
        }
    }
}

/// Commands, one a line: "create" and "exec ID COMMAND" (which is begun, not waited for), "list" (its ids), "leave".
async fn stay() {
    let iii = connect("cay-test-stay");
    iii.register_function(
        "cay.test::echo",
        RegisterFunction::new_async(|input: Value| async move { Ok::<Value, Error>(json!({"word": input["word"], "from": "rust"})) }),
    );
    listed(&iii, "cay.test::echo").await;
    println!("here");
    let mut begun = Vec::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.expect("stdin") {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        match words[0].as_str() {
            "create" => {
                let made = call(&iii, "sandbox::create", json!({"image": "host"})).await;
                println!("created {}", made["sandbox_id"].as_str().expect("an id"));
            }
            "exec" => {
                let client = iii.clone();
                begun.push(tokio::spawn(async move {
                    let mut asked = request("sandbox::exec", json!({"sandbox_id": words[1], "argv": words[2..]}));
                    asked.timeout_ms = Some(600_000);
                    client.trigger(asked).await
                }));
            }
            "list" => {
                let got = call(&iii, "sandbox::list", json!({})).await;
                let rows = got["sandboxes"].as_array().expect("sandboxes");
                let ids: Vec<&str> = rows.iter().filter_map(|row| row["sandbox_id"].as_str()).collect();
                println!("listed {}", ids.join(" "));
            }
            _ => break,
        }
    }
    iii.shutdown_async().await;
    for ended in begun {
        // This SDK lets what has no answer wait for its own time.
        if !ended.is_finished() {
            ended.abort();
        }
        match ended.await {
            Ok(Ok(got)) => println!("begun gave {got}"),
            _ => println!("begun failed"),
        }
    }
}

#[tokio::main]
async fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("steps") => steps::all().await,
        Some("stay") => stay().await,
        _ => panic!("steps or stay?"),
    }
}
