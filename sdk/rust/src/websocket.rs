//! The client's side of a WebSocket, as much of RFC 6455 as a daemon without extensions needs.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::call::Upgraded;
use crate::error::{Error, Result};
use crate::id;

/// Longer messages are none of a daemon's.
const MESSAGE_MAX: u64 = 16 << 20;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// What comes over a [`WebSocket`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A text, mostly JSON.
    Text(String),
    /// Bytes.
    Binary(Bytes),
    /// The last one: a number and why.
    Close(u16, String),
}

/// Messages both ways. Dropping it closes the connection.
pub struct WebSocket {
    stream: Upgraded,
    path: String,
    input: BytesMut,
    /// Pieces of a message that is not whole yet, and of which kind it is.
    message: Option<(u8, BytesMut)>,
    /// Written before anything else; a write that was dropped half-way goes on here.
    output: BytesMut,
    is_closed: bool,
}

impl WebSocket {
    pub(crate) fn new(stream: Upgraded, path: String) -> Self {
        Self { stream, path, input: BytesMut::new(), message: None, output: BytesMut::new(), is_closed: false }
    }

    pub(crate) fn key() -> String {
        base64(&id::bytes::<16>())
    }

    /// What a server makes of the key.
    pub(crate) fn accept(key: &str) -> String {
        base64(&sha1(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes()))
    }

    /// The next message; `None` once it is closed. It can be dropped and called again: nothing is lost.
    pub async fn next(&mut self) -> Option<Result<Message>> {
        match self.receive().await {
            Ok(message) => message.map(Ok),
            Err(error) => {
                self.is_closed = true;
                Some(Err(error))
            }
        }
    }

    async fn receive(&mut self) -> Result<Option<Message>> {
        while !self.is_closed {
            self.flush().await?;
            if let Some((kind, is_last, payload)) = self.take_frame()? {
                if let Some(message) = self.take_message(kind, is_last, payload)? {
                    self.flush().await?;
                    return Ok(Some(message));
                }
                continue;
            }
            if self.stream.read_buf(&mut self.input).await.map_err(|error| self.lost(error))? == 0 {
                return Err(self.lost(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(None)
    }

    fn take_message(&mut self, kind: u8, is_last: bool, payload: BytesMut) -> Result<Option<Message>> {
        match kind {
            PING => self.put(PONG, &payload),
            PONG => {}
            CLOSE => {
                self.is_closed = true;
                self.put(CLOSE, &payload[..payload.len().min(2)]);
                let code = if payload.len() >= 2 { u16::from_be_bytes([payload[0], payload[1]]) } else { 1005 };
                let why = String::from_utf8_lossy(payload.get(2..).unwrap_or_default()).into_owned();
                return Ok(Some(Message::Close(code, why)));
            }
            _ => {
                let (kind, mut whole) = self.message.take().unwrap_or((kind, BytesMut::new()));
                whole.unsplit(payload);
                if whole.len() as u64 > MESSAGE_MAX {
                    return Err(self.broken("a message is too long"));
                }
                if !is_last {
                    self.message = Some((kind, whole));
                } else if kind == TEXT {
                    let text = String::from_utf8(whole.to_vec()).map_err(|_| self.broken("a text is no UTF-8"))?;
                    return Ok(Some(Message::Text(text)));
                } else {
                    return Ok(Some(Message::Binary(whole.freeze())));
                }
            }
        }
        Ok(None)
    }

    fn take_frame(&mut self) -> Result<Option<(u8, bool, BytesMut)>> {
        let Some(&[first, second]) = self.input.get(..2) else { return Ok(None) };
        let (length, head) = match second & 0x7f {
            126 => match self.input.get(2..4) {
                Some(bytes) => (u64::from(u16::from_be_bytes(bytes.try_into().expect("two bytes"))), 4),
                None => return Ok(None),
            },
            127 => match self.input.get(2..10) {
                Some(bytes) => (u64::from_be_bytes(bytes.try_into().expect("eight bytes")), 10),
                None => return Ok(None),
            },
            short => (u64::from(short), 2),
        };
        if second & 0x80 != 0 || first & 0x70 != 0 {
            return Err(self.broken("a frame is not a server's"));
        }
        if length > MESSAGE_MAX {
            return Err(self.broken("a frame is too long"));
        }
        if self.input.len() < head + length as usize {
            return Ok(None);
        }
        self.input.advance(head);
        Ok(Some((first & 0x0f, first & 0x80 != 0, self.input.split_to(length as usize))))
    }

    /// Sends bytes.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.put(BINARY, bytes);
        self.flush().await
    }

    /// Sends a text.
    pub async fn send_text(&mut self, text: &str) -> Result<()> {
        self.put(TEXT, text.as_bytes());
        self.flush().await
    }

    /// Says that nothing more will come.
    pub async fn close(mut self) -> Result<()> {
        self.put(CLOSE, &1000u16.to_be_bytes());
        self.flush().await?;
        self.stream.shutdown().await.map_err(|error| self.lost(error))
    }

    fn put(&mut self, kind: u8, payload: &[u8]) {
        self.output.extend_from_slice(&[0x80 | kind]);
        match payload.len() {
            length @ 0..=125 => self.output.extend_from_slice(&[0x80 | length as u8]),
            length @ 126..=0xffff => {
                self.output.extend_from_slice(&[0x80 | 126]);
                self.output.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                self.output.extend_from_slice(&[0x80 | 127]);
                self.output.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        let mask = id::bytes::<4>();
        self.output.extend_from_slice(&mask);
        self.output.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    }

    async fn flush(&mut self) -> Result<()> {
        while !self.output.is_empty() {
            if let Err(error) = self.stream.write_buf(&mut self.output).await {
                return Err(self.lost(error));
            }
        }
        self.stream.flush().await.map_err(|error| self.lost(error))
    }

    fn lost(&self, error: std::io::Error) -> Error {
        Error::lost("GET", &self.path, error)
    }

    fn broken(&self, what: &str) -> Error {
        Error::Protocol(format!("{}: {what}", self.path))
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket").field("path", &self.path).finish_non_exhaustive()
    }
}

/// With padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for piece in bytes.chunks(3) {
        let word = piece.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - piece.len()));
        for i in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= piece.len() { letter as char } else { '=' });
        }
    }
    text
}

/// The handshake of WebSockets asks for it; nothing is secured by it.
fn sha1(data: &[u8]) -> [u8; 20] {
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let mut padded = data.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).div_ceil(64) * 64 - 8, 0);
    padded.extend_from_slice(&(data.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        let mut words = [0u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes(bytes.try_into().expect("four bytes"));
        }
        for i in 16..80 {
            words[i] = (words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (i, word) in words.iter().enumerate() {
            let (f, k) = match i / 20 {
                0 => ((b & c) | (!b & d), 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6u32),
            };
            let next = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(*word);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut digest = [0; 20];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_handshake_is_that_of_the_standard() {
        assert_eq!(super::WebSocket::accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(super::base64(b"a"), "YQ==");
        assert_eq!(super::base64(b""), "");
    }
}
