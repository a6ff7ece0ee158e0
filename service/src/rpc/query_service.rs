//! Which call of `QueryService` goes where? Each has its own file.

use std::sync::Arc;

use shoal_proto::v1;
use shoal_proto::v1::query_service_server::QueryService;
use tonic::{Request, Response, Status, Streaming};

use super::batch_answer::BatchStream;
use super::chunk_stream::ChunkStream;
use super::deadline::Deadline;
use super::door::Door;
use super::{batch, count_regions, get, nearest, range};

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
    type GetStream = ChunkStream<v1::GetResponse>;
    type RangeStream = ChunkStream<v1::RangeResponse>;
    type NearestStream = ChunkStream<v1::NearestResponse>;
    type BatchStream = BatchStream;

    async fn get(
        &self,
        request: Request<v1::GetRequest>,
    ) -> Result<Response<Self::GetStream>, Status> {
        Ok(get::get(&self.0, request).await?)
    }

    async fn range(
        &self,
        request: Request<v1::RangeRequest>,
    ) -> Result<Response<Self::RangeStream>, Status> {
        Ok(range::range(&self.0, request).await?)
    }

    async fn nearest(
        &self,
        request: Request<v1::NearestRequest>,
    ) -> Result<Response<Self::NearestStream>, Status> {
        Ok(nearest::nearest(&self.0, request).await?)
    }

    async fn count_regions(
        &self,
        request: Request<v1::CountRegionsRequest>,
    ) -> Result<Response<v1::CountRegionsResponse>, Status> {
        let deadline = Deadline::of(request.metadata());
        let counted = count_regions::count_regions(&self.0, request.into_inner(), deadline).await?;
        Ok(Response::new(counted))
    }

    async fn batch(
        &self,
        request: Request<Streaming<v1::BatchRequest>>,
    ) -> Result<Response<BatchStream>, Status> {
        Ok(batch::batch(&self.0, request)?)
    }
}
