//! Identifies who makes a request: a token, and within it a connection.
//!
//! Tokens are served in turn, and within a token its connections; the requests of one connection
//! stay in order. A connection without a token counts as a token of its own.

use std::net::SocketAddr;

/// The unit that is served in turn: a token with all its connections, a connection without a token,
/// or the process itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Party {
    Token(u64),
    Connection(Option<SocketAddr>),
}

/// A connection, with or without a token, or the process itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requester {
    /// Number of the account of the token.
    token: Option<u64>,
    address: Option<SocketAddr>,
}

impl Requester {
    /// The process itself.
    pub(crate) const PROCESS: Self = Self { token: None, address: None };

    /// A client at an address; `token` is the account number of its token, if it has one.
    pub(crate) fn new(token: Option<u64>, address: Option<SocketAddr>) -> Self {
        Self { token, address }
    }

    /// The address of its connection; `None` for the process itself.
    pub(crate) fn address(self) -> Option<SocketAddr> {
        self.address
    }

    /// The party whose turn and share its requests use.
    pub(crate) fn party(self) -> Party {
        self.token.map_or(Party::Connection(self.address), Party::Token)
    }

    /// A connection of a token.
    #[cfg(test)]
    pub(crate) fn of_token(token: u64, port: u16) -> Self {
        Self::new(Some(token), Some(SocketAddr::from(([127, 0, 0, 1], port))))
    }

    /// The client at the other end of a connection.
    #[cfg(test)]
    pub(crate) fn at(port: u16) -> Self {
        Self::new(None, Some(SocketAddr::from(([127, 0, 0, 1], port))))
    }
}
