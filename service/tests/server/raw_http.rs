//! A client that sends arbitrary bytes as the body of a call and returns the resulting status.

use std::pin::Pin;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body as _;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Channel;
use tower::{Service as _, ServiceExt as _};

use crate::running::{Running, replication_secret, within};

/// One uncompressed gRPC frame.
pub(crate) fn frame(message: &[u8]) -> Vec<u8> {
    frame_head(0, message.len()).into_iter().chain(message.iter().copied()).collect()
}

/// Compression flag and length of a frame.
pub(crate) fn frame_head(flag: u8, length: usize) -> Vec<u8> {
    let length = u32::try_from(length).unwrap();
    [flag].into_iter().chain(length.to_be_bytes()).collect()
}

/// Starts a call.
pub(crate) async fn call(
    server: &Running,
    path: &str,
    headers: &[(&'static str, &str)],
    body: impl Into<axum::body::Body>,
) -> http::Response<Body> {
    let uri = format!("http://{}{path}", server.address);
    let secret = replication_secret();
    let mut request = http::Request::post(uri).body(Body::new(body.into())).unwrap();
    let usual =
        [("content-type", "application/grpc"), ("shoal-replication-secret", secret.expose())];
    for (name, value) in usual.iter().chain(headers) {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let mut channel: Channel = server.channel().await;
    let response = within(channel.ready().await.unwrap().call(request)).await.unwrap();
    assert_eq!(response.status(), 200);
    response
}

/// The status of a call, from its headers or trailers.
pub(crate) async fn status_of(
    server: &Running,
    path: &str,
    headers: &[(&'static str, &str)],
    body: impl Into<axum::body::Body>,
) -> Status {
    let (parts, body) = call(server, path, headers, body).await.into_parts();
    match Status::from_header_map(&parts.headers) {
        Some(status) => status,
        None => Status::from_header_map(&trailers(body).await).unwrap(),
    }
}

/// The first message of a call, if there is one, and its status. The call is not read further.
pub(crate) async fn whole_answer(
    server: &Running,
    path: &str,
    headers: &[(&'static str, &str)],
    body: impl Into<axum::body::Body>,
) -> (Option<Bytes>, Status) {
    let (parts, mut body) = call(server, path, headers, body).await.into_parts();
    if let Some(status) = Status::from_header_map(&parts.headers) {
        return (None, status);
    }
    let mut bytes = Vec::new();
    loop {
        let next = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let frame = within(next).await.expect("the response has trailers").unwrap();
        match frame.into_data() {
            Ok(data) => bytes.extend(data),
            Err(frame) => {
                let status = Status::from_header_map(&frame.into_trailers().unwrap()).unwrap();
                let message = (!bytes.is_empty()).then(|| Bytes::from(bytes.split_off(5)));
                return (message, status);
            }
        }
    }
}

/// Reads a complete response.
async fn trailers(mut body: Body) -> HeaderMap {
    let mut next = async || {
        within(std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context))).await
    };
    while let Some(frame) = next().await {
        if let Ok(trailers) = frame.unwrap().into_trailers() {
            return trailers;
        }
    }
    panic!("the response has no trailers");
}

/// A body that starts with these bytes and never ends.
pub(crate) fn endless(bytes: Vec<u8>) -> axum::body::Body {
    use tokio_stream::StreamExt as _;
    let first = tokio_stream::once(Ok::<_, Status>(Bytes::from(bytes)));
    axum::body::Body::from_stream(first.chain(tokio_stream::pending()))
}
