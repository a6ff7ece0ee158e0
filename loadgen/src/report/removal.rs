//! How are objects removed so that the oracle knows the order?
//!
//! Removal is a call of its own, not part of a stream. The connection lets its reports drain,
//! removes, waits for the response, and goes on: so every earlier report lies in an earlier epoch
//! and every later one in a later epoch.

use std::sync::Arc;
use std::time::Duration;

use shoal_proto::v1::RemoveRequest;
use shoal_proto::v1::position_service_client::PositionServiceClient;
use tonic::Code;
use tonic::transport::Channel;

use super::in_flight::InFlight;
use crate::error::LoadError;
use crate::limits::REMOVALS_MAX;
use crate::session::Session;
use crate::verify::Removed;

/// Waiting time after a full queue.
const RETRY: Duration = Duration::from_millis(2);

/// Removes objects on behalf of one connection.
#[derive(Debug)]
pub struct Remover {
    session: Arc<Session>,
    connection: u32,
    client: PositionServiceClient<Channel>,
    /// Objects removed so far.
    pub removed: u64,
}

impl Remover {
    /// A remover that calls through the connection's own channel.
    #[must_use]
    pub fn new(session: Arc<Session>, connection: u32, channel: Channel) -> Self {
        let client = PositionServiceClient::new(channel);
        Self { session, connection, client, removed: 0 }
    }

    /// Removes objects between two reports.
    ///
    /// # Errors
    /// [`LoadError::Call`]; a full queue is waited for.
    pub async fn remove(&mut self, objects: &[u64], in_flight: &InFlight) -> Result<(), LoadError> {
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
        let request = RemoveRequest {
            fleet: self.session.fleet.clone(),
            objects: objects.to_vec(),
            ..RemoveRequest::default()
        };
        let response = loop {
            match self.client.remove(request.clone()).await {
                Ok(response) => break response.into_inner(),
                Err(status) if status.code() == Code::ResourceExhausted => {
                    tokio::time::sleep(RETRY).await;
                }
                Err(status) => return Err(LoadError::call("Remove")(status)),
            }
        };
        self.session.counters.arrivals.add(1);
        self.removed += response.removed_count;
        if let Some(verifier) = &self.session.verifier {
            let removed = Removed { objects: request.objects, response };
            verifier.ledger.removed(self.connection, removed);
        }
        Ok(())
    }
}
