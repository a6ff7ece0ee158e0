//! The client library of Shoal: fleets, reports, queries and subscriptions.
#![doc = include_str!("../README.md")]

mod answer;
mod batch;
mod block;
mod client;
pub mod duration;
mod error;
mod history;
#[cfg(feature = "clap")]
mod login_args;
mod quantizer;
mod queries;
mod record;
mod report;
mod report_worker;
mod secret;
mod subscription;
mod target;
mod tls;
mod totals;
mod transport;

pub use answer::{AnswerRow, AnswerStream, QueryAnswer};
pub use batch::{BatchAnswer, BatchReader};
pub use block::{BlockEncoder, EncodedBlock, block_rows};
pub use client::{Client, ConnectOptions};
pub use error::{Error, ServerError};
pub use history::{DensityCounts, DensitySquare};
#[cfg(feature = "clap")]
pub use login_args::LoginArgs;
pub use quantizer::Quantizer;
pub use record::record_at;
pub use report::{Payload, ReportOptions, ReportStream, parse_durability};
pub use secret::{Secret, SecretError};
pub use shoal_codec::{Aim, PlanChoice};
/// The messages and services of `shoal.v1`.
pub use shoal_proto::v1;
pub use subscription::{SubscriptionHandle, SubscriptionStream};
pub use target::is_on_this_machine;
pub use tls::ClientTls;
pub use totals::{AckTotals, add_counts, rows_total};
pub use transport::Transport;
