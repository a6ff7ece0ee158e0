//! A fix that states how long it is valid ends its record by itself, with an event, whatever brought
//! it: a row, a block, the log, a checkpoint or a leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use shoal_codec::{BlockPlan, CpuCodec, FixColumns, FixRow};
use shoal_engine::{Clock, Space};
use shoal_position_log::SimulatedDisk;
use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_service::ServerOptions;
use shoal_service::server::Environment;

use crate::clock::at_time;
use crate::follower::{ANY, caught_up, following, leading};
use crate::restart::{crashed, on, small};
use crate::running::{
    ReportsOnce as _, Running, START_MS, block, fix, objects_in, report, rows, until, world,
};
use crate::subscriber::subscription;

/// Objects 1 to 8: odd ones are valid for 2 s, the others for a day; 5 to 8 are in a block.
fn messages() -> Vec<v1::ReportRequest> {
    let valid_ms = |object: u64| if object % 2 == 1 { 2_000 } else { 86_400_000 };
    let of_rows = (1..5).map(|object| v1::Fix {
        valid_s: Some(f64::from(valid_ms(object)) / 1e3),
        ..fix(object, START_MS, 1.0, 1.0)
    });
    let mut columns = FixColumns::new();
    for object in 5..9 {
        let row = FixRow::new(object, START_MS, 10_000_000, 10_000_000);
        columns.push_row(FixRow { valid_ms: valid_ms(object), ..row });
    }
    let (mut bytes, tag) = (Vec::new(), Space::geographic().tag());
    shoal_codec::BlockCodec::encode_planned(
        &CpuCodec,
        &columns,
        &BlockPlan::fixes(),
        &tag,
        0,
        &mut bytes,
    )
    .unwrap();
    vec![rows(of_rows.collect()), block(bytes)]
}

