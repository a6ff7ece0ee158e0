//! `QueryService.Get`: these objects, those that exist.

use std::sync::Arc;

use shoal_proto::v1::{GetRequest, GetResponse};
use tonic::{Request, Response};

use super::asking::Asking;
use super::chunk_stream::ChunkStream;
use super::deadline::Deadline;
use super::door::Door;
use super::query_answer::answer_one;
use crate::error::ServiceError;

pub(super) async fn get(
    door: &Arc<Door>,
    request: Request<GetRequest>,
) -> Result<Response<ChunkStream<GetResponse>>, ServiceError> {
    let deadline = Deadline::of(request.metadata());
    let GetRequest { options, objects } = request.into_inner();
    let asking = Asking::new(door, options)?;
    let query = asking.get(objects)?;
    answer_one(door, asking, query, deadline).await
}
