//! How does a session's stream open, break off and go on?
//!
//! The first message must say that the session is open. A stream that is broken off on purpose is
//! opened again with the token of the last message that was applied; anything else that ends it is
//! the server's fault.

use bytes::Bytes;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_proto::v1::subscription_service_client::SubscriptionServiceClient;
use shoal_proto::v1::{
    ModifyRequest, ModifyResponse, RegionSubscription, SessionOpened, SubscribeRequest,
    SubscribeResponse,
};
use tokio::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Streaming};
use tonic_types::StatusExt as _;

use crate::error::{LoadError, status_text};
use crate::limits::ANSWER_BYTES_MAX;

/// Waiting time after a full queue.
const RETRY: Duration = Duration::from_millis(5);

/// Calls of one session.
#[derive(Clone, Debug)]
pub struct SessionCalls {
    client: SubscriptionServiceClient<Channel>,
    fleet: String,
    /// The session, once it is open.
    session: Bytes,
}

impl SessionCalls {
    /// Calls through a channel that other sessions may share.
    #[must_use]
    pub fn new(channel: Channel, fleet: String) -> Self {
        let client =
            SubscriptionServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        Self { client, fleet, session: Bytes::new() }
    }

    /// Opens a session with some regions, or goes on with it after a token; gives its first message
    /// and the stream behind it.
    ///
    /// # Errors
    /// [`LoadError::Call`], [`LoadError::Protocol`] when the first message is another, or the
    /// session is not the one that was to go on.
    pub async fn open(
        &mut self,
        regions: Vec<RegionSubscription>,
        resume_token: Bytes,
    ) -> Result<(SubscribeResponse, Streaming<SubscribeResponse>), LoadError> {
        let is_resumed = !resume_token.is_empty();
        let request = SubscribeRequest {
            fleet: self.fleet.clone(),
            regions,
            resume_token: resume_token.into(),
            retention: None,
        };
        let mut stream = loop {
            match self.client.subscribe(request.clone()).await {
                Ok(response) => break response.into_inner(),
                Err(status) if is_full(&status) => tokio::time::sleep(RETRY).await,
                Err(status) => return Err(LoadError::call("Subscribe")(status)),
            }
        };
        let first = stream.message().await.map_err(LoadError::call("Subscribe"))?;
        let first = first.unwrap_or_default();
        let Some(Kind::Opened(SessionOpened { session, resumed, .. })) = &first.kind else {
            return Err(LoadError::Protocol("a stream begins with another message".to_owned()));
        };
        let (session, resumed) = (Bytes::copy_from_slice(session), *resumed);
        if resumed != is_resumed || (is_resumed && session != self.session) {
            return Err(LoadError::Protocol(format!(
                "a stream was opened with resumed = {resumed}, asked for {is_resumed}"
            )));
        }
        self.session = session;
        Ok((first, stream))
    }

    /// Changes the session's regions, all of them or none; waits while the server is full.
    ///
    /// # Errors
    /// [`LoadError::Call`], [`LoadError::Protocol`] when a region fails.
    pub async fn modify(mut self, request: ModifyRequest) -> Result<ModifyResponse, LoadError> {
        let request = ModifyRequest { fleet: self.fleet, session: self.session.into(), ..request };
        let response = loop {
            match self.client.modify(request.clone()).await {
                Ok(response) => break response.into_inner(),
                Err(status) if is_full(&status) => tokio::time::sleep(RETRY).await,
                Err(status) => return Err(LoadError::call("Modify")(status)),
            }
        };
        match response.errors.first() {
            None => Ok(response),
            Some(error) => Err(LoadError::Protocol(format!(
                "region {} could not be changed: {}",
                error.region_id,
                status_text(error.status.as_ref())
            ))),
        }
    }
}

/// Whether a queue is full: the server says when to come back, as at no other limit.
fn is_full(status: &tonic::Status) -> bool {
    status.code() == Code::ResourceExhausted && status.get_error_details().retry_info().is_some()
}
