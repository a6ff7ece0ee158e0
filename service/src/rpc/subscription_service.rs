//! `SubscriptionService`: Subscribe and Modify.
//!
//! The messages of a session are sent as encoded bytes (`shoal_proto::raw`).

use shoal_proto::raw::subscription_service_server::SubscriptionService;
use shoal_proto::v1::{ModifyRequest, ModifyResponse, SubscribeRequest};
use tonic::{Request, Response, Status};

use super::service_context::ServiceContext;
use super::session_stream::SessionStream;
use super::{modify, subscribe};

#[tonic::async_trait]
impl SubscriptionService for ServiceContext {
    type SubscribeStream = SessionStream;

    async fn subscribe(
        &self,
        request: Request<SubscribeRequest>,
    ) -> Result<Response<SessionStream>, Status> {
        Ok(subscribe::subscribe(self, request).await?)
    }

    async fn modify(
        &self,
        request: Request<ModifyRequest>,
    ) -> Result<Response<ModifyResponse>, Status> {
        Ok(modify::modify(self, request).await?)
    }
}
