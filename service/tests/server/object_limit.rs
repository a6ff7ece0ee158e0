//! A fleet at its object limit applies no excess row, and refused rows have no effect.

use shoal_proto::v1;

use crate::running::{Running, START_MS, fix, millis, objects_in, report, rows, sums, world};

/// A fleet "small" with an event clock.
async fn small(server: &Running, objects_max: u64, ttl: Option<prost_types::Duration>) {
    let limits = Some(v1::FleetLimits { objects_max });
    let (name, clock) = ("small".to_owned(), v1::Clock::Event.into());
    let request = v1::CreateFleetRequest { name, clock, limits, ttl, ..Default::default() };
    server.fleets().await.create_fleet(request).await.unwrap();
}

fn to_small(fixes: Vec<v1::Fix>) -> v1::ReportRequest {
    v1::ReportRequest { fleet: "small".into(), ..rows(fixes) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_over_the_limit_does_not_advance_the_clock() {
    let server = Running::start().await;
    small(&server, 1, Some(millis(10_000))).await;
    let mut client = server.positions().await;
    report(&mut client, vec![to_small(vec![fix(1, START_MS, 0.0, 0.0)])]).await;
    let acks = report(&mut client, vec![to_small(vec![fix(2, START_MS + 50_000, 0.0, 0.0)])]).await;
    assert_eq!(sums(&acks), (0, 1, 0));
    let fleet = server.fleet("small").await;
    assert_eq!((fleet.clock_ms, fleet.object_count), (START_MS, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_holds_row_by_row_inside_a_message() {
    let server = Running::start().await;
    small(&server, 10, None).await;
    let mut client = server.positions().await;
    let fixes = (1..=15).map(|object| fix(object, START_MS, 0.0, 0.0)).collect();
    let acks = report(&mut client, vec![to_small(fixes)]).await;
    assert_eq!(sums(&acks), (10, 5, 0));
    let refused: Vec<u32> = acks[0].refused_rows.iter().map(|row| row.row).collect();
    assert_eq!(refused, [10, 11, 12, 13, 14]);
    assert_eq!(server.fleet("small").await.object_count, 10);
    // A removal frees capacity for later rows.
    let (fleet, objects) = ("small".to_owned(), vec![3]);
    let request = v1::RemoveRequest { fleet, objects, ..Default::default() };
    client.remove(request).await.unwrap();
    let fixes = vec![fix(20, START_MS, 0.0, 0.0), fix(21, START_MS, 0.0, 0.0)];
    let acks = report(&mut client, vec![to_small(fixes)]).await;
    assert_eq!(sums(&acks), (1, 1, 0));
    assert_eq!(server.fleet("small").await.object_count, 10);
    // The other fleet remains empty.
    let objects = objects_in(&mut server.queries().await, world(), Vec::new()).await;
    assert!(objects.is_empty());
}
