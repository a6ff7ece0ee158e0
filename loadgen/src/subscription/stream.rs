//! The calls of a session: open, resume, change. A resumption that does not return the same session
//! is a server error.

use bytes::Bytes;
use shoal_client::v1::subscribe_response::Kind;
use shoal_client::v1::{
    ModifyRequest, ModifyResponse, RegionSubscription, SubscribeRequest, SubscribeResponse,
};
use shoal_client::{Client, ServerError, SubscriptionHandle, SubscriptionStream};

use crate::error::{LoadError, retry_while_busy};

/// Opens a session with regions, or resumes `session` after a token; returns the first message and
/// the rest of the stream.
///
/// # Errors
/// [`LoadError::Call`]; [`LoadError::Protocol`] if the first message is of another type or session.
pub async fn open(
    client: &Client,
    fleet: &str,
    regions: Vec<RegionSubscription>,
    resume_token: Bytes,
    session: Option<&SubscriptionHandle>,
) -> Result<(SubscribeResponse, SubscriptionStream), LoadError> {
    let failed = || LoadError::call("Subscribe");
    let is_resumed = !resume_token.is_empty();
    let request = SubscribeRequest {
        fleet: fleet.to_owned(),
        regions,
        resume_token: resume_token.into(),
        retention: None,
    };
    let opened = retry_while_busy(|| client.subscribe(request.clone())).await;
    let mut stream = opened.map_err(failed())?;
    let first = stream.receive().await.map_err(failed())?.unwrap_or_default();
    let Some(Kind::Opened(opened)) = &first.kind else {
        return Err(LoadError::Protocol("a stream begins with another message".to_owned()));
    };
    let is_same = session.is_some_and(|session| session.id() == stream.session().id());
    if opened.resumed != is_resumed || (is_resumed && !is_same) {
        let resumed = opened.resumed;
        return Err(LoadError::Protocol(format!(
            "a stream was opened with resumed = {resumed}, requested {is_resumed}"
        )));
    }
    Ok((first, stream))
}

/// Changes the session's regions, all of them or none; waits while the server is busy.
///
/// # Errors
/// [`LoadError::Call`], [`LoadError::Protocol`] if a region fails.
pub async fn modify(
    session: Option<SubscriptionHandle>,
    request: ModifyRequest,
) -> Result<ModifyResponse, LoadError> {
    let session = session.ok_or_else(|| LoadError::Task("a session is not open yet".to_owned()))?;
    let modified = retry_while_busy(|| session.modify(request.clone())).await;
    let response = modified.map_err(LoadError::call("Modify"))?;
    match response.errors.first() {
        None => Ok(response),
        Some(error) => Err(LoadError::Protocol(format!(
            "region {} could not be changed: {}",
            error.region_id,
            ServerError::from(error)
        ))),
    }
}
