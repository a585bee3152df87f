//! Where the daemon is, found as the `cay` command finds it.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    /// Without a slash at the end.
    Http(String),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Http(url) => f.write_str(url),
        }
    }
}

fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
}

/// `CAY_TOKEN`, `CAY_AUTH_TOKEN` and the names that others gave it.
pub(crate) fn token() -> Option<String> {
    variable(&["CAY_TOKEN", "CAY_AUTH_TOKEN", "III_SANDBOX_TOKEN", "III_AUTH_TOKEN"])
}

/// The one that was given, else `CAY_HOST` or `CAY_URL`, else the socket if somebody listens there, else this machine.
pub(crate) fn find(given: Option<&str>) -> Result<Address> {
    if let Some(text) = given.map(str::to_owned).or_else(|| variable(&["CAY_HOST", "CAY_URL", "III_SANDBOX_URL"])) {
        return parse(&text);
    }
    let socket = Path::new(&variable(&["CAY_RUN"]).unwrap_or_else(|| "/run/cay".into())).join("cay.sock");
    if somebody_listens(&socket) {
        return Ok(Address::Unix(socket));
    }
    let port = variable(&["CAY_REST_PORT"]).unwrap_or_else(|| "3111".into());
    match port.parse::<u16>() {
        // A free one, of a daemon that is at the socket too.
        Ok(0) => Ok(Address::Unix(socket)),
        Ok(port) => Ok(Address::Http(format!("http://127.0.0.1:{port}"))),
        Err(_) => Err(Error::Invalid(format!("CAY_REST_PORT is \"{port}\", not a port number"))),
    }
}

#[cfg(unix)]
fn somebody_listens(socket: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}

#[cfg(not(unix))]
fn somebody_listens(_: &Path) -> bool {
    false
}

/// `unix:/path`, `/path`, `http://host:port/` or `host:port`.
pub(crate) fn parse(text: &str) -> Result<Address> {
    let path = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")).unwrap_or(text);
    if path.starts_with('/') {
        return Ok(Address::Unix(path.into()));
    }
    let has_tls = text.starts_with("https://");
    if has_tls && !cfg!(any(feature = "rustls", feature = "native-tls")) {
        return Err(Error::Invalid(format!("{text}: https needs the feature `rustls` or `native-tls` of the crate cay")));
    }
    let rest = text.strip_prefix(if has_tls { "https://" } else { "http://" });
    let host = rest.unwrap_or(text).trim_end_matches('/');
    if host.is_empty() || host.contains(['?', '#', '@', ' ']) || (rest.is_none() && host.contains('/')) {
        return Err(Error::Invalid(format!("\"{text}\" is no address of a daemon: use unix:/path or http://host:port")));
    }
    let scheme = if has_tls { "https" } else { "http" };
    let port = if rest.is_none() && !host.contains(':') { ":3111" } else { "" };
    Ok(Address::Http(format!("{scheme}://{host}{port}")))
}

#[cfg(test)]
mod tests {
    use super::{parse, Address};

    #[test]
    fn addresses_are_read_as_the_command_reads_them() {
        let http = |url: &str| Address::Http(url.into());
        assert_eq!(parse("unix:/run/cay/cay.sock").unwrap(), Address::Unix("/run/cay/cay.sock".into()));
        assert_eq!(parse("/tmp/x.sock").unwrap(), Address::Unix("/tmp/x.sock".into()));
        assert_eq!(parse("box").unwrap(), http("http://box:3111"));
        assert_eq!(parse("box:80").unwrap(), http("http://box:80"));
        assert_eq!(parse("http://box:3111/").unwrap(), http("http://box:3111"));
        for bad in ["", "http://", "a b", "x@y", "box/path"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
