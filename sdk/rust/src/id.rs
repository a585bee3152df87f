//! Names that a client gives to what it asks for, so that it can ask again.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// So many random hex digits. The first `RandomState` of a thread is seeded by the system with 128 bits, and the others
/// differ from it: enough for names that only have to differ, and for nothing that has to stay secret.
fn digits(count: usize) -> String {
    let mut text = String::with_capacity(count + 16);
    while text.len() < count {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_usize(text.len());
        text.push_str(&format!("{:016x}", hasher.finish()));
    }
    text.truncate(count);
    text
}

/// Of a command, as the daemon wants it.
pub(crate) fn exec_id() -> String {
    format!("ex_{}", digits(24))
}

/// For `Idempotency-Key`.
pub(crate) fn key() -> String {
    digits(32)
}

/// Sixteen bytes, for the handshake of a WebSocket and the masks of its frames.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    for chunk in bytes.chunks_mut(8) {
        let random = RandomState::new().build_hasher().finish().to_le_bytes();
        chunk.copy_from_slice(&random[..chunk.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thousand_ids_differ_and_look_as_the_daemon_wants_them() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| super::exec_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 27 && id[3..].bytes().all(|b| b.is_ascii_hexdigit())));
    }
}
