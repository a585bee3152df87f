//! The frames of an attached command: a header of eight bytes (u32 length of the payload, u8 type, three zero bytes,
//! numbers with the low byte first) and the payload.

use std::io;
use std::pin::Pin;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

use crate::error::{ApiError, Error};
use crate::types::Reason;

const HEADER: usize = 8;
const PAYLOAD_MAX: usize = 256 << 10;
const PIECE: usize = 64 << 10;

const ERROR: u8 = 2;
const STARTED: u8 = 3;
const STDOUT: u8 = 4;
const STDERR: u8 = 5;
const EXIT: u8 = 6;
pub(crate) const STDIN: u8 = 10;
pub(crate) const RESIZE: u8 = 11;
pub(crate) const SIGNAL: u8 = 12;
const LOST: u8 = 14;

/// Of an error, by the number that the frame has: what the status of an answer would be.
const STATUSES: [u16; 12] = [500, 400, 401, 403, 404, 408, 409, 413, 429, 501, 503, 500];

#[derive(Debug)]
pub(crate) enum Frame {
    Started {
        pid: u32,
    },
    Stdout(Bytes),
    Stderr(Bytes),
    /// So many bytes of output are not kept any more.
    Lost(u64),
    Exit(End),
    Error(Error),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct End {
    /// 128 and the signal's number after a signal, −1 after a timeout.
    pub exit_code: i64,
    /// Why it ended.
    pub reason: Reason,
    /// While it ran the kernel killed for lack of memory.
    pub oom: bool,
    /// How long it ran.
    pub duration: Duration,
    /// There was more output than was kept.
    pub truncated: bool,
}

impl End {
    /// Did it end by itself, with 0?
    pub fn success(&self) -> bool {
        self.reason == Reason::Exit && self.exit_code == 0
    }
}

pub(crate) fn put(out: &mut BytesMut, kind: u8, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&[kind, 0, 0, 0]);
    out.extend_from_slice(payload);
}

/// Frames out of a stream of bytes.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    from: R,
    input: BytesMut,
    scratch: Box<[u8]>,
    path: String,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn new(from: R, path: String) -> Self {
        Self { from, input: BytesMut::new(), scratch: vec![0; PIECE].into(), path }
    }

    /// `None` when the connection has ended.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Frame>>> {
        loop {
            if let Some(frame) = self.take()? {
                return Poll::Ready(Ok(Some(frame)));
            }
            let mut buffer = ReadBuf::new(&mut self.scratch);
            ready!(Pin::new(&mut self.from).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Ok(None));
            }
            self.input.extend_from_slice(buffer.filled());
        }
    }

    fn take(&mut self) -> io::Result<Option<Frame>> {
        while self.input.len() >= HEADER {
            let length = u32::from_le_bytes(self.input[..4].try_into().expect("four bytes")) as usize;
            let kind = self.input[4];
            if length > PAYLOAD_MAX || self.input[5..HEADER] != [0, 0, 0] {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is broken"));
            }
            if self.input.len() < HEADER + length {
                break;
            }
            self.input.advance(HEADER);
            let payload = self.input.split_to(length).freeze();
            if let Some(frame) = read(kind, payload, &self.path)? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }
}

/// A kind that is not known yet is passed over.
fn read(kind: u8, mut payload: Bytes, path: &str) -> io::Result<Option<Frame>> {
    let least = match kind {
        STARTED => 4,
        LOST => 8,
        EXIT => 32,
        ERROR => 16,
        _ => 0,
    };
    if payload.len() < least {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too short"));
    }
    Ok(match kind {
        STARTED => Some(Frame::Started { pid: payload.get_u32_le() }),
        STDOUT => Some(Frame::Stdout(payload)),
        STDERR => Some(Frame::Stderr(payload)),
        LOST => Some(Frame::Lost(payload.get_u64_le())),
        EXIT => Some(Frame::Exit(read_end(payload))),
        ERROR => Some(Frame::Error(read_error(payload, path))),
        _ => None,
    })
}

fn read_end(mut payload: Bytes) -> End {
    let (how, code) = (payload.get_u32_le(), payload.get_u32_le());
    let duration = Duration::from_nanos(payload.get_u64_le());
    let truncated = payload.get_u64_le() > 0 || payload.get_u64_le() > 0;
    let oom = code & 1 << 17 != 0;
    let (reason, exit_code) = match how {
        0 => (Reason::Exit, i64::from(code & 0xff)),
        1 if oom => (Reason::Oom, 128 + i64::from(code & 0x7f)),
        1 => (Reason::Signal, 128 + i64::from(code & 0x7f)),
        2 => (Reason::Timeout, -1),
        3 => (Reason::Cancelled, 137),
        _ => (Reason::Lost, -1),
    };
    End { exit_code, reason, oom, duration, truncated }
}

fn read_error(mut payload: Bytes, path: &str) -> Error {
    let kind = payload.get_u32_le() as usize;
    let _errno = payload.get_u32_le();
    let mut text = || {
        let length = if payload.len() < 4 { 0 } else { payload.get_u32_le() as usize };
        String::from_utf8_lossy(&payload.split_to(length.min(payload.len()))).into_owned()
    };
    Error::Api(Box::new(ApiError {
        code: text(),
        status: STATUSES.get(kind).copied().unwrap_or(500),
        message: text(),
        method: "POST".into(),
        path: path.to_owned(),
        exec_id: None,
        retry_after: None,
        body: serde_json::Value::Null,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8]) -> io::Result<Vec<Frame>> {
        let mut reader = Reader::new(bytes, String::new());
        let mut frames = Vec::new();
        while let Some(frame) = std::future::poll_fn(|cx| reader.poll_frame(cx)).await? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[tokio::test]
    async fn frames_are_read_and_unknown_ones_passed_over() {
        let mut bytes = BytesMut::new();
        put(&mut bytes, STDOUT, b"a\xff");
        put(&mut bytes, 99, b"later");
        put(&mut bytes, STDERR, b"");
        let frames = all(&bytes).await.unwrap();
        assert!(matches!(&frames[..], [Frame::Stdout(a), Frame::Stderr(b)] if a[..] == *b"a\xff" && b.is_empty()));
    }

    #[tokio::test]
    async fn a_frame_that_claims_too_much_is_refused() {
        assert!(all(&[0xff, 0xff, 0xff, 0x7f, 4, 0, 0, 0]).await.is_err());
        assert!(all(&[1, 0, 0, 0, EXIT, 0, 0, 0, 1]).await.is_err());
    }
}
