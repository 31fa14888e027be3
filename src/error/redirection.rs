//! What a node replies to a call that another node serves.

use std::fmt;

use crate::model::slot::SLOTS;

/// Where to send a call that did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirection {
    /// Whether only this call goes there, after `ASKING`, because the slot is moving; else the whole slot is there.
    pub is_ask: bool,
    /// The slot of the call's keys.
    pub slot: u16,
    /// The node's host; empty if it is that of the node that replied.
    pub host: String,
    /// The node's port.
    pub port: u16,
}

impl Redirection {
    /// Reads the code and the text of an error reply: `MOVED 3999 127.0.0.1:6381`.
    pub fn read(code: &str, text: &str) -> Option<Self> {
        let is_ask = match code {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let mut words = text.split(' ');
        let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
        // An IPv6 address has colons, and no brackets.
        let (host, port) = words.next()?.rsplit_once(':')?;
        // `?` means an endpoint that the node does not know.
        let host = if host == "?" { "" } else { host };
        Some(Self { is_ask, slot, host: host.to_owned(), port: port.parse().ok()? })
    }
}

impl fmt::Display for Redirection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_names_a_slot_and_a_node() {
        let read = |code, text| Redirection::read(code, text).map(|it| (it.is_ask, it.slot, it.host, it.port));
        let to = |is_ask, host: &str| Some((is_ask, 3999, host.to_owned(), 6381));
        assert_eq!(read("MOVED", "3999 127.0.0.1:6381"), to(false, "127.0.0.1"));
        assert_eq!(read("ASK", "3999 ::1:6381"), to(true, "::1"));
        assert_eq!(read("MOVED", "3999 node.example:6381 more"), to(false, "node.example"));
        assert_eq!(read("MOVED", "3999 :6381"), to(false, ""));
        assert_eq!(read("MOVED", "3999 ?:6381"), to(false, ""));
        for (code, text) in
            [("MOVED", "16384 h:1"), ("MOVED", "1 h"), ("MOVED", "1 h:99999"), ("ASK", ""), ("ERR", "1 h:1")]
        {
            assert_eq!(read(code, text), None, "{code} {text}");
        }
    }
}
