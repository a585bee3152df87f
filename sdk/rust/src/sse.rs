//! Server-sent events.

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{ready, Context, Poll};

use futures_core::Stream;
use serde::de::DeserializeOwned;

use crate::call::ByteStream;
use crate::error::{Error, Result};

/// No event is longer; a stream that says so is none of a daemon's.
const EVENT_MAX: usize = 64 << 20;

/// What happens, as it happens. Dropping it ends the request, and with it what that request does, unless it was told to
/// go on.
///
/// [`next`](Self::next) gives one after the other; it is a [`Stream`] too.
#[derive(Debug)]
pub struct EventStream<T> {
    bytes: ByteStream,
    parser: Parser,
    has_ended: bool,
    item: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> EventStream<T> {
    pub(crate) fn new(bytes: ByteStream) -> Self {
        Self { bytes, parser: Parser::default(), has_ended: false, item: PhantomData }
    }

    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<T>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// The `id` of the last event that had one, by which `lastEventId` goes on.
    pub fn last_event_id(&self) -> Option<&str> {
        self.parser.last_id.as_deref()
    }

    fn read(&self, data: &str) -> Result<T> {
        serde_json::from_str(data)
            .map_err(|error| Error::Protocol(format!("{}: an event is not what was expected: {error}", self.bytes.path)))
    }
}

impl<T: DeserializeOwned> Stream for EventStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(data) = self.parser.take() {
                return Poll::Ready(Some(self.read(&data)));
            }
            if self.has_ended {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut self.bytes).poll_next(cx)) {
                Some(Ok(piece)) if self.parser.add(&piece) => {}
                Some(Ok(_)) => {
                    self.has_ended = true;
                    return Poll::Ready(Some(Err(Error::Protocol(format!("{}: an event is too long", self.bytes.path)))));
                }
                Some(Err(error)) => {
                    self.has_ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => self.has_ended = true,
            }
        }
    }
}

/// Lines into events. What is not `data` or `id` is passed over.
#[derive(Debug, Default)]
struct Parser {
    buffer: Vec<u8>,
    /// So much of the buffer has been read.
    at: usize,
    /// So much of it has no end of a line in it.
    seen: usize,
    data: Option<String>,
    last_id: Option<String>,
}

impl Parser {
    fn add(&mut self, piece: &[u8]) -> bool {
        self.buffer.drain(..self.at);
        self.seen -= self.at;
        self.at = 0;
        self.buffer.extend_from_slice(piece);
        self.buffer.len() <= EVENT_MAX && self.data.as_ref().map_or(0, String::len) <= EVENT_MAX
    }

    fn take(&mut self) -> Option<String> {
        while let Some(n) = self.buffer[self.seen..].iter().position(|byte| *byte == b'\n') {
            let end = self.seen + n;
            let line = String::from_utf8_lossy(&self.buffer[self.at..end]).into_owned();
            self.at = end + 1;
            self.seen = self.at;
            let line = line.trim_end_matches('\r');
            if line.is_empty() {
                if let Some(data) = self.data.take() {
                    return Some(data);
                }
            }
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match (name, &mut self.data) {
                ("data", Some(data)) => {
                    data.push('\n');
                    data.push_str(value);
                }
                ("data", none) => *none = Some(value.to_owned()),
                ("id", _) => self.last_id = Some(value.to_owned()),
                _ => {}
            }
        }
        self.seen = self.buffer.len();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Parser;

    #[test]
    fn events_are_whole_wherever_they_are_cut() {
        let text = b": hello\n\nid: 7\r\ndata: {\"a\":\r\ndata:  1}\r\n\r\nevent: x\ndata:2\n\n";
        for cut in 0..text.len() {
            let mut parser = Parser::default();
            let mut events = Vec::new();
            for piece in [&text[..cut], &text[cut..]] {
                assert!(parser.add(piece));
                events.extend(std::iter::from_fn(|| parser.take()));
            }
            assert_eq!(events, ["{\"a\":\n 1}", "2"]);
            assert_eq!(parser.last_id.as_deref(), Some("7"));
        }
    }
}
