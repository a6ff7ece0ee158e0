//! `QueryService.Nearest`: the k nearest objects, ordered by distance, then object.

use std::sync::Arc;

use shoal_proto::v1::NearestRequest;
use tonic::{Request, Response};

use super::asking::Asking;
use super::deadline::Deadline;
use super::door::Door;
use super::query_answer::{AnswerStream, answer_one};
use crate::error::ServiceError;

pub(super) async fn nearest(
    door: &Arc<Door>,
    request: Request<NearestRequest>,
) -> Result<Response<AnswerStream>, ServiceError> {
    let deadline = Deadline::of(request.metadata());
    let NearestRequest { options, x, y, k } = request.into_inner();
    let asking = Asking::new(door, options)?;
    let query = asking.nearest(x, y, k)?;
    answer_one(door, asking, query, deadline).await
}
