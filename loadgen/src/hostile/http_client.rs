//! A well-behaved client of the HTTP API beside an attack: it asks for the objects near a place 20
//! times a second on one connection.

use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::time::{Duration, Instant, sleep_until, timeout};

use crate::login::logged_in;
use crate::measure::{Latency, Percentiles};

/// Time between two requests.
const EVERY: Duration = Duration::from_millis(50);
/// A request without an answer after this time has failed.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What the client saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HttpRow {
    /// Requests answered.
    pub answered: u64,
    /// From the intended send time of a request to the end of its answer.
    pub ms: Percentiles,
    /// Requests that failed or were refused.
    pub refused: u64,
    /// Cause of the first failure.
    pub first_refusal: Option<String>,
}

/// Sends requests for these seconds.
pub async fn use_http(address: SocketAddr, fleet: &str, seconds: f64) -> HttpRow {
    let (mut row, mut latency) = (HttpRow::default(), Latency::default());
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(seconds);
    let mut connection = None;
    let mut due = started;
    while due < end {
        sleep_until(due).await;
        if Instant::now() > end + ANSWER_MAX {
            row.refused += 1;
            row.first_refusal.get_or_insert_with(|| "too late to send it".to_owned());
            due += EVERY;
            continue;
        }
        let asked = timeout(ANSWER_MAX, ask(&mut connection, address, fleet)).await;
        let answered = asked.unwrap_or_else(|_| Err("no answer in 5 s".to_owned()));
        match answered {
            Ok(()) => {
                row.answered += 1;
                latency.record(due.elapsed(), 1);
            }
            Err(cause) => {
                connection = None;
                row.refused += 1;
                row.first_refusal.get_or_insert(cause);
            }
        }
        due += EVERY;
    }
    row.ms = latency.percentiles();
    row
}

type Sender = SendRequest<Empty<Bytes>>;

/// Sends a request and reads its answer, on a new connection if there is none.
async fn ask(
    connection: &mut Option<Sender>,
    address: SocketAddr,
    fleet: &str,
) -> Result<(), String> {
    let mut sender = match connection.take().filter(|sender| !sender.is_closed()) {
        Some(sender) => sender,
        None => connect(address).await?,
    };
    sender.ready().await.map_err(text)?;
    let mut request = Request::get(format!("/v1/fleets/{fleet}/nearest?x=0&y=0&k=10"))
        .header(HOST, address.to_string());
    if let Some(bearer) = logged_in().token.as_ref().and_then(|token| token.bearer()) {
        request = request.header(AUTHORIZATION, bearer);
    }
    let request = request.body(Empty::new()).map_err(text)?;
    let response = sender.send_request(request).await.map_err(text)?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(text)?.to_bytes();
    if status != StatusCode::OK {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)));
    }
    *connection = Some(sender);
    Ok(())
}

async fn connect(address: SocketAddr) -> Result<Sender, String> {
    let stream = TcpStream::connect(address).await.map_err(text)?;
    let (sender, serving) = handshake(TokioIo::new(stream)).await.map_err(text)?;
    // It ends with the sender; an error appears in the next request.
    tokio::spawn(serving);
    Ok(sender)
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}
