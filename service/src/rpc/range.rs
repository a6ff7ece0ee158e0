//! `QueryService.Range`: every object in a region.

use std::sync::Arc;

use shoal_proto::v1::{RangeRequest, RangeResponse};
use tonic::{Request, Response};

use super::asking::Asking;
use super::chunk_stream::ChunkStream;
use super::deadline::Deadline;
use super::door::Door;
use super::query_answer::answer_one;
use crate::error::ServiceError;

pub(super) async fn range(
    door: &Arc<Door>,
    request: Request<RangeRequest>,
) -> Result<Response<ChunkStream<RangeResponse>>, ServiceError> {
    let deadline = Deadline::of(request.metadata());
    let RangeRequest { options, region } = request.into_inner();
    let asking = Asking::new(door, options)?;
    let query = asking.range_at("region", region.as_ref())?;
    answer_one(door, asking, query, deadline).await
}
