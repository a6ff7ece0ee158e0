//! Connections that break: nothing is lost, and nothing is applied twice.
//!
//! A proxy between client and server cuts its connections when a test says so.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::net::SocketAddr;
use std::time::Duration;

use shoal_client::v1::{self, subscribe_response::Kind};
use shoal_client::{BlockEncoder, Client, ConnectOptions, Payload, PlanChoice, ReportOptions};
use shoal_service::{EngineChoice, ServerOptions};
use shoal_testkit::server::{FreePort, bind_any};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// A server, and a proxy in front of it that cuts all its connections whenever the value changes.
struct Cut {
    proxy: SocketAddr,
    cuts: watch::Sender<u32>,
}

impl Cut {
    async fn start() -> Self {
        let FreePort { listener, address: server } = bind_any().await;
        let options =
            ServerOptions { engine: EngineChoice::Cpu, listen: server, ..Default::default() };
        tokio::spawn(shoal_service::run(listener, options, std::future::pending()));
        let FreePort { listener: proxy, address } = bind_any().await;
        let cuts = watch::Sender::new(0);
        let started = Self { proxy: address, cuts: cuts.clone() };
        tokio::spawn(async move {
            while let Ok((mut near, _)) = proxy.accept().await {
                let mut cut = cuts.subscribe();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        started
    }

    async fn client(&self) -> Client {
        let options = ConnectOptions { timeout: Duration::from_secs(60), ..Default::default() };
        Client::connect(&self.proxy.to_string(), options).await.unwrap()
    }

    fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

fn fixes(message: u64) -> Vec<v1::Fix> {
    let fix = |row: u64| v1::Fix {
        object: row,
        time_ms: 1_700_000_000_000 + message as i64,
        x: 1.0 + message as f64 * 1e-3,
        y: 2.0,
        ..Default::default()
    };
    (0..100).map(fix).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbered_reports_are_applied_once() {
    const MESSAGES: u64 = 300;
    let served = Cut::start().await;
    let client = served.client().await;
    let mut stream = client.report(ReportOptions::new(""));
    for message in 0..MESSAGES {
        stream.send_rows(fixes(message)).await.unwrap();
        if message % 60 == 30 {
            served.cut();
        }
    }
    let totals = stream.finish().await.unwrap();
    assert_eq!((totals.messages, totals.failed_messages), (MESSAGES, 0), "{totals:?}");
    let fleet = client.reconnect().await.unwrap().get_fleet("").await.unwrap();
    assert_eq!(fleet.object_count, 100);
    let rows = fleet.row_counts.unwrap();
    // Each row became a record or was beaten by a newer one of its cycle: none arrived twice.
    assert_eq!((rows.applied + rows.superseded, rows.duplicate, rows.late), (30_000, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_fails_by_its_own_fault_holds_nothing_up() {
    let served = Cut::start().await;
    let client = served.client().await;
    let options = ReportOptions { drop_invalid_measures: true, ..ReportOptions::new("") };
    let mut stream = client.report(options);
    let planar = v1::PlanarSpace { width_m: 10.0, height_m: 10.0, quantum_m: 0.0 };
    let planar = v1::Space { kind: Some(v1::space::Kind::Planar(planar)) };
    let wrong = BlockEncoder::new(Some(&planar), PlanChoice::Raw).encode(&fixes(0)).unwrap();
    for message in 0..40 {
        let mut fixes = fixes(message);
        fixes[1].speed_mps = Some(-1.0);
        stream.send_rows(fixes).await.unwrap();
        if message % 10 == 5 {
            stream.send(Payload::Block(wrong[0].clone())).await.unwrap();
        }
    }
    let totals = stream.finish().await.unwrap();
    let failed: Vec<u64> = totals.failed.iter().map(|failed| failed.message).collect();
    assert_eq!((totals.messages, totals.failed_messages), (44, 4), "{totals:?}");
    assert_eq!(failed, [7, 18, 29, 40]);
    assert_eq!((totals.rows_total(), totals.rows.late), (4_000, 0));
    assert_eq!((totals.rows.refused, totals.dropped.speed), (0, 40));
    let dropped: Vec<u64> = totals.dropped_measures.iter().map(|of| of.message).collect();
    assert_eq!(dropped, [1, 2, 3, 4, 5, 6, 8, 9, 10, 11]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_that_does_not_exist_ends_the_stream() {
    let served = Cut::start().await;
    let client = served.client().await;
    for options in
        [ReportOptions::new("nobody"), ReportOptions { first_batch_seq: 9, ..Default::default() }]
    {
        let expected = match options.first_batch_seq {
            1 => v1::ErrorReason::FleetUnknown,
            _ => v1::ErrorReason::ProducerUnknown,
        };
        let mut stream = client.report(options);
        stream.send_rows(fixes(0)).await.unwrap();
        assert_eq!(stream.finish().await.unwrap_err().reason(), Some(expected));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_resumes_without_a_gap() {
    let served = Cut::start().await;
    let client = served.client().await;
    let everywhere = v1::Rectangle { west: -180.0, south: -90.0, east: 180.0, north: 90.0 };
    let region = v1::Region { kind: Some(v1::region::Kind::Rectangle(everywhere)) };
    let region =
        v1::RegionSubscription { region_id: 1, region: Some(region), ..Default::default() };
    let request = v1::SubscribeRequest { regions: vec![region], ..Default::default() };
    let mut subscription = client.subscribe(request).await.unwrap();
    let mut reports = client.reconnect().await.unwrap().report(ReportOptions::new(""));
    let (mut entered, mut opened, mut sequence) = (0, 0, 0);
    for message in 0..20_u64 {
        let object = v1::Fix { object: message, ..fixes(message).remove(0) };
        reports.send_rows(vec![object]).await.unwrap();
        while entered <= message as usize {
            let received = subscription.next().await.unwrap().unwrap();
            match received.kind.unwrap() {
                Kind::Opened(_) => opened += 1,
                Kind::Events(batch) => {
                    assert_eq!(received.first_sequence, sequence + 1);
                    sequence = received.last_sequence;
                    entered += batch.regions.iter().map(|of| of.objects.len()).sum::<usize>();
                }
                Kind::Progress(_) => {}
                other => panic!("{other:?}"),
            }
        }
        if message % 5 == 2 {
            served.cut();
        }
    }
    assert_eq!((entered, opened), (20, 5));
    subscription.session().close().await.unwrap();
    reports.finish().await.unwrap();
    while let Some(message) = subscription.next().await.unwrap() {
        assert!(matches!(message.kind, Some(Kind::Progress(_))), "{message:?}");
    }
}
