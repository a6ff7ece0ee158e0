//! Removes objects in a deterministic order for the oracle.
//!
//! The connection drains its reports, removes, and waits for the response: earlier reports belong
//! to earlier epochs and later reports to later epochs.

use std::sync::Arc;

use shoal_client::Client;

use super::sender::SentReport;
use crate::InFlight;
use crate::error::{LoadError, retry_while_busy};
use crate::limits::REMOVALS_MAX;
use crate::names::name_of;
use crate::session::Session;
use crate::verify::Removed;

/// Removes objects on behalf of one connection.
#[derive(Debug)]
pub struct Remover {
    session: Arc<Session>,
    connection: u32,
    client: Client,
    /// Objects removed so far.
    pub removed: u64,
}

impl Remover {
    /// A remover that uses the connection of the reports.
    #[must_use]
    pub fn new(session: Arc<Session>, connection: u32, client: Client) -> Self {
        Self { session, connection, client, removed: 0 }
    }

    /// Removes objects between two reports.
    ///
    /// # Errors
    /// [`LoadError::Call`]. Waits while the server is busy.
    pub async fn remove(
        &mut self,
        objects: &[u64],
        in_flight: &InFlight<SentReport>,
    ) -> Result<(), LoadError> {
        in_flight.drained().await;
        for objects in objects.chunks(REMOVALS_MAX) {
            self.remove_some(objects).await?;
        }
        Ok(())
    }

    async fn remove_some(&mut self, objects: &[u64]) -> Result<(), LoadError> {
        if let Some(verifier) = &self.session.verifier {
            verifier.ledger.change_sent(self.connection);
        }
        let fleet = &self.session.fleet;
        let response = match &self.session.names {
            Some(_) => {
                let names: Vec<String> = objects.iter().map(|object| name_of(*object)).collect();
                retry_while_busy(|| self.client.remove_named(fleet, &names)).await
            }
            None => retry_while_busy(|| self.client.remove(fleet, objects)).await,
        };
        let response = response.map_err(LoadError::call("Remove"))?;
        self.session.counters.arrivals.add(1);
        self.removed += response.removed_count;
        if let Some(verifier) = &self.session.verifier {
            let removed = Removed { objects: objects.to_vec(), response };
            verifier.ledger.removed(self.connection, removed);
        }
        Ok(())
    }
}
