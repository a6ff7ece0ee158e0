//! `SubscriptionService`: Subscribe and Modify.
//!
//! The messages of a session leave as bytes (`shoal_proto::raw`).

use std::sync::Arc;

use shoal_proto::raw::subscription_service_server::{
    SubscriptionService, SubscriptionServiceServer,
};
use shoal_proto::v1::{ModifyRequest, ModifyResponse, SubscribeRequest};
use tonic::{Request, Response, Status};

use super::service_context::ServiceContext;
use super::session_stream::SessionStream;
use super::{modify, subscribe};

/// The server of [`Subscriptions`].
pub type SubscriptionServer = SubscriptionServiceServer<Subscriptions>;

/// `shoal.v1.SubscriptionService`.
#[derive(Clone, Debug)]
pub struct Subscriptions(Arc<ServiceContext>);

impl Subscriptions {
    /// The service in a context.
    #[must_use]
    pub fn new(context: Arc<ServiceContext>) -> Self {
        Self(context)
    }
}

#[tonic::async_trait]
impl SubscriptionService for Subscriptions {
    type SubscribeStream = SessionStream;

    async fn subscribe(
        &self,
        request: Request<SubscribeRequest>,
    ) -> Result<Response<SessionStream>, Status> {
        Ok(subscribe::subscribe(&self.0, request).await?)
    }

    async fn modify(
        &self,
        request: Request<ModifyRequest>,
    ) -> Result<Response<ModifyResponse>, Status> {
        Ok(modify::modify(&self.0, request).await?)
    }
}
