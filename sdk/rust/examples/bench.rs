//! What this crate costs beside plain reqwest in the same process: `bench ADDRESS ROUNDS`. Prints JSON of what bench/clients.py
//! asks of every language: exec_raw and exec (us, by turns), and lives (s for a hundred).

use std::time::Instant;

use serde_json::{json, Value};

const LIVES: usize = 100;
const WARM: usize = 50;

/// As anybody would write it without the crate: one client, JSON in, JSON out.
async fn raw(http: &reqwest::Client, url: &str) -> i64 {
    let request = http.post(url).header("content-type", "application/json").body(json!({"command": ["/bin/true"]}).to_string());
    let answer = request.send().await.expect("it is sent").bytes().await.expect("it is answered");
    serde_json::from_slice::<Value>(&answer).expect("it is JSON")["exitCode"].as_i64().expect("a number")
}

fn plain_client(address: &str) -> (reqwest::Client, String) {
    let builder = reqwest::Client::builder().no_proxy();
    match address.strip_prefix("unix:") {
        Some(path) => (builder.unix_socket(path).build().expect("a client"), "http://localhost".into()),
        None => (builder.build().expect("a client"), address.to_owned()),
    }
}

/// By turns, so that both meet the same noise.
async fn execs(client: &cay::Client, rounds: usize) -> cay::Result<(Vec<f64>, Vec<f64>)> {
    let sandbox = client.create("host").await?;
    let (http, base) = plain_client(&client.address());
    let url = format!("{base}/sandbox/sandboxes/{}/exec", sandbox.id());
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    for round in 0..WARM + rounds {
        let begin = Instant::now();
        assert_eq!(raw(&http, &url).await, 0);
        let between = Instant::now();
        assert_eq!(sandbox.exec(["/bin/true"]).await?.exit_code, 0);
        if round >= WARM {
            plain.push((between - begin).as_secs_f64() * 1e6);
            ours.push(between.elapsed().as_secs_f64() * 1e6);
        }
    }
    sandbox.kill().await?;
    Ok((plain, ours))
}

async fn life(client: cay::Client) -> cay::Result<()> {
    let sandbox = client.create("host").await?;
    assert_eq!(sandbox.exec(["/bin/true"]).await?.exit_code, 0);
    sandbox.kill().await
}

/// As somebody writes it who does not think about it: all at once.
async fn lives(client: &cay::Client) -> cay::Result<f64> {
    let begin = Instant::now();
    let tasks: Vec<_> = (0..LIVES).map(|_| tokio::spawn(life(client.clone()))).collect();
    for task in tasks {
        task.await.expect("it does not panic")?;
    }
    Ok(begin.elapsed().as_secs_f64())
}

#[tokio::main]
async fn main() -> cay::Result<()> {
    let mut words = std::env::args().skip(1);
    let address = words.next().expect("an address");
    let rounds = words.next().and_then(|text| text.parse().ok()).expect("a number of rounds");
    let client = cay::Client::builder().address(address).build()?;
    let (exec_raw, exec) = execs(&client, rounds).await?;
    lives(&client).await?;
    let mut hundreds = Vec::new();
    for _ in 0..5 {
        hundreds.push(lives(&client).await?);
    }
    println!("{}", json!({"exec_raw": exec_raw, "exec": exec, "lives": hundreds}));
    Ok(())
}
