//! HTTP beside gRPC: a JSON API, events, gRPC-Web for browsers, and pages.
//!
//! One more listener, off by default. Its calls go through the same services and layers as those of
//! gRPC (`server::Services`), so budgets, shares, deadlines and errors are the same.

mod activity;
mod api;
mod app;
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
