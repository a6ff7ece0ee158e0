//! Tests of the server over gRPC, in process and on a free port: one file per hazard.
//!
//! No test asserts a duration; waits have generous timeouts so that a hang fails.

#![allow(clippy::unwrap_used, reason = "a test fails on a missing value")]

mod access_calls;
mod access_follower;
mod access_quotas;
mod access_table;
mod access_tls;
mod acknowledgements;
mod answers;
mod checkpoints;
mod clock;
mod cycle_sink;
mod dwell;
mod encoded_blocks;
mod erasure;
mod error_details;
mod event_clock;
mod fleets;
mod follower;
mod follower_crashes;
mod gated_engine;
mod history;
mod history_faults;
mod history_queries;
mod hostile_blocks;
mod hostile_messages;
mod hostile_queries;
mod hostile_rows;
mod hostile_subscriptions;
mod http_api;
mod http_client;
mod http_documents;
mod http_events;
mod http_names;
mod http_reports;
mod http_schema;
mod http_web;
mod large_answers;
mod listings;
mod log_failures;
mod long_queries;
mod model_agreement;
mod named_answers;
mod named_restarts;
mod names;
mod object_limit;
mod operations;
mod order;
mod overload;
mod promotions;
mod raw_client;
mod raw_http;
mod restart;
mod resumption;
mod retry;
mod running;
mod shutdown;
mod slow_peers;
mod slow_subscribers;
mod snapshot_resumption;
mod subscriber;
mod subscriptions;
mod token_maker;
mod tokens;
