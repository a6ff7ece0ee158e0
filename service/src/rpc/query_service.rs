//! Which call of `QueryService` goes where? Each has its own file.

use std::sync::Arc;

use shoal_proto::v1::query_service_server::QueryService;
use shoal_proto::v1::{BatchRequest, GetRequest, NearestRequest, RangeRequest};
use tonic::{Request, Response, Status, Streaming};

use super::batch_answer::BatchStream;
use super::door::Door;
use super::query_answer::AnswerStream;
use super::{batch, get, nearest, range};

/// `shoal.v1.QueryService`.
#[derive(Clone, Debug)]
pub struct Queries(Arc<Door>);

impl Queries {
    /// The service at a door.
    #[must_use]
    pub fn new(door: Arc<Door>) -> Self {
        Self(door)
    }
}

#[tonic::async_trait]
impl QueryService for Queries {
    type GetStream = AnswerStream;
    type RangeStream = AnswerStream;
    type NearestStream = AnswerStream;
    type BatchStream = BatchStream;

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<AnswerStream>, Status> {
        Ok(get::get(&self.0, request).await?)
    }

    async fn range(
        &self,
        request: Request<RangeRequest>,
    ) -> Result<Response<AnswerStream>, Status> {
        Ok(range::range(&self.0, request).await?)
    }

    async fn nearest(
        &self,
        request: Request<NearestRequest>,
    ) -> Result<Response<AnswerStream>, Status> {
        Ok(nearest::nearest(&self.0, request).await?)
    }

    async fn batch(
        &self,
        request: Request<Streaming<BatchRequest>>,
    ) -> Result<Response<BatchStream>, Status> {
        Ok(batch::batch(&self.0, request)?)
    }
}
