use std::time::Duration;

#[tokio::main]
async fn main() -> cay::Result<()> {
    let client = cay::Client::new()?;
    let sandbox = client.create("host").name("demo").memory(256).timeout(Duration::from_secs(600)).await?;

    let output = sandbox.exec("echo hello from $HOSTNAME").env("HOSTNAME", "a sandbox").await?;
    print!("{}", output.stdout());

    sandbox.filesystem().write("notes.txt", "three\nlines\nhere\n").await?;
    let output = sandbox.exec(["wc", "-l", "notes.txt"]).await?;
    println!("{} with exit code {}", output.stdout().trim(), output.exit_code);

    let mut events = sandbox.exec("for i in 1 2 3; do echo $i; done").stream().await?;
    while let Some(event) = events.next().await {
        match event? {
            cay::ExecEvent::Stdout(bytes) => print!("{}", String::from_utf8_lossy(&bytes)),
            cay::ExecEvent::Exited(end) => println!("ended: {}", end.reason),
            _ => {}
        }
    }

    match sandbox.exec("sleep 60").timeout(Duration::from_millis(200)).await {
        Err(error) if error.code() == Some("command_timeout") => println!("too slow"),
        other => println!("{other:?}"),
    }
    sandbox.kill().await
}
