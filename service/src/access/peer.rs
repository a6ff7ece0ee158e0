//! The connection on which a call arrived. Listeners store it as an extension of the request.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::account::{Account, Counted, CountedQuota};
use crate::error::ServiceError;
use crate::limits::CONNECTION_TOKENS_MAX;

/// See the file's head. Clones are of the same connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    address: Option<SocketAddr>,
    /// For each account that has used this connection, its number and its count in the quota of
    /// connections.
    tokens: Arc<Mutex<Vec<(u64, Counted)>>>,
}

impl Peer {
    /// A connection from the peer at an address. All calls of the connection use clones of it.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address: Some(address), tokens: Arc::default() }
    }

    /// The address of the other end; `None` within the process.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Counts the connection against the quota of an account until the connection ends. Repeated
    /// calls count it once.
    ///
    /// # Errors
    /// [`ServiceError::Quota`]; [`ServiceError::Limit`] for too many tokens.
    pub(super) fn count_for(&self, account: &Arc<Account>) -> Result<(), ServiceError> {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.iter().any(|(id, _)| *id == account.id()) {
            return Ok(());
        }
        if tokens.len() >= CONNECTION_TOKENS_MAX {
            return Err(ServiceError::Limit {
                what: "the number of tokens of a connection",
                value: tokens.len() as u64 + 1,
                limit: CONNECTION_TOKENS_MAX as u64,
            });
        }
        let counted = account.hold(CountedQuota::Connections, 1)?;
        tokens.push((account.id(), counted));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Quotas;
    use crate::access::account::Accounts;

    #[test]
    fn a_connection_counts_once_for_each_token() {
        let accounts = Accounts::default();
        let quotas = Quotas { connections: Some(1), ..Quotas::default() };
        let account = accounts.get("a", quotas);
        let peer = |port| Peer::new(SocketAddr::from(([127, 0, 0, 1], port)));
        let (one, other) = (peer(1), peer(2));
        one.count_for(&account).unwrap();
        one.count_for(&account).unwrap();
        assert!(matches!(other.count_for(&account), Err(ServiceError::Quota { .. })));
        drop(one);
        other.count_for(&account).unwrap();
        for name in 1..CONNECTION_TOKENS_MAX {
            other.count_for(&accounts.get(&name.to_string(), quotas)).unwrap();
        }
        let one_more = accounts.get("more", quotas);
        assert!(matches!(other.count_for(&one_more), Err(ServiceError::Limit { .. })));
    }
}
