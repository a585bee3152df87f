//! Terminals: shells that go on, whoever looks at them.

use bytes::Bytes;

use crate::error::{ApiError, Error, Result};
use crate::sandbox::Sandbox;
use crate::types::{Terminal, TerminalAttachQuery, TerminalCreateRequest, TerminalExit, TerminalResizeRequest, TerminalSize};
use crate::websocket::{Message, WebSocket};

/// The terminals of a sandbox; [`Sandbox::terminal`] gives it.
#[derive(Debug, Clone, Copy)]
pub struct TerminalManager<'a> {
    pub(crate) sandbox: &'a Sandbox,
}

impl TerminalManager<'_> {
    /// Starts a shell on one.
    pub async fn create(&self, options: TerminalCreateRequest) -> Result<Terminal> {
        self.sandbox.client().api().terminal_create(self.sandbox.id(), &options).await
    }

    /// Those that run, and the last that ended.
    pub async fn list(&self) -> Result<Vec<Terminal>> {
        Ok(self.sandbox.client().api().terminal_list(self.sandbox.id()).await?.sessions)
    }

    /// Another size.
    pub async fn resize(&self, session_id: &str, cols: u16, rows: u16) -> Result<TerminalSize> {
        let request = TerminalResizeRequest { cols, rows, ..Default::default() };
        self.sandbox.client().api().terminal_resize(self.sandbox.id(), session_id, &request).await
    }

    /// Ends the shell, and all that it started.
    pub async fn close(&self, session_id: &str) -> Result<()> {
        self.sandbox.client().api().terminal_close(self.sandbox.id(), session_id).await.map(drop)
    }

    /// Its bytes, both ways, from the first that is kept. Leaving it does not end it.
    pub async fn connect(&self, session_id: &str) -> Result<TerminalSession> {
        self.connect_with(session_id, &TerminalAttachQuery::default()).await
    }

    /// As [`connect`](Self::connect): from another byte, or only looking on.
    pub async fn connect_with(&self, session_id: &str, options: &TerminalAttachQuery) -> Result<TerminalSession> {
        let socket = self.sandbox.client().api().terminal_attach(self.sandbox.id(), session_id, options).await?;
        Ok(TerminalSession { socket, cursor: 0, exit: None })
    }
}

/// Somebody at a terminal.
#[derive(Debug)]
pub struct TerminalSession {
    socket: WebSocket,
    cursor: u64,
    exit: Option<TerminalExit>,
}

impl TerminalSession {
    /// What is shown next; `None` once the shell has ended. It can be dropped and called again: nothing is lost.
    pub async fn read(&mut self) -> Result<Option<Bytes>> {
        while let Some(message) = self.socket.next().await {
            match message? {
                Message::Binary(bytes) => {
                    self.cursor += bytes.len() as u64;
                    return Ok(Some(bytes));
                }
                Message::Text(text) => self.told(&text)?,
                Message::Close(1000, _) => return Ok(None),
                Message::Close(code, why) => {
                    let why = std::io::Error::new(std::io::ErrorKind::ConnectionAborted, format!("{why} ({code})"));
                    return Err(Error::lost("GET", "the terminal", why));
                }
            }
        }
        Ok(None)
    }

    fn told(&mut self, text: &str) -> Result<()> {
        let said: serde_json::Value = serde_json::from_str(text).map_err(|error| Error::Protocol(error.to_string()))?;
        let word = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        match said["type"].as_str() {
            Some("ready" | "lost") => self.cursor = said["cursor"].as_u64().unwrap_or(self.cursor),
            Some("exit") => self.exit = serde_json::from_value(said).ok(),
            Some("error") => {
                return Err(Error::Api(Box::new(ApiError {
                    code: word("code"),
                    status: 0,
                    message: word("error"),
                    method: "GET".into(),
                    path: "the terminal".into(),
                    exec_id: None,
                    retry_after: None,
                    body: said,
                })))
            }
            _ => {}
        }
        Ok(())
    }

    /// Types.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.socket.send(bytes.as_ref()).await
    }

    /// Another size.
    pub async fn resize(&mut self, cols: u16, rows: u16) -> Result<()> {
        self.socket.send_text(&format!("{{\"resize\":{{\"cols\":{cols},\"rows\":{rows}}}}}")).await
    }

    /// A signal, as `SIGINT`, to all processes of the session.
    pub async fn signal(&mut self, name: &str) -> Result<()> {
        self.socket.send_text(&serde_json::json!({ "signal": name }).to_string()).await
    }

    /// The number of the next byte, by which another connection goes on.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// How the shell ended, once [`read`](Self::read) has said that it did.
    pub fn exit(&self) -> Option<&TerminalExit> {
        self.exit.as_ref()
    }
}
