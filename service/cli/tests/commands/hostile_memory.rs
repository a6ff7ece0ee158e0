//! Hazard: messages with millions of parts of a few bytes each take gigabytes when they are
//! decoded.

#![cfg(target_os = "linux")]

use crate::shoal::Served;
use bytes::Bytes;
use shoal_proto::raw::RawResponseCodec;
use shoal_proto::v1;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Request, Status};
use tonic_types::{RpcStatusExt as _, StatusExt as _};

/// Clients that send a message at the same time.
const CLIENTS: usize = 8;
/// Maximum memory that the server may take in addition to the bytes of the messages, MiB.
const REST_MIB: u64 = 120;

/// Sends a message on a stream of its own and returns the first answer.
async fn call<T>(address: String, path: &'static str, message: Bytes) -> Result<T, Status>
where
    T: prost::Message + Default + Send + 'static,
{
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let messages = Request::new(tokio_stream::once(message));
    let codec = RawResponseCodec::<T>::default();
    let answers = grpc.streaming(messages, PathAndQuery::from_static(path), codec).await?;
    Ok(answers.into_inner().message().await?.unwrap_or_default())
}

/// Calls of all clients with the same message.
async fn calls<T>(server: &Served, path: &'static str, message: &Bytes) -> Vec<Result<T, Status>>
where
    T: prost::Message + Default + Send + 'static,
{
    let call = |_| tokio::spawn(call(server.address.clone(), path, message.clone()));
    let calls: Vec<_> = (0..CLIENTS).map(call).collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    answers
}

/// A field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    prost::encode_length_delimiter(bytes.len(), &mut field).unwrap();
    [field, bytes.to_vec()].concat()
}

fn violated(status: &Status) -> String {
    let details = status.get_error_details();
    let request = details.bad_request().unwrap_or_else(|| panic!("{status:?}"));
    request.field_violations[0].field.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_submessages_are_refused_before_they_take_memory() {
    let server = Served::start(&["--engine", "cpu"]);
    let before = server.peak_mib();
    let empty = field(2, &[]).repeat((4 << 20) - 64);
    let rings = field(3, &field(1, &[]).repeat((4 << 20) - 64));
    let batches = [
        (empty.clone(), "queries"),
        (field(2, &field(2, &rings)), "queries[0].range.polygon.rings"),
    ];
    for (message, path) in batches {
        let method = "/shoal.v1.QueryService/Batch";
        for answer in calls::<v1::BatchResponse>(&server, method, &message.into()).await {
            let error = answer.unwrap().error.unwrap();
            let info = error.get_error_details();
            assert_eq!(info.bad_request().unwrap().field_violations[0].field, path);
        }
    }
    let calls_of_one = [
        ("/shoal.v1.SubscriptionService/Subscribe", empty, "regions"),
        ("/shoal.v1.QueryService/Range", field(2, &rings), "region.polygon.rings"),
    ];
    for (method, message, path) in calls_of_one {
        for answer in calls::<v1::RangeResponse>(&server, method, &message.into()).await {
            assert_eq!(violated(&answer.unwrap_err()), path);
        }
    }
    let taken = server.peak_mib() - before;
    assert!(taken < CLIENTS as u64 * 8 + REST_MIB, "{taken} MiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_refused_take_no_memory() {
    const ROWS: usize = (4 << 20) - 64;
    let limit = format!("message_rows_max={ROWS}");
    let server = Served::start(&["--engine", "cpu", "--limit", &limit]);
    let before = server.peak_mib();
    let message = field(4, &field(1, &[]).repeat(ROWS));
    let method = "/shoal.v1.PositionService/Report";
    for answer in calls::<v1::ReportResponse>(&server, method, &message.into()).await {
        let ack = answer.unwrap().ack.unwrap();
        assert_eq!((ack.failed_messages, ack.rows.unwrap().refused), (0, ROWS as u64));
        let reason = v1::RefusalReason::TimeTooEarly;
        let counts = [v1::RefusedCount { reason: reason.into(), rows: ROWS as u64 }];
        assert_eq!(ack.refused_by_reason, counts);
        assert_eq!(ack.refused_rows.len(), 256);
        for (row, refused) in (0..).zip(&ack.refused_rows) {
            assert_eq!((refused.row, refused.field.as_str()), (row, "time_ms"));
        }
    }
    let taken = server.peak_mib() - before;
    assert!(taken < CLIENTS as u64 * 8 + REST_MIB, "{taken} MiB");
}
