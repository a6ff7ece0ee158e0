//! An attack by answers that are never read.

use std::collections::VecDeque;
use std::sync::Arc;

use shoal_client::ConnectOptions;
use shoal_client::v1::{Projection, QueryOptions, RangeRequest};

use super::messages::world;
use super::target::{Target, together};
use crate::login::logged_in;

/// Connections of the attack with tiny windows.
const CONNECTIONS: usize = 50;
/// Window of each stream: less than any answer.
const WINDOW_BYTES: u32 = 1 << 10;
/// Connections of the attack without windows.
const ZERO_CONNECTIONS: usize = 200;
/// Maximum number of unread answers of one connection; beyond it the oldest is dropped.
const UNREAD_MAX: usize = 64;

/// 50 connections with tiny HTTP/2 windows ask for all fixes of the world again and again and
/// never read an answer. An answer that begins counts as answered.
pub async fn unread_answers(target: Arc<Target>) {
    together(CONNECTIONS, || unread_on_one(Arc::clone(&target), WINDOW_BYTES)).await;
}

/// The same with 200 connections whose windows are 0.
pub async fn zero_windows(target: Arc<Target>) {
    together(ZERO_CONNECTIONS, || unread_on_one(Arc::clone(&target), 0)).await;
}

async fn unread_on_one(target: Arc<Target>, window_bytes: u32) {
    let options = ConnectOptions { stream_window_bytes: Some(window_bytes), ..logged_in() };
    let mut service = target.connect_with(options).await.query_service();
    let options = QueryOptions {
        fleet: target.fleet.clone(),
        projection: Projection::Fixes.into(),
        ..QueryOptions::default()
    };
    let request = RangeRequest { options: Some(options), region: Some(world()) };
    let mut unread = VecDeque::new();
    loop {
        match service.range(request.clone()).await {
            Ok(answer) => {
                target.answered(1);
                unread.push_back(answer);
            }
            Err(status) => target.failed(status).await,
        }
        if unread.len() > UNREAD_MAX {
            unread.pop_front();
        }
    }
}
