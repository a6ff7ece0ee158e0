//! Fleets are created, described, cleared and deleted; requests in progress fail with the reason.

use std::sync::Mutex;

use shoal_engine::cpu::CpuBackend;
use shoal_engine::{Backend, EngineOptions, HashKey};
use shoal_position_log::SimulatedDisk;
use shoal_proto::v1;
use shoal_service::{ServerLimits, ServerOptions};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic_types::StatusExt as _;

use crate::gated_engine::{Gate, Shortage};
use crate::restart::start;
use crate::running::{
    ReportsOnce as _, Running, START_MS, Whole, assert_refused, fix, millis, objects_in, options,
    refused, report, rows, sums, until, whole, within, world,
};
use crate::subscriber::{Subscriber, subscribe, subscription};

fn named(name: &str) -> v1::CreateFleetRequest {
    let clock = v1::Clock::Event.into();
    v1::CreateFleetRequest { name: name.into(), clock, ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_is_created_described_cleared_and_deleted() {
    let server = Running::start().await;
    let mut fleets = server.fleets().await;
    let planar = v1::PlanarSpace { width_m: 100.0, height_m: 50.0, quantum_m: 0.5 };
    let space = Some(v1::Space { kind: Some(v1::space::Kind::Planar(planar)) });
    let limits = Some(v1::FleetLimits { objects_max: 7 });
    let request =
        v1::CreateFleetRequest { space, ttl: Some(millis(5000)), limits, ..named("plane") };
    let created = fleets.create_fleet(request.clone()).await.unwrap().into_inner().fleet.unwrap();
    assert_eq!(created.space, space);
    assert_eq!((created.clock(), created.ttl), (v1::Clock::Event, Some(millis(5000))));
    assert_eq!((created.limits, created.engine.as_str()), (limits, "cpu"));
    refused(fleets.create_fleet(request).await, "FLEET_EXISTS");
    let listed =
        fleets.list_fleets(v1::ListFleetsRequest::default()).await.unwrap().into_inner().fleets;
    let names: Vec<_> = listed.iter().map(|fleet| fleet.name.as_str()).collect();
    assert_eq!(names, ["default", "plane"]);
    assert_ne!(listed[0].term, listed[1].term);

    let to_plane = |fixes| v1::ReportRequest { fleet: "plane".into(), ..rows(fixes) };
    let message = to_plane(vec![fix(1, START_MS, 100.0, 50.0), fix(2, START_MS, 101.0, 0.0)]);
    let acks = report(&mut server.positions().await, vec![message]).await;
    assert_eq!(sums(&acks), (1, 1, 0));
    let plane = server.fleet("plane").await;
    let counts = plane.row_counts.unwrap();
    assert_eq!((plane.object_count, counts.applied, counts.refused), (1, 1, 1));
    assert_eq!((plane.term, plane.clock_ms), (created.term, START_MS));
    assert!(plane.memory_bytes > 0 && plane.epoch >= 1);

    let clear = v1::ClearFleetRequest { name: "plane".into() };
    let cleared = fleets.clear_fleet(clear).await.unwrap().into_inner();
    assert_eq!(cleared.removed_count, 1);
    assert!(cleared.epoch > plane.epoch && !cleared.token.is_empty());

    let request = v1::DeleteFleetRequest { name: "plane".into() };
    fleets.delete_fleet(request.clone()).await.unwrap();
    refused(fleets.delete_fleet(request).await, "FLEET_UNKNOWN");
    let (_, metrics) = server.http("/metrics").await;
    assert!(!metrics.contains("plane"), "series of a dropped fleet remain");
    // The name can be reused by a new fleet.
    let again = fleets.create_fleet(named("plane")).await.unwrap().into_inner().fleet.unwrap();
    assert_ne!(again.term, created.term);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_fleet_continues_and_its_old_name_is_free() {
    let disk = SimulatedDisk::new(3);
    let server = start(&disk).await;
    let mut fleets = server.fleets().await;
    let created = fleets.create_fleet(named("bus")).await.unwrap().into_inner().fleet.unwrap();
    let to = |fleet: &str, object| v1::ReportRequest {
        fleet: fleet.into(),
        ..rows(vec![fix(object, START_MS, 1.0, 1.0)])
    };
    // A report stream and a subscription that are open during the change.
    let (sender, messages) = mpsc::channel(1);
    let stream = server.positions().await.report(ReceiverStream::new(messages)).await;
    let mut acks = stream.unwrap().into_inner();
    sender.send(to("bus", 1)).await.unwrap();
    let ack = acks.message().await.unwrap().unwrap().ack.unwrap();
    let regions = vec![subscription(1, world())];
    let request = v1::SubscribeRequest { fleet: "bus".into(), ..subscribe(regions) };
    let mut subscriber = Subscriber::open(server.subscriptions().await, request).await.unwrap();
    subscriber.until(ack.epoch).await;

    let rename = |name: &str, new_name: &str| {
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        v1::RenameFleetRequest { name, new_name }
    };
    refused(fleets.rename_fleet(rename("bus", "default")).await, "FLEET_EXISTS");
    refused(fleets.rename_fleet(rename("tram", "van")).await, "FLEET_UNKNOWN");
    refused(fleets.rename_fleet(rename("bus", "A")).await, "FLEET_NAME");
    refused(fleets.rename_fleet(rename("", "tram")).await, "FLEET_NAME");
    fleets.rename_fleet(rename("bus", "bus")).await.unwrap();
    let renamed = fleets.rename_fleet(rename("bus", "tram")).await.unwrap().into_inner();
    let renamed = renamed.fleet.unwrap();
    assert_eq!((renamed.name.as_str(), renamed.term), ("tram", created.term));
    assert!(renamed.epoch >= ack.epoch && renamed.object_count == 1);
    refused(fleets.get_fleet(v1::GetFleetRequest { name: "bus".into() }).await, "FLEET_UNKNOWN");
    let (_, metrics) = server.http("/metrics").await;
    assert!(!metrics.contains("\"bus\"") && metrics.contains("outcome=\"applied\""));
    let applied = "shoal_rows_total{fleet=\"tram\",outcome=\"applied\"} 1";
    assert!(metrics.contains(applied), "{metrics}");

    // Another fleet of the old name has its own folder.
    let other = fleets.create_fleet(named("bus")).await.unwrap().into_inner().fleet.unwrap();
    assert_ne!(other.term, created.term);
    server.positions().await.once(to("bus", 7)).await.unwrap();
    // The stream and the subscription continue. Each message names its fleet as it is called now.
    sender.send(to("tram", 2)).await.unwrap();
    let ack = acks.message().await.unwrap().unwrap().ack.unwrap();
    sender.send(to("bus", 8)).await.unwrap();
    acks.message().await.unwrap().unwrap();
    subscriber.until(ack.epoch).await;
    assert_eq!(subscriber.held[&1], [1, 2].into());
    let token = subscriber.token.clone();
    let resume =
        v1::SubscribeRequest { fleet: "tram".into(), resume_token: token, ..Default::default() };
    Subscriber::open(server.subscriptions().await, resume).await.unwrap();
    fleets.rename_fleet(rename("bus", "van")).await.unwrap();
    sender.send(to("bus", 9)).await.unwrap();
    // A message after the one that ends the stream is not applied.
    let _ = sender.send(to("tram", 10)).await;
    assert_refused(&within(acks.message()).await.unwrap_err(), "FLEET_UNKNOWN");
    fleets.rename_fleet(rename("van", "bus")).await.unwrap();
    drop((sender, acks, subscriber));
    server.stop().await;

    let server = start(&disk).await;
    let mut fleets = server.fleets().await;
    let (bus, tram) = (server.fleet("bus").await, server.fleet("tram").await);
    assert_eq!((bus.term, bus.object_count), (other.term, 2));
    assert_eq!((tram.term, tram.object_count), (created.term, 2));
    // Deleting one leaves the other.
    fleets.delete_fleet(v1::DeleteFleetRequest { name: "tram".into() }).await.unwrap();
    fleets.rename_fleet(rename("bus", "tram")).await.unwrap();
    fleets.create_fleet(named("bus")).await.unwrap();
    fleets.delete_fleet(v1::DeleteFleetRequest { name: "bus".into() }).await.unwrap();
    server.stop().await;
    let server = start(&disk).await;
    let tram = server.fleet("tram").await;
    assert_eq!((tram.term, tram.object_count), (other.term, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_fleets_are_refused() {
    let limits = ServerLimits { fleets_max: 2, ..ServerLimits::default() };
    let server = Running::start_with(ServerOptions { limits, ..options() }).await;
    let mut fleets = server.fleets().await;
    for name in ["", "Upper", "a b", &"x".repeat(65)] {
        refused(fleets.create_fleet(named(name)).await, "FLEET_NAME");
    }
    let planar = |width_m, height_m, quantum_m| {
        let planar = v1::PlanarSpace { width_m, height_m, quantum_m };
        let space = Some(v1::Space { kind: Some(v1::space::Kind::Planar(planar)) });
        v1::CreateFleetRequest { space, ..named("f") }
    };
    let negative = prost_types::Duration { seconds: -1, nanos: 0 };
    let too_many = Some(v1::FleetLimits { objects_max: u64::MAX });
    for request in [
        planar(0.0, 1.0, 0.0),
        planar(-1.0, 1.0, 0.0),
        planar(f64::NAN, 1.0, 0.0),
        planar(1e12, 1.0, 0.01),
        planar(1.0, 1.0, -1.0),
        // Sides must be multiples of the quantum; they are never rounded.
        planar(10.0, 10.0, 6.0),
        planar(100.0, 50.0, 0.3),
        v1::CreateFleetRequest { clock: 9, ..named("f") },
        v1::CreateFleetRequest { ttl: Some(negative), ..named("f") },
        v1::CreateFleetRequest { limits: too_many, ..named("f") },
    ] {
        refused(fleets.create_fleet(request).await, "FIELD");
    }
    fleets.create_fleet(named("second")).await.unwrap();
    refused(fleets.create_fleet(named("third")).await, "LIMIT");
    // Destructive calls require a name: empty does not mean "default".
    refused(fleets.delete_fleet(v1::DeleteFleetRequest::default()).await, "FLEET_NAME");
    refused(fleets.clear_fleet(v1::ClearFleetRequest::default()).await, "FLEET_NAME");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_progress_fail_when_their_fleet_is_deleted() {
    let (gate, server) = Gate::start(options()).await;
    let mut fleets = server.fleets().await;
    fleets.create_fleet(named("doomed")).await.unwrap();
    let (sender, receiver) = mpsc::channel(10);
    let mut client = server.positions().await;
    let mut acks = client.report(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let to_doomed = |object| {
        let fixes = vec![fix(object, START_MS, 0.0, 0.0)];
        v1::ReportRequest { fleet: "doomed".into(), ..rows(fixes) }
    };
    sender.send(to_doomed(1)).await.unwrap();
    let first = within(acks.message()).await.unwrap().unwrap();
    assert_eq!(sums(&[first.ack.unwrap()]), (1, 0, 0));
    gate.shut();
    sender.send(to_doomed(2)).await.unwrap();
    until(async || gate.is_stopping_one()).await;
    for object in 3..6 {
        sender.send(to_doomed(object)).await.unwrap();
    }
    let queued = r#"shoal_queue_messages{fleet="doomed"}"#;
    until(async || server.metric(queued).await == 4.0).await;
    let mut queries = server.queries().await;
    let querying = tokio::spawn(async move {
        let options = v1::QueryOptions { fleet: "doomed".into(), ..Default::default() };
        let request =
            v1::GetRequest { options: Some(options), objects: vec![1], ..Default::default() };
        queries.get(request).await
    });
    until(async || server.metric(r#"shoal_queue_queries{fleet="doomed"}"#).await == 1.0).await;
    let dropping = tokio::spawn(async move {
        fleets.delete_fleet(v1::DeleteFleetRequest { name: "doomed".into() }).await
    });
    until(async || server.http("/metrics").await.1.contains("doomed")).await;
    // A cycle in flight may still be applied; queued requests fail.
    until(async || {
        let request = v1::GetFleetRequest { name: "doomed".into() };
        server.fleets().await.get_fleet(request).await.is_err()
    })
    .await;
    gate.open();
    within(dropping).await.unwrap().unwrap();
    refused(within(querying).await.unwrap(), "FLEET_DELETED");
    let status = loop {
        match within(acks.message()).await {
            Ok(ack) => assert!(ack.is_some(), "the stream ended well"),
            Err(status) => break status,
        }
    };
    assert_refused(&status, "FLEET_DELETED");
    // The other fleet is not affected.
    let message = rows(vec![fix(9, START_MS, 0.0, 0.0)]);
    let ack = server.positions().await.once(message).await.unwrap().into_inner();
    assert_eq!(objects_in(&mut server.queries().await, world(), ack.token).await, [9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_engine_is_reported_to_clients_and_operators() {
    let (gate, server) = Gate::start(options()).await;
    assert!(server.http("/healthz").await.0.contains("200"));
    gate.fail();
    let mut client = server.positions().await;
    let message = rows(vec![fix(1, START_MS, 0.0, 0.0)]);
    refused(client.once(message.clone()).await, "ENGINE_DEVICE");
    until(async || server.http("/healthz").await.0.contains("503")).await;
    refused(client.once(message).await, "FLEET_FAILED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_without_memory_is_refused_and_the_fleet_continues() {
    let (gate, server) = Gate::start(options()).await;
    let mut client = server.positions().await;
    for (object, shortage) in [(1, Shortage::Input), (2, Shortage::Changes)] {
        gate.set_shortage(shortage);
        let message = rows(vec![fix(object, START_MS, 0.0, 0.0)]);
        let status = refused(client.once(message.clone()).await, "ENGINE_MEMORY");
        let details = status.get_error_details();
        let metadata = &details.error_info().unwrap().metadata;
        assert_eq!(
            (metadata["needed_bytes"].as_str(), metadata["left_bytes"].as_str()),
            ("30", "20")
        );
        assert!(status.message().contains("the fleet's memory"), "{}", status.message());
        assert!(server.http("/healthz").await.0.contains("200"));
        gate.set_shortage(Shortage::Nothing);
        let ack = client.once(message).await.unwrap().into_inner();
        let known: Vec<u64> = (1..=object).collect();
        let options = v1::QueryOptions { min_token: ack.token, ..Default::default() };
        let request = v1::RangeRequest { options: Some(options), region: Some(world()) };
        let answer = server.queries().await.range(request).await.unwrap().into_inner();
        let Whole { header, objects, .. } = whole(answer).await.unwrap();
        assert_eq!(objects, known);
        // One cycle per report and per query: a refused cycle consumes no epoch.
        assert_eq!((header.epoch, header.staleness_epochs), (2 * object, 0), "{shortage:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_memory_are_refused_and_changes_remain() {
    let (gate, server) = Gate::start(options()).await;
    gate.set_shortage(Shortage::Answers);
    let message = rows(vec![fix(1, START_MS, 0.0, 0.0)]);
    let ack = server.positions().await.once(message).await.unwrap().into_inner();
    let request = v1::RangeRequest { region: Some(world()), ..Default::default() };
    let refused = match server.queries().await.range(request).await {
        Err(status) => status,
        Ok(answer) => whole(answer.into_inner()).await.err().unwrap(),
    };
    assert_refused(&refused, "ENGINE_MEMORY");
    assert!(server.http("/healthz").await.0.contains("200"));
    gate.set_shortage(Shortage::Nothing);
    assert_eq!(objects_in(&mut server.queries().await, world(), ack.token).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fleets_are_listed_page_by_page() {
    let server = Running::start().await;
    let mut fleets = server.fleets().await;
    for name in ["a", "b", "c", "x"] {
        fleets.create_fleet(named(name)).await.unwrap();
    }
    let (mut names, mut sizes, mut page_token) = (Vec::new(), Vec::new(), String::new());
    loop {
        let request = v1::ListFleetsRequest { page_size: 2, page_token };
        let page = fleets.list_fleets(request).await.unwrap().into_inner();
        sizes.push(page.fleets.len());
        names.extend(page.fleets.into_iter().map(|fleet| fleet.name));
        if page.next_page_token.is_empty() {
            break;
        }
        page_token = page.next_page_token;
        // The last fleet of the page is deleted; the listing continues after its name.
        if names.last().is_some_and(|name| name == "b") {
            fleets.delete_fleet(v1::DeleteFleetRequest { name: "b".into() }).await.unwrap();
        }
    }
    assert_eq!(names, ["a", "b", "c", "default", "x"]);
    assert_eq!(sizes, [2, 2, 1]);
    for request in [
        v1::ListFleetsRequest { page_size: -1, ..Default::default() },
        v1::ListFleetsRequest { page_token: "No Token".into(), ..Default::default() },
    ] {
        refused(fleets.list_fleets(request).await, "FIELD");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_report_stream_ends_with_its_fleet() {
    let server = Running::start().await;
    let mut fleets = server.fleets().await;
    fleets.create_fleet(named("doomed")).await.unwrap();
    let (sender, receiver) = mpsc::channel(10);
    let mut client = server.positions().await;
    let mut acks = client.report(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let message =
        || v1::ReportRequest { fleet: "doomed".into(), ..rows(vec![fix(1, START_MS, 0.0, 0.0)]) };
    sender.send(message()).await.unwrap();
    let ack = within(acks.message()).await.unwrap().unwrap().ack.unwrap();
    // The stream is idle when the fleet is deleted.
    fleets.delete_fleet(v1::DeleteFleetRequest { name: "doomed".into() }).await.unwrap();
    let again = fleets.create_fleet(named("doomed")).await.unwrap().into_inner().fleet.unwrap();
    assert_ne!(again.term, ack.term);
    refused(within(acks.message()).await, "FLEET_DELETED");
    // Later messages do not reach the new fleet.
    let _ = sender.send(message()).await;
    let fleet = server.fleet("doomed").await;
    assert_eq!((fleet.object_count, fleet.epoch), (0, 0));
}

/// The keys, terms and debug texts of the engines that were started for the test below.
static STARTED: Mutex<Vec<(HashKey, u64, String)>> = Mutex::new(Vec::new());

fn noting_engine(options: EngineOptions) -> Box<dyn Backend> {
    let text = format!("{options:?}");
    STARTED.lock().unwrap().push((options.hash_key, options.term, text));
    Box::new(CpuBackend::new(options))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_engine_has_a_secret_hash_key() {
    let environment = Gate::default().environment_of(noting_engine);
    let server = Running::start_in(environment, options()).await;
    let mut fleets = server.fleets().await;
    for name in ["a", "b"] {
        fleets.create_fleet(named(name)).await.unwrap();
    }
    let started = STARTED.lock().unwrap().clone();
    assert!(started.len() >= 2, "{started:?}");
    for (at, (key, term, text)) in started.iter().enumerate() {
        assert!(started[..at].iter().all(|(other, ..)| other != key) && *key != HashKey::FIXED);
        for word in key.words() {
            assert!(word != *term && word != 0, "the key follows from the term");
            assert!(!text.contains(&word.to_string()) && !text.contains(&format!("{word:x}")));
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_takes_the_settings_of_another_that_its_request_leaves_open() {
    let server = Running::start().await;
    let mut fleets = server.fleets().await;
    let plane = v1::PlanarSpace { width_m: 50.0, height_m: 20.0, quantum_m: 0.0 };
    let model = v1::CreateFleetRequest {
        name: "model".into(),
        space: Some(v1::Space { kind: Some(v1::space::Kind::Planar(plane)) }),
        clock: v1::Clock::Event.into(),
        ttl: Some(millis(5_000)),
        limits: Some(v1::FleetLimits { objects_max: 7 }),
        durability: v1::Durability::Applied.into(),
        event_clock_lead: Some(millis(300)),
        kind: v1::FleetKind::Named.into(),
        settings_of: String::new(),
    };
    let model = fleets.create_fleet(model).await.unwrap().into_inner().fleet.unwrap();
    let settings = |fleet: &v1::Fleet| {
        let v1::Fleet { space, clock, ttl, limits, durability, event_clock_lead, kind, .. } =
            fleet.clone();
        (space, clock, ttl, limits, durability, event_clock_lead, kind)
    };
    let like = |name: &str| v1::CreateFleetRequest {
        name: name.into(),
        settings_of: "model".into(),
        ..Default::default()
    };
    let copy = fleets.create_fleet(like("copy")).await.unwrap().into_inner().fleet.unwrap();
    assert_eq!(settings(&copy), settings(&model));
    // What the request states counts.
    let request = v1::CreateFleetRequest {
        ttl: Some(millis(0)),
        limits: Some(v1::FleetLimits { objects_max: 9 }),
        kind: v1::FleetKind::Numeric.into(),
        ..like("other")
    };
    let other = fleets.create_fleet(request).await.unwrap().into_inner().fleet.unwrap();
    assert_eq!((other.ttl, other.limits.unwrap().objects_max), (None, 9));
    assert_eq!((other.kind(), other.clock()), (v1::FleetKind::Numeric, v1::Clock::Event));
    let unknown = v1::CreateFleetRequest { settings_of: "no-such".into(), ..like("x") };
    refused(fleets.create_fleet(unknown).await, "FLEET_UNKNOWN");
}
