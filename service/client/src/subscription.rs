//! Subscriptions: the messages of a session, read through connections that break.
//!
//! Each message has a token. A broken stream is opened again with the last token, and with the
//! regions in case the session has ended. `gap` and `lagged` say what is missing.

use bytes::Bytes;
use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;
use tokio::time::{Duration, Instant, sleep, timeout};
use tonic::Streaming;

use crate::client::Client;
use crate::error::{Error, ServerError};

/// Delay between two attempts to resume.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Minimum silence after which the connection counts as broken; a server sends a message every
/// second.
const SILENCE_MIN: Duration = Duration::from_secs(5);

/// The stream of a session.
#[derive(Debug)]
pub struct SubscriptionStream {
    client: Client,
    request: v1::SubscribeRequest,
    session: Bytes,
    stream: Streaming<v1::SubscribeResponse>,
}

impl Client {
    /// Opens a session, or resumes one if the request has a token. Regions in the request are used
    /// again whenever the subscription resumes and finds its session ended.
    ///
    /// # Errors
    /// Those of `SubscriptionService.Subscribe`.
    pub async fn subscribe(
        &self,
        request: v1::SubscribeRequest,
    ) -> Result<SubscriptionStream, Error> {
        let mut service = self.subscription_service();
        // No deadline: it would end the stream.
        let stream = self.call(service.subscribe(request.clone())).await?;
        Ok(SubscriptionStream { client: self.clone(), request, session: Bytes::new(), stream })
    }
}

impl SubscriptionStream {
    /// The next message; resumes a broken stream. After a resumption the next message is `opened`.
    /// `None` after the session was closed.
    ///
    /// # Errors
    /// An error that is not transient, or the last error once the client's timeout has passed.
    pub async fn next(&mut self) -> Result<Option<v1::SubscribeResponse>, Error> {
        loop {
            match self.receive().await {
                Err(error) if error.is_transient() => self.resume(error).await?,
                received => return received,
            }
        }
    }

    /// The next message of this stream, without resuming.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the server is silent, and those of `SubscriptionService.Subscribe`.
    /// A transient error can be cured with [`SubscriptionStream::resume`].
    pub async fn receive(&mut self) -> Result<Option<v1::SubscribeResponse>, Error> {
        let silence = self.client.options().timeout.max(SILENCE_MIN);
        let received = timeout(silence, self.stream.message()).await;
        let message = received.map_err(|_| self.client.timed_out())??;
        if let Some(message) = &message {
            if !message.resume_token.is_empty() {
                self.request.resume_token.clone_from(&message.resume_token);
            }
            if let Some(Kind::Opened(opened)) = &message.kind {
                self.session = Bytes::copy_from_slice(&opened.session);
            }
        }
        Ok(message)
    }

    /// Connects again and resumes after the last message received, for at most the client's
    /// timeout.
    ///
    /// # Errors
    /// An error that is not transient is returned at once; otherwise the last error (first `error`)
    /// once the timeout has passed.
    pub async fn resume(&mut self, mut error: Error) -> Result<(), Error> {
        let until = Instant::now() + self.client.options().timeout;
        while Instant::now() < until {
            let resumed =
                async { self.client.reconnect().await?.subscribe(self.request.clone()).await };
            match resumed.await {
                Ok(Self { client, stream, .. }) => {
                    (self.client, self.stream) = (client, stream);
                    return Ok(());
                }
                Err(again) if !again.is_transient() => return Err(again),
                Err(again) => error = again,
            }
            sleep(RETRY_INTERVAL).await;
        }
        Err(error)
    }

    /// The resume token of the last message received, for a new request.
    #[must_use]
    pub fn resume_token(&self) -> &[u8] {
        &self.request.resume_token
    }

    /// The session, to change its regions or close it. Call it after `opened` was received.
    #[must_use]
    pub fn session(&self) -> SubscriptionHandle {
        let (client, fleet) = (self.client.clone(), self.request.fleet.clone());
        SubscriptionHandle { client, fleet, session: self.session.clone() }
    }
}

/// Changes the regions of a session while its stream is read elsewhere.
#[derive(Clone, Debug)]
pub struct SubscriptionHandle {
    client: Client,
    fleet: String,
    session: Bytes,
}

impl SubscriptionHandle {
    /// The bytes that identify the session.
    #[must_use]
    pub fn id(&self) -> &Bytes {
        &self.session
    }

    /// Adds, changes and removes regions, all in one epoch; fleet and session are filled in. Add
    /// the regions to the request of a new [`Client::subscribe`] too: a subscription that resumes
    /// uses the regions that it began with.
    ///
    /// # Errors
    /// Those of `SubscriptionService.Modify`. Regions that fail alone are in the response.
    pub async fn modify(&self, request: v1::ModifyRequest) -> Result<v1::ModifyResponse, Error> {
        let (fleet, session) = (self.fleet.clone(), self.session.to_vec());
        let request = v1::ModifyRequest { fleet, session, ..request };
        let mut service = self.client.subscription_service();
        self.client.call(service.modify(self.client.request(request))).await
    }

    /// Closes the session and ends its stream.
    ///
    /// # Errors
    /// Those of `SubscriptionService.Modify`.
    pub async fn close(&self) -> Result<(), Error> {
        let close = v1::ModifyRequest { close: true, ..Default::default() };
        self.modify(close).await.map(|_| ())
    }
}

/// The error of a region that failed in a [`v1::ModifyResponse`].
impl From<&v1::RegionError> for ServerError {
    fn from(error: &v1::RegionError) -> Self {
        error
            .status
            .as_ref()
            .map_or_else(|| Self::from(&tonic_types::Status::default()), Self::from)
    }
}