async fn objects(server: &Running) -> Vec<u64> {
    objects_in(&mut server.queries().await, world(), Vec::new()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn records_end_by_their_own_validity_with_an_event() {
    for ttl_ms in [None, Some(60_000)] {
        let now_ms = Arc::new(AtomicI64::new(START_MS));
        let options = ServerOptions {
            default_clock: Clock::System,
            default_ttl_ms: ttl_ms,
            ..ServerOptions::default()
        };
        let server = Running::start_in(at_time(&now_ms), options).await;
        let mut subscriber = server.subscriber(vec![subscription(1, world())]).await;
        let acks = report(&mut server.positions().await, messages()).await;
        let applied: u64 = acks.iter().map(|ack| ack.rows.unwrap().applied).sum();
        assert_eq!((applied, objects(&server).await), (8, (1..9).collect()));
        now_ms.store(START_MS + 2_000, Ordering::SeqCst);
        assert_eq!(objects(&server).await.len(), 8);
        // Nobody asks: the server wakes by itself.
        now_ms.store(START_MS + 2_001, Ordering::SeqCst);
        let mut expired = Vec::new();
        while expired.len() < 4 {
            let Some(Kind::Events(batch)) = subscriber.next().await.unwrap() else { continue };
            for of in &batch.regions {
                let ended = of.objects.iter().zip(of.kinds());
                let ended = ended.filter(|(_, kind)| *kind == v1::EventKind::Expired);
                expired.extend(ended.map(|(object, _)| *object));
            }
        }
        assert_eq!((expired, objects(&server).await), (vec![1, 3, 5, 7], vec![2, 4, 6, 8]));
        // The time to live bounds a longer validity.
        now_ms.store(START_MS + 60_001, Ordering::SeqCst);
        let left = if ttl_ms.is_some() { vec![] } else { vec![2, 4, 6, 8] };
        assert_eq!(objects(&server).await, left);
        // A fix that has ended on arrival has an outcome of its own and leaves nothing.
        let old = v1::Fix { valid_s: Some(0.5), ..fix(9, START_MS + 59_500, 1.0, 1.0) };
        let ack = &report(&mut server.positions().await, vec![rows(vec![old])]).await[0];
        let counts = ack.rows.unwrap();
        assert_eq!((counts.expired, counts.applied), (1, 0));
        assert_eq!(objects(&server).await, left);
        let removed =
            server.metric("shoal_objects_removed_total{fleet=\"default\",reason=\"expired\"}");
        assert!(removed.await >= 4.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn validities_that_cannot_be_stored_are_refused_or_dropped_and_known_ones_filter() {
    let server = Running::start().await;
    let mut positions = server.positions().await;
    let valid =
        |object, valid_s| v1::Fix { valid_s: Some(valid_s), ..fix(object, START_MS, 1.0, 1.0) };
    let wrong = [-0.001, f64::NAN, f64::INFINITY, 4_294_967.294];
    let fixes: Vec<v1::Fix> = wrong.iter().map(|wrong| valid(1, *wrong)).collect();
    let ack = positions.once(rows(fixes.clone())).await.unwrap().into_inner();
    let faults: Vec<_> =
        ack.refused_rows.iter().map(|row| (row.field.as_str(), row.reason())).collect();
    assert_eq!(faults, [("valid_s", v1::RefusalReason::Validity); 4]);
    let message = v1::ReportRequest { drop_invalid_measures: true, ..rows(fixes) };
    let ack = positions.once(message).await.unwrap().into_inner();
    assert_eq!((ack.dropped.unwrap().validity, ack.rows.unwrap().refused), (4, 0));
    let good = vec![valid(2, 0.0), valid(3, 30.0), valid(4, 4_294_967.293)];
    let min_token = positions.once(rows(good)).await.unwrap().into_inner().token;
    for (min, max, expected) in [
        (0.0, 0.0, vec![2]),
        (0.0, 30.0, vec![2, 3]),
        (30.001, f64::INFINITY, vec![4]),
        (0.0, f64::INFINITY, vec![2, 3, 4]),
    ] {
        let filter = v1::Filter { valid_s: Some(v1::Interval { min, max }), ..Default::default() };
        let options = v1::QueryOptions {
            filter: Some(filter),
            min_token: min_token.clone(),
            ..Default::default()
        };
        let request = v1::RangeRequest { options: Some(options), region: Some(world()) };
        let answer = server.queries().await.range(request).await.unwrap().into_inner();
        let answer = crate::running::whole(answer).await.unwrap();
        assert_eq!(answer.objects, expected, "{min} to {max}");
    }
}

/// The log, its raw form, a checkpoint and a follower keep validities.
#[tokio::test(flavor = "multi_thread")]
async fn validities_survive_restarts_and_reach_followers() {
    for (seed, checkpoint_log_bytes) in [(1, 1 << 30), (2, 1)] {
        let now_ms = Arc::new(AtomicI64::new(START_MS));
        let place = |disk: &SimulatedDisk| Environment { wall: at_time(&now_ms).wall, ..on(disk) };
        let leader = ServerOptions {
            default_clock: Clock::System,
            limits: small(checkpoint_log_bytes),
            ..leading(checkpoint_log_bytes)
        };
        let (disk, copy) = (SimulatedDisk::new(seed), SimulatedDisk::new(seed + 10));
        let server = Running::start_at(ANY, place(&disk), leader.clone()).await;
        report(&mut server.positions().await, messages()).await;
        // The times of these rows are too far apart for a block.
        let far = [(9, START_MS), (10, START_MS - 90 * 86_400_000)];
        let far = far.map(|(object, time_ms)| v1::Fix {
            valid_s: (object == 9).then_some(2.0),
            ..fix(object, time_ms, 1.0, 1.0)
        });
        report(&mut server.positions().await, vec![rows(far.to_vec())]).await;
        if checkpoint_log_bytes == 1 {
            until(async || server.fleet("").await.log.unwrap().checkpoint_epoch > 0).await;
        }
        let follower = Running::start_in(place(&copy), following(server.address)).await;
        caught_up(&server).await;
        let fork = crashed(&disk, seed);
        server.abandon().await;
        let again = Running::start_in(place(&fork), leader).await;
        let all: Vec<u64> = (1..11).collect();
        assert_eq!((objects(&again).await, objects(&follower).await), (all.clone(), all));
        now_ms.store(START_MS + 2_001, Ordering::SeqCst);
        assert_eq!(objects(&again).await, [2, 4, 6, 8, 10]);
        follower.stop().await;
        again.stop().await;
    }
}
