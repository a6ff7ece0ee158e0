//! The stream of a fleet's log from a leader, and the acknowledgements back to it.

use std::time::Duration;

use shoal_client::Transport;
use shoal_proto::v1;
use shoal_proto::v1::follow_request::Kind as RequestKind;
use shoal_proto::v1::follow_response::Kind;
use shoal_proto::v1::log_service_client::LogServiceClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::fleet_list::Problem;
use crate::limits::{FOLLOW_PART_BYTES, FOLLOW_SILENCE_MS};

/// A stream ends with an error if the leader sends nothing for this time.
const SILENCE: Duration = Duration::from_millis(FOLLOW_SILENCE_MS);

/// See the file's head.
pub(super) struct LeaderStream {
    requests: mpsc::Sender<v1::FollowRequest>,
    messages: Streaming<v1::FollowResponse>,
}

fn request(kind: RequestKind) -> v1::FollowRequest {
    v1::FollowRequest { kind: Some(kind) }
}

fn silent<E>(_: E) -> Problem {
    format!("the leader is silent for {FOLLOW_SILENCE_MS} ms")
}

impl LeaderStream {
    /// Opens a stream of the log after a position.
    pub(super) async fn open(
        service: &mut LogServiceClient<Transport>,
        start: v1::FollowStart,
    ) -> Result<Self, Problem> {
        let (requests, receiver) = mpsc::channel(2);
        let first = requests.try_send(request(RequestKind::Start(start)));
        first.map_err(|error| error.to_string())?;
        let call = service.follow(ReceiverStream::new(receiver));
        let answer = tokio::time::timeout(SILENCE, call).await.map_err(silent)?;
        let messages = answer.map_err(|status| status.message().to_owned())?.into_inner();
        Ok(Self { requests, messages })
    }

    /// The next message.
    pub(super) async fn next(&mut self) -> Result<Kind, Problem> {
        let message = tokio::time::timeout(SILENCE, self.messages.message()).await;
        let message = message.map_err(silent)?.map_err(|status| status.message().to_owned())?;
        match message.ok_or("the leader ended the stream")?.kind {
            Some(Kind::Group(part)) if part.data.len() > 4 * FOLLOW_PART_BYTES => {
                Err(format!("a part of {} bytes", part.data.len()))
            }
            kind => kind.ok_or_else(|| "a message without content".into()),
        }
    }

    /// Tells the leader that all cycles up to an epoch are durable here.
    pub(super) fn acknowledge(&self, epoch: u64) {
        // A full channel means that a later epoch follows.
        let _ = self.requests.try_send(request(RequestKind::DurableEpoch(epoch)));
    }
}
