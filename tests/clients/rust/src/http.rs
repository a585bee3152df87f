//! As much of HTTP as the contract needs: a connection a request, bodies by length or in chunks.

use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

pub type Res<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Debug)]
pub struct Failed {
    pub status: u16,
    text: String,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} {}", self.status, self.text)
    }
}

impl std::error::Error for Failed {}

enum Body {
    Whole(usize),
    Chunks(usize), // bytes that are left of this one
    Ended,
}

struct Answer {
    from: BufReader<TcpStream>,
    status: u16,
    body: Body,
}

impl Answer {
    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(line.trim_end().to_string())
    }
}

impl Read for Answer {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        if let Body::Chunks(0) = self.body {
            let size = self.line()?;
            let size = usize::from_str_radix(&size, 16).map_err(|_| std::io::Error::new(std::io::ErrorKind::InvalidData, "a chunk without its size"))?;
            self.body = if size == 0 { Body::Ended } else { Body::Chunks(size) };
        }
        let left = match self.body {
            Body::Whole(n) | Body::Chunks(n) => n,
            Body::Ended => 0,
        };
        let most = left.min(to.len());
        let n = if most == 0 { 0 } else { self.from.read(&mut to[..most])? };
        match &mut self.body {
            Body::Whole(left) => *left -= n,
            Body::Chunks(left) => {
                *left -= n;
                if *left == 0 && n > 0 {
                    self.line()?;
                }
            }
            Body::Ended => (),
        }
        Ok(n)
    }
}

/// Of a wait: 60 s, times CAY_TEST_SLOW.
pub fn limit() -> std::time::Duration {
    let slow = std::env::var("CAY_TEST_SLOW").ok().and_then(|factor| factor.parse().ok());
    std::time::Duration::from_secs(60).mul_f64(slow.unwrap_or(1.0))
}

/// null = without a body; the type is told all the same.
fn send(method: &str, path: &str, body: &Value, accept: &str) -> Res<Answer> {
    let base = std::env::var("CAY_URL").unwrap_or_else(|_| "http://localhost:3111".into());
    let host = base.trim_start_matches("http://");
    let mut to = TcpStream::connect(host)?;
    let body = if body.is_null() { String::new() } else { body.to_string() };

    to.set_read_timeout(Some(limit()))?;
    write!(to, "{method} /sandbox{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: {accept}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = Answer { from: BufReader::new(to), status: 0, body: Body::Ended };
    answer.status = answer.line()?.split(' ').nth(1).ok_or("no status")?.parse()?;
    loop {
        let line = answer.line()?.to_ascii_lowercase();
        if line.is_empty() {
            return Ok(answer);
        }
        if let Some(length) = line.strip_prefix("content-length: ") {
            answer.body = Body::Whole(length.parse()?);
        } else if line == "transfer-encoding: chunked" {
            answer.body = Body::Chunks(0);
        }
    }
}

fn checked(mut answer: Answer, method: &str, path: &str) -> Res<Answer> {
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    let mut text = String::new();
    answer.read_to_string(&mut text)?;
    Err(Box::new(Failed { status: answer.status, text: format!("{method} {path}: {text}") }))
}

fn call<T: DeserializeOwned>(method: &str, path: &str, body: &Value) -> Res<T> {
    let mut text = String::new();
    checked(send(method, path, body, "*/*")?, method, path)?.read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(|e| format!("{method} {path}: {e}: {text}").into())
}

pub fn get<T: DeserializeOwned>(path: &str) -> Res<T> {
    call("GET", path, &Value::Null)
}

pub fn post<T: DeserializeOwned>(path: &str, body: Value) -> Res<T> {
    call("POST", path, &body)
}

pub fn del<T: DeserializeOwned>(path: &str) -> Res<T> {
    call("DELETE", path, &Value::Null)
}

/// Each event, until there are no more or one says that it is enough.
pub fn stream<T: DeserializeOwned>(method: &str, path: &str, body: Value, mut each: impl FnMut(T) -> bool) -> Res<()> {
    let answer = checked(send(method, path, &body, "text/event-stream")?, method, path)?;
    for line in BufReader::new(answer).lines() {
        let line = line?;
        if let Some(text) = line.strip_prefix("data: ") {
            if !each(serde_json::from_str(text)?) {
                break;
            }
        }
    }
    Ok(())
}
