//! `QueryService.Nearest`: the k nearest objects, ordered by distance, then object.

use std::sync::Arc;

use shoal_proto::v1::{NearestQuery, NearestRequest, NearestResponse};
use tonic::{Request, Response};

use super::asking::Asking;
use super::chunk_stream::ChunkStream;
use super::deadline::Deadline;
use super::door::Door;
use super::query_answer::answer_one;
use crate::error::ServiceError;

pub(super) async fn nearest(
    door: &Arc<Door>,
    request: Request<NearestRequest>,
) -> Result<Response<ChunkStream<NearestResponse>>, ServiceError> {
    let deadline = Deadline::of(request.metadata());
    let NearestRequest { options, x, y, k, distance_max_m } = request.into_inner();
    let asking = Asking::new(door, options)?;
    asking.check_nearest()?;
    let query = asking.nearest(NearestQuery { x, y, k, distance_max_m })?;
    answer_one(door, asking, query, deadline).await
}
