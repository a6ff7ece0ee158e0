//! The gRPC services: convert requests to work for a fleet, and its results to responses.
//!
//! All input from a peer is checked here: bytes, fields, sizes, deadlines. The engine receives
//! quanta and queries within its limits. Every buffer between a peer and an engine is bounded.

mod ack_log;
mod ack_range;
mod batch;
mod batch_answer;
mod budgeted_answer;
mod budgeted_body;
mod call_budget;
mod call_layers;
mod checked_fleet;
mod chunk_stream;
mod conversion;
mod deadline;
mod error_details;
mod filter;
mod fix_reader;
mod fleet_message;
mod fleet_service;
mod follow;
mod follow_budget;
mod handover;
mod history_answer;
mod history_replay;
mod history_service;
mod intake;
mod large_message;
mod large_request;
mod log_service;
mod message_budget;
mod message_shape;
mod modify;
mod name_filter;
mod name_sieve;
mod named_block;
pub(crate) mod object_names;
mod past_filter;
mod position_service;
mod protobuf_reader;
mod query_answer;
mod query_context;
mod query_service;
mod records;
mod region;
mod region_subscription;
mod report;
mod report_message;
mod row_times;
mod service_context;
mod session_stream;
mod subscribe;
mod subscription_service;

pub use ack_log::AckStream;
pub use batch_answer::BatchStream;
pub use call_budget::CallBudget;
pub(crate) use call_layers::{Layers, Services, call_layers};
pub use chunk_stream::{ChunkStream, RowStream};
pub use error_details::ErrorDetails;
pub use follow::FollowStream;
pub(crate) use handover::Handover;
pub(crate) use message_budget::Charge;
pub use message_budget::MessageBudget;
pub use records::{RowMessage, StoredRows};
pub use service_context::ServiceContext;
pub use session_stream::SessionStream;
