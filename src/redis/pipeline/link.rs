//! What calls go through: the connection to a server, or in tests one that fails at will.

use std::sync::Arc;

use redis::Value;

use crate::error::StoreError;
use crate::redis::cluster::server::Server;
use crate::redis::system::System;

/// A connection to one server, made when it is needed. Tests have one that fails at will.
pub(crate) trait Link {
    /// Writes packed commands.
    ///
    /// # Errors
    /// The server cannot be reached, refuses the login, or the connection broke.
    fn send(&mut self, packed: &[u8]) -> Result<(), StoreError>;

    /// Reads the next reply; an error reply is a value too.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn receive(&mut self) -> Result<Value, StoreError>;

    /// Closes the connection: replies that are still to come are lost.
    fn disconnect(&mut self);

    /// The server's URL without its password, for messages.
    fn server(&self) -> &str;

    /// Whether another connection may be to another server: sentinels name it.
    fn may_move(&self) -> bool;

    /// The machine that it is on.
    fn system(&self) -> Arc<dyn System>;
}

impl Link for Server {
    fn send(&mut self, packed: &[u8]) -> Result<(), StoreError> {
        self.write(packed)
    }

    fn receive(&mut self) -> Result<Value, StoreError> {
        self.read()
    }

    fn disconnect(&mut self) {
        Self::disconnect(self);
    }

    fn server(&self) -> &str {
        &self.target.shown
    }

    fn may_move(&self) -> bool {
        self.target.primary_name().is_some()
    }

    fn system(&self) -> Arc<dyn System> {
        Arc::clone(self.target.system())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::redis::connect::Target;

    #[test]
    fn a_link_is_named_without_its_password_and_moves_only_with_sentinels() {
        let link = |url: &str| Server::new(Target::new(url, "a test", Duration::from_secs(1)).unwrap());
        let alone = link("redis://:secret@127.0.0.1:7000/2");
        assert!(Link::server(&alone).contains("127.0.0.1:7000") && !Link::server(&alone).contains("secret"));
        assert!(!alone.may_move());
        assert!(link("redis+sentinel://127.0.0.1:26379/sale").may_move());
    }
}
