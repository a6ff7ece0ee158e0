//! `QueryService.Range`: every object in a region.

use std::sync::Arc;

use shoal_proto::v1::RangeRequest;
use tonic::{Request, Response};

use super::asking::Asking;
use super::deadline::Deadline;
use super::door::Door;
use super::query_answer::{AnswerStream, answer_one};
use crate::error::ServiceError;

pub(super) async fn range(
    door: &Arc<Door>,
    request: Request<RangeRequest>,
) -> Result<Response<AnswerStream>, ServiceError> {
    let deadline = Deadline::of(request.metadata());
    let RangeRequest { options, region } = request.into_inner();
    let asking = Asking::new(door, options)?;
    let query = asking.range(region.as_ref())?;
    answer_one(door, asking, query, deadline).await
}
