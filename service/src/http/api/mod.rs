//! The JSON API below `/v1`: one table of routes, from which the router and the OpenAPI document
//! are made.
//!
//! Handlers translate between JSON and the messages of the services, which they call in process. So
//! the budgets, shares, deadlines, errors and rights of gRPC apply.

mod answer;
mod call;
mod credentials;
mod csv_lines;
mod density;
mod document;
mod events;
mod filter;
mod fleets;
mod geometry;
mod histories;
mod incoming;
mod lines;
mod open_api;
mod param;
mod queries;
mod reference;
mod region_id;
mod reports;
mod route;
mod routes;
mod row;
mod strict;
mod subscriptions;
mod trackers;
mod web_socket;

pub(super) use open_api::document;
pub(super) use reference::reference;
pub(super) use routes::add_routes;
