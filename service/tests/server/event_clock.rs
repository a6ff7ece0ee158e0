//! One producer must not move the event clock of a fleet for all: what others reported does not
//! expire by it, what they report later is seen, and every copy of the fleet has the same clock.

use shoal_codec::{BlockCodec as _, CpuCodec, FixColumns, FixRow};
use shoal_engine::Space;
use shoal_position_log::SimulatedDisk;
use shoal_proto::v1;
use shoal_service::ServerOptions;
use shoal_service::cycle::WallClock;
use shoal_service::server::Environment;

use crate::follower::{caught_up, crashed, follow, on};
use crate::running::{
    ReportsOnce as _, Running, START_MS, block, environment, fix, millis, objects_in, options,
    refused, rows, world,
};

const OBJECTS: u64 = 1_000;

/// A server whose wall clock stands still, with a TTL of 10 s.
async fn start(wall_ms: i64) -> Running {
    let environment = Environment { wall: WallClock::new(move || wall_ms), ..environment() };
    Running::start_in(environment, of_ttl()).await
}

fn of_ttl() -> ServerOptions {
    let default_event_clock_lead_ms = None;
    ServerOptions { default_ttl_ms: Some(10_000), default_event_clock_lead_ms, ..options() }
}

/// All objects at a time.
fn honest(time_ms: i64) -> v1::ReportRequest {
    rows((0..OBJECTS).map(|object| fix(object, time_ms, 1.0, 1.0)).collect())
}

/// One object 59 s ahead.
fn wild() -> v1::ReportRequest {
    rows(vec![fix(77_777, START_MS + 59_000, 2.0, 2.0)])
}

async fn send(server: &Running, message: v1::ReportRequest) -> v1::ReportAck {
    server.positions().await.once(message).await.unwrap().into_inner()
}

/// Reports, then one row far ahead, again and from several connections, then reports.
async fn attack(server: &Running) {
    let mut gateway = server.positions().await;
    let ack = gateway.once(honest(START_MS)).await.unwrap().into_inner();
    assert_eq!(ack.rows.unwrap().ahead, 0);
    let attacker = send(server, wild()).await.rows.unwrap();
    assert_eq!((attacker.applied, attacker.ahead), (1, 1));
    let fleet = server.fleet("").await;
    assert_eq!(fleet.object_count, OBJECTS + 1);
    assert!((START_MS..=START_MS + 1_020).contains(&fleet.clock_ms), "{}", fleet.clock_ms);
    assert_eq!(fleet.row_counts.unwrap().ahead, 1);
    assert_eq!(server.metric(r#"shoal_rows_ahead_total{fleet="default"}"#).await, 1.0);
    // What is acknowledged as applied is visible.
    let ack = gateway.once(honest(START_MS + 500)).await.unwrap().into_inner();
    assert_eq!(ack.rows.unwrap().applied, OBJECTS);
    let seen = objects_in(&mut server.queries().await, world(), ack.token).await;
    assert_eq!(seen.len() as u64, OBJECTS + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_row_ahead_expires_nothing_in_a_live_fleet() {
    attack(&start(START_MS + 20).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_row_ahead_expires_nothing_in_a_replay() {
    let server = start(START_MS + 86_400_000).await;
    attack(&server).await;
    // A second client that agrees moves the clock.
    send(&server, rows(vec![fix(5, START_MS + 60_000, 1.0, 1.0)])).await;
    assert_eq!(server.fleet("").await.clock_ms, START_MS + 60_000);
    assert_eq!(server.fleet("").await.object_count, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_client_is_followed_except_for_a_single_row() {
    let server = start(START_MS + 86_400_000).await;
    let mut replay = server.positions().await;
    // The sample's kind: hours in one message, of several objects.
    let day = (0..720).map(|row| fix(row % 40, START_MS + row as i64 * 60_000, 1.0, 1.0));
    replay.once(rows(day.collect())).await.unwrap();
    let clock_ms = START_MS + 718 * 60_000 + 1_000;
    assert_eq!(server.fleet("").await.clock_ms, clock_ms);
    // The same as a block.
    let mut columns = FixColumns::new();
    for row in 720..2_000_i64 {
        columns.push_row(FixRow::new(row as u64 % 40, START_MS + row * 20_000, 1, 1));
    }
    columns.push_row(FixRow::new(50, START_MS + 80_000_000, 1, 1));
    let mut bytes = Vec::new();
    CpuCodec.encode(&columns, &Space::geographic().tag(), 1, &mut bytes).unwrap();
    let acked = replay.once(block(bytes)).await.unwrap().into_inner();
    assert_eq!(acked.rows.unwrap().ahead, 1);
    // The newest time of a second object is that of the message before.
    assert_eq!(server.fleet("").await.clock_ms, START_MS + 719 * 60_000 + 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lead_is_an_option_of_the_fleet() {
    let server = start(START_MS + 86_400_000).await;
    let mut fleets = server.fleets().await;
    let of = |name: &str, lead| v1::CreateFleetRequest {
        name: name.into(),
        clock: v1::Clock::Event.into(),
        event_clock_lead: lead,
        ..Default::default()
    };
    let free = Some(millis(36_525 * 86_400_000));
    for (name, lead, stated_ms, clock_ms) in [
        ("usual", None, 1_000, 6_000),
        ("wide", Some(millis(7_000)), 7_000, 12_000),
        ("none", Some(millis(0)), 0, 5_000),
        ("free", free, 36_525 * 86_400_000, 50_000),
    ] {
        let created = fleets.create_fleet(of(name, lead)).await.unwrap().into_inner();
        assert_eq!(created.fleet.unwrap().event_clock_lead, Some(millis(stated_ms)), "{name}");
        for time_ms in [5_000, 50_000] {
            let sent = rows(vec![fix(1, START_MS + time_ms, 0.0, 0.0)]);
            send(&server, v1::ReportRequest { fleet: name.into(), ..sent }).await;
        }
        assert_eq!(server.fleet(name).await.clock_ms, START_MS + clock_ms, "{name}");
    }
    let short = v1::CreateFleetRequest { ttl: Some(millis(3_000)), ..of("short", None) };
    let created = fleets.create_fleet(short).await.unwrap().into_inner().fleet.unwrap();
    assert_eq!(created.event_clock_lead, Some(millis(300)));
    let system = v1::CreateFleetRequest { name: "system".into(), ..Default::default() };
    let created = fleets.create_fleet(system).await.unwrap().into_inner().fleet.unwrap();
    assert_eq!(created.event_clock_lead, None);
    let negative = Some(prost_types::Duration { seconds: -1, nanos: 0 });
    refused(fleets.create_fleet(of("bad", negative)).await, "FIELD");
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_and_followers_have_the_clock_of_the_leader() {
    let disks = [SimulatedDisk::new(1), SimulatedDisk::new(2)];
    let leader = Running::start_in(on(&disks[0]), of_ttl()).await;
    let follower = follow(&disks[1], leader.address).await;
    attack(&leader).await;
    caught_up(&leader).await;
    let expected = |fleet: v1::Fleet| (fleet.epoch, fleet.clock_ms, fleet.object_count);
    let kept = expected(leader.fleet("").await);
    assert_eq!(expected(follower.fleet("").await), kept);
    let fork = crashed(&disks[0], 3);
    follower.stop().await;
    leader.stop().await;
    for disk in [&disks[0], &fork] {
        let server = Running::start_in(on(disk), of_ttl()).await;
        let (_, clock_ms, objects) = expected(server.fleet("").await);
        assert_eq!((clock_ms, objects), (kept.1, kept.2));
        server.stop().await;
    }
}
