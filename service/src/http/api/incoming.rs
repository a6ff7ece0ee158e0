//! The body of a request: plain, or decoded from gzip (RFC 9110, section 8.4).
//!
//! Other codings are refused: their decoders take memory that the sender chooses.

use std::io::Write as _;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::request::Parts;
use http::{HeaderMap, StatusCode, Version, header};
use http_body::{Body as _, SizeHint};
use tokio::time::timeout;

use crate::http::limits::{HTTP_DISCARD_BYTES_MAX, HTTP_DISCARD_MS_MAX};
use crate::http::problem::Problem;

/// Coded bytes that are decoded at once, to at most some 1,000 times as many.
const CODED_BYTES: usize = 1 << 10;

/// See the file's head.
#[derive(Default)]
pub(super) struct Incoming {
    body: Body,
    gzip: Option<Gzip>,
}

struct Gzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    /// What is not decoded yet.
    coded: Bytes,
    is_ended: bool,
}

impl Incoming {
    /// The body of a request with these headers.
    pub(super) fn new(body: Body, headers: &HeaderMap) -> Self {
        let is_coded = matches!(coding(headers), Ok(Coding::Gzip));
        let gzip = is_coded.then(|| Gzip {
            decoder: MultiGzDecoder::new(Vec::new()),
            coded: Bytes::new(),
            is_ended: false,
        });
        Self { body, gzip }
    }

    /// The size of the plain body, as far as it is known.
    pub(super) fn size_hint(&self) -> SizeHint {
        match self.gzip {
            None => self.body.size_hint(),
            Some(_) => SizeHint::default(),
        }
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// The client left in the middle, or the bytes are not gzip.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let Some(gzip) = &mut self.gzip else { return next_frame(&mut self.body).await };
        loop {
            if let Some(plain) = gzip.decode()? {
                // Few coded bytes may be many plain ones: other tasks get their turn.
                tokio::task::consume_budget().await;
                return Ok(Some(plain));
            }
            if gzip.is_ended {
                return Ok(None);
            }
            match next_frame(&mut self.body).await? {
                Some(coded) => gzip.coded = coded,
                None => gzip.end()?,
            }
        }
    }

    /// Reads and drops part of the body of a refused request: over HTTP/1.1 a client that is still
    /// sending when the connection closes would not receive the reason. With the header `Expect`
    /// nothing is read: the client sends no body before it has a response.
    pub(super) async fn discard(&mut self, request: &Parts) {
        if request.version == Version::HTTP_2 || request.headers.contains_key(header::EXPECT) {
            return;
        }
        let discarding = async {
            let mut dropped = 0;
            while dropped < HTTP_DISCARD_BYTES_MAX
                && let Ok(Some(data)) = next_frame(&mut self.body).await
            {
                dropped += data.len();
            }
        };
        // A slow client gets the reason if it reads in time.
        let _ = timeout(Duration::from_millis(HTTP_DISCARD_MS_MAX), discarding).await;
    }
}

impl Gzip {
    /// Decodes a part; `None` if more coded bytes are needed.
    fn decode(&mut self) -> Result<Option<Bytes>, Problem> {
        while !self.coded.is_empty() {
            let part = self.coded.split_to(self.coded.len().min(CODED_BYTES));
            let written = self.decoder.write_all(&part).and_then(|()| self.decoder.flush());
            written.map_err(|error| not_gzip(&error))?;
            if let Some(plain) = self.take() {
                return Ok(Some(plain));
            }
        }
        Ok(self.take())
    }

    /// What is decoded.
    fn take(&mut self) -> Option<Bytes> {
        let plain = std::mem::take(self.decoder.get_mut());
        (!plain.is_empty()).then(|| plain.into())
    }

    /// Decodes the last bytes, and confirms that the coded ones are complete.
    fn end(&mut self) -> Result<(), Problem> {
        self.is_ended = true;
        self.decoder.try_finish().map_err(|error| not_gzip(&error))
    }
}

fn not_gzip(error: &std::io::Error) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "MALFORMED", format!("the body is not gzip: {error}"))
}

async fn next_frame(body: &mut Body) -> Result<Option<Bytes>, Problem> {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        match frame {
            None => return Ok(None),
            Some(Ok(frame)) => {
                // Trailers are no data.
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => {
                let detail = format!("the body ended early: {error}");
                return Err(Problem::new(StatusCode::BAD_REQUEST, "MALFORMED", detail));
            }
        }
    }
}

/// How a body is encoded.
pub(super) enum Coding {
    Plain,
    Gzip,
}

/// The coding that headers state.
///
/// # Errors
/// 415 for another one.
pub(super) fn coding(headers: &HeaderMap) -> Result<Coding, Problem> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(Coding::Plain) };
    let is = |known: &str| coding.as_bytes().eq_ignore_ascii_case(known.as_bytes());
    match codings.next() {
        None if is("identity") => Ok(Coding::Plain),
        None if is("gzip") || is("x-gzip") => Ok(Coding::Gzip),
        _ => {
            let coding = String::from_utf8_lossy(coding.as_bytes());
            let detail = format!("content encoding `{coding}`; give gzip, or send the body plain");
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            Err(Problem::new(status, "CONTENT_ENCODING", detail))
        }
    }
}
