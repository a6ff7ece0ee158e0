//! How does a call become work for a fleet, and its result an answer? One file per call.
//!
//! Everything foreign is judged here: bytes, fields, sizes, deadlines. Behind it there are quanta
//! and queries that obey the engine's limits. Every buffer between a peer and an engine is bounded.

mod ack_log;
mod ack_range;
mod asking;
mod batch;
mod batch_answer;
mod chunk_stream;
mod clear_fleet;
mod count_regions;
mod create_fleet;
mod deadline;
mod delete_fleet;
mod door;
mod duration;
mod error_details;
mod filter;
mod fix_reader;
mod fleet_message;
mod fleet_service;
mod get;
mod get_fleet;
mod held_answer;
mod intake;
mod list_fleets;
mod message_budget;
mod modify;
mod nearest;
mod position_service;
mod protobuf_reader;
mod query_answer;
mod query_service;
mod range;
mod raw_codec;
pub(crate) mod records;
mod region;
mod region_subscription;
mod remove;
mod report;
mod report_message;
mod report_once;
mod session_stream;
mod subscribe;
mod subscription_service;

use std::convert::Infallible;
use std::pin::Pin;

use tonic::Status;
use tonic::body::Body;

pub use batch_answer::BatchStream;
pub use chunk_stream::ChunkStream;
pub use door::Door;
pub use error_details::ErrorDetails;
pub use fleet_service::Fleets;
pub use message_budget::MessageBudget;
pub use position_service::PositionServer;
pub use query_service::Queries;
pub use session_stream::SessionStream;
pub use subscription_service::SubscriptionServer;

use crate::error::ServiceError;

/// What the services that are written by hand give back.
type BoxFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// The answer to a path that no method of a service has.
fn no_call(path: &str) -> BoxFuture<http::Response<Body>, Infallible> {
    let status = Status::from(ServiceError::method_unknown(path));
    Box::pin(async move { Ok(status.into_http()) })
}
