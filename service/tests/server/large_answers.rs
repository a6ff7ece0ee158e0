//! Answers larger than a message arrive completely, in small chunks and with bounded memory.

use prost::Message as _;
use shoal_codec::{BlockCodec as _, CpuCodec, FixColumns, FixRow};
use shoal_engine::Space;
use shoal_proto::v1;
use shoal_service::{ServerLimits, ServerOptions};

use crate::running::{
    Running, START_MS, block, collect, options, refused, report, sums, until, within, world,
};

const OBJECTS: u64 = 1_000_000;

/// A server with a million objects around the equator.
async fn crowded(options: ServerOptions) -> Running {
    let server = Running::start_with(options).await;
    let blocks = (0..10).map(|part| {
        let mut columns = FixColumns::new();
        for object in part * OBJECTS / 10..(part + 1) * OBJECTS / 10 {
            columns.push_row(FixRow::new(object, START_MS, (object * 100) as i32, 0));
        }
        let mut bytes = Vec::new();
        CpuCodec.encode(&columns, &Space::geographic().tag(), part, &mut bytes).unwrap();
        block(bytes)
    });
    let acks = report(&mut server.positions().await, blocks.collect()).await;
    assert_eq!(sums(&acks), (OBJECTS, 0, 0));
    server
}

fn request(projection: v1::Projection) -> v1::RangeRequest {
    let options = v1::QueryOptions { projection: projection.into(), ..Default::default() };
    v1::RangeRequest { options: Some(options), region: Some(world()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_records_reach_a_client_with_default_limits() {
    let server = crowded(options()).await;
    for projection in [v1::Projection::Ids, v1::Projection::Fixes] {
        let answer = server.queries().await.range(request(projection)).await.unwrap();
        let chunks = within(collect(answer.into_inner())).await.unwrap();
        assert_eq!(chunks[0].header.as_ref().unwrap().total, OBJECTS);
        assert!(chunks.iter().all(|chunk| chunk.encoded_len() <= 1 << 20));
        let objects = chunks.iter().flat_map(|chunk| chunk.objects.iter().copied());
        assert!(objects.eq(0..OBJECTS));
        let fixes: usize = chunks.iter().map(|chunk| chunk.fixes.len()).sum();
        assert_eq!(fixes as u64, if projection == v1::Projection::Ids { 0 } else { OBJECTS });
    }
    // A batch returns the same rows in its own chunks, between small answers.
    let get = v1::batch_query::Kind::Get(v1::GetQuery { objects: vec![5], ..Default::default() });
    let kinds = [get.clone(), v1::batch_query::Kind::Range(world()), get];
    let queries = kinds.map(|kind| v1::BatchQuery { kind: Some(kind) }).to_vec();
    let message = v1::BatchRequest { queries, ..Default::default() };
    let stream = server.queries().await.batch(tokio_stream::iter([message])).await.unwrap();
    let chunks = within(collect(stream.into_inner())).await.unwrap();
    assert!(chunks.iter().all(|chunk| chunk.encoded_len() <= 1 << 20));
    let last: Vec<_> = chunks.iter().filter(|chunk| chunk.last).collect();
    assert_eq!(last.len(), 1);
    let of_query = |query| {
        let results = chunks.iter().flat_map(|chunk| &chunk.results);
        results.filter(move |result| result.query == query)
    };
    assert!(of_query(1).flat_map(|result| result.objects.iter().copied()).eq(0..OBJECTS));
    assert_eq!(of_query(1).map(|result| result.total).sum::<u64>(), OBJECTS);
    for query in [0, 2] {
        assert!(of_query(query).flat_map(|result| result.objects.iter().copied()).eq([5]));
    }
    until(async || server.metric("shoal_answer_bytes").await == 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_beyond_the_budget_is_refused_with_its_size() {
    let limits = ServerLimits { answer_bytes_max: 32 << 20, ..ServerLimits::default() };
    let server = crowded(ServerOptions { limits, ..options() }).await;
    let status =
        refused(server.queries().await.range(request(v1::Projection::Fixes)).await, "LIMIT");
    assert!(status.message().contains(&(32 << 20).to_string()), "{status:?}");
    // Smaller answers and answers with a limit fit.
    let answer = server.queries().await.range(request(v1::Projection::Ids)).await.unwrap();
    let chunks = within(collect(answer.into_inner())).await.unwrap();
    assert_eq!(chunks[0].header.as_ref().unwrap().total, OBJECTS);
    let answer = server.queries().await.range(request(v1::Projection::Count)).await.unwrap();
    let chunks = within(collect(answer.into_inner())).await.unwrap();
    assert_eq!((chunks.len(), chunks[0].header.as_ref().unwrap().total), (1, OBJECTS));
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_clients_release_their_memory() {
    let server = crowded(options()).await;
    let mut readers = Vec::new();
    for _ in 0..8 {
        let answer = server.queries().await.range(request(v1::Projection::Fixes)).await.unwrap();
        readers.push(answer.into_inner());
    }
    assert!(server.metric("shoal_answer_bytes").await > 0.0);
    drop(readers);
    until(async || server.metric("shoal_answer_bytes").await == 0.0).await;
}
