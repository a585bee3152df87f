//! What can go wrong.

use std::fmt;
use std::time::Duration;

/// The result of every call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// The daemon's own refusals are [`Error::Api`]; [`Error::code`] is their stable word, the same in every client.
///
/// ```no_run
/// # async fn f() -> cay::Result<()> {
/// let client = cay::Client::new()?;
/// match client.get("demo").await {
///     Ok(sandbox) => println!("{}", sandbox.id()),
///     Err(error) if error.code() == Some("sandbox_not_found") => println!("not there yet"),
///     Err(error) => return Err(error),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The daemon answered, and said no.
    Api(Box<ApiError>),
    /// Nobody could be reached at the address: the request was not sent.
    Connect {
        /// Where a daemon was looked for.
        address: String,
        /// What the system says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection ended before the answer was whole. What was asked for may or may not have been done.
    Lost {
        /// Of the request.
        method: String,
        /// Of the request.
        path: String,
        /// Of the command that the request was about: it can be come back to by this id.
        exec_id: Option<String>,
        /// What the system says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The client's own deadline for the call is over.
    Timeout {
        /// Of the request.
        method: String,
        /// Of the request.
        path: String,
    },
    /// The answer cannot be understood: is it of a cay daemon, and of which version?
    Protocol(String),
    /// What the caller gave cannot be used, such as an address that is none.
    Invalid(String),
    /// A file or stream of the caller's own failed.
    Io(std::io::Error),
}

/// What the daemon said when it refused a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ApiError {
    /// A stable word for programs, as `sandbox_not_found`; docs/api.md lists them. Empty when the answer had none.
    pub code: String,
    /// Of HTTP.
    pub status: u16,
    /// What was wrong and what to do, for people.
    pub message: String,
    /// Of the request.
    pub method: String,
    /// Of the request.
    pub path: String,
    /// Of the command that it is about.
    pub exec_id: Option<String>,
    /// After so long it can be tried again.
    pub retry_after: Option<Duration>,
    /// All that was said. Of `command_timeout` it has `stdout` and `stderr`.
    pub body: serde_json::Value,
}

impl ApiError {
    /// A text among what was said, such as `stdout` of `command_timeout`.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.body.get(key)?.as_str()
    }
}

impl Error {
    /// The daemon's word for it; `None` when it was not the daemon that refused.
    pub fn code(&self) -> Option<&str> {
        self.api().map(|api| api.code.as_str())
    }

    /// The status of HTTP; `None` when there was no answer.
    pub fn status(&self) -> Option<u16> {
        self.api().map(|api| api.status)
    }

    /// What the daemon said, if it was the daemon.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(api) => Some(api),
            _ => None,
        }
    }

    /// Of the command that it is about: by this id it can be come back to.
    pub fn exec_id(&self) -> Option<&str> {
        match self {
            Self::Api(api) => api.exec_id.as_deref(),
            Self::Lost { exec_id, .. } => exec_id.as_deref(),
            _ => None,
        }
    }

    /// Is what was asked for not there?
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Was a time over, that of the command or that of the client?
    pub fn is_timeout(&self) -> bool {
        self.status() == Some(408) || matches!(self, Self::Timeout { .. })
    }

    /// Had the daemon no chance to do anything, or can it not be known whether it did?
    pub(crate) fn is_away(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Lost { .. })
    }

    pub(crate) fn lost(method: &str, path: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Lost { method: method.to_owned(), path: path.to_owned(), exec_id: None, source: source.into() }
    }

    /// Names the command that a lost connection was about.
    pub(crate) fn of_exec(mut self, id: &str) -> Self {
        match &mut self {
            Self::Lost { exec_id, .. } => *exec_id = Some(id.to_owned()),
            Self::Api(api) => api.exec_id = api.exec_id.take().or_else(|| Some(id.to_owned())),
            _ => {}
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(api) => {
                let hint = match api.code.as_str() {
                    "unauthorized" | "invalid_token" => ": give the daemon's token, to the builder or in CAY_TOKEN",
                    _ => "",
                };
                write!(f, "{} {}: {}{hint} ({}, {})", api.method, api.path, api.message, api.status, api.code)
            }
            Self::Connect { address, source } => {
                let why = root(source.as_ref());
                write!(f, "no daemon answers at {address} ({why}): start one with `cay serve`")
            }
            Self::Lost { method, path, exec_id: None, source } => {
                write!(f, "{method} {path}: the connection ended: {}", root(source.as_ref()))
            }
            Self::Lost { exec_id: Some(id), source, .. } => {
                write!(f, "the connection ended, the command {id} may go on: {}", root(source.as_ref()))
            }
            Self::Timeout { method, path } => write!(f, "{method} {path}: no answer in time"),
            Self::Protocol(text) | Self::Invalid(text) => f.write_str(text),
            Self::Io(error) => error.fmt(f),
        }
    }
}

/// The innermost cause says most: "Connection refused" instead of "error sending request".
fn root<'a>(mut error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect { source, .. } | Self::Lost { source, .. } => Some(source.as_ref()),
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_to_do() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let nobody = Error::Connect { address: "unix:/none".into(), source: refused.into() };
        assert_eq!(nobody.to_string(), "no daemon answers at unix:/none (connection refused): start one with `cay serve`");
        let stranger = Error::Api(Box::new(ApiError {
            code: "unauthorized".into(),
            status: 401,
            message: "no".into(),
            method: "GET".into(),
            path: "/x".into(),
            exec_id: None,
            retry_after: None,
            body: serde_json::Value::Null,
        }));
        assert!(stranger.to_string().contains("CAY_TOKEN"));
    }
}
