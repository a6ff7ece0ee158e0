//! The HTTP interface: a JSON API, events, gRPC-Web for browsers, and pages.
//!
//! It has a listener of its own, which is off by default. Its calls use the same services and
//! layers as gRPC calls (`server::Services`), so that budgets, shares, deadlines and errors are the
//! same.

mod activity;
mod api;
mod app;
mod coding;
mod connection;
mod limits;
mod listener;
mod map;
mod origins;
mod pages;
mod problem;
mod tiles;

pub(crate) use app::App;
pub(crate) use listener::{Ends, HttpListener, signalled};
pub use origins::{AllowedOrigin, Origins};
pub use tiles::MapTiles;
pub(crate) use tiles::Tiles;
