//! Decodes the request message of a call, small or large.
//!
//! The gRPC library decodes small messages. A large one arrives as bytes (`large_message.rs`): a
//! worker checks its shape before anything is allocated (`message_shape.rs`), then decodes it.

use bytes::Bytes;
use prost::Message;
use tonic::Request;

use super::deadline::Deadline;
use super::large_message::LargeMessage;
use super::message_shape::{Shaped, check_shape};
use super::service_context::ServiceContext;
use crate::access::requester;
use crate::error::ServiceError;
use crate::error::bounded;
use crate::foreign_status::UNDECODABLE;
use crate::shares::Requester;

impl ServiceContext {
    /// Returns the message of a call that has one message, and for a large message the bytes that
    /// hold its charge.
    ///
    /// # Errors
    /// [`ServiceError::Field`] for more fields than the message may have,
    /// [`ServiceError::Undecodable`]; [`ServiceError::Deadline`].
    pub(super) async fn message<T: Shaped>(
        &self,
        request: Request<T>,
    ) -> Result<(T, Option<Bytes>), ServiceError> {
        let large = LargeMessage::of(request.extensions()).take();
        let message = match large.clone() {
            Some(bytes) => {
                let deadline = Deadline::of(request.metadata());
                deadline.bound(self.decode(requester(request.extensions()), bytes)).await?
            }
            None => request.into_inner(),
        };
        Ok((message, large))
    }

    /// Decodes a large message of a client.
    ///
    /// # Errors
    /// Those of [`ServiceContext::message`], without a deadline.
    pub(super) async fn decode<T: Shaped>(
        &self,
        client: Requester,
        bytes: Bytes,
    ) -> Result<T, ServiceError> {
        self.workers.run(client, move || decode(&bytes)).await?
    }
}

fn decode<T: Shaped>(bytes: &[u8]) -> Result<T, ServiceError> {
    check_shape::<T>(bytes)?;
    <T as Message>::decode(bytes).map_err(|error| ServiceError::Undecodable {
        method: T::METHOD.to_owned(),
        problem: bounded(error.to_string().trim_start_matches(UNDECODABLE)),
    })
}
