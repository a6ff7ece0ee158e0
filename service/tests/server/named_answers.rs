//! Hazard: an answer, an event or an answer about the past of a named fleet that differs from that
//! of a numeric fleet with the same rows.
//!
//! Both fleets take the same random rows and removals; all that they answer is compared through the
//! map of names.

use std::collections::{BTreeMap, BTreeSet};

use shoal_client::{BlockEncoder, EncodedBlock, PlanChoice};
use shoal_position_log::SimulatedDisk;
use shoal_proto::v1;
use shoal_proto::v1::history_service_client::HistoryServiceClient;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_service::ServerOptions;
use shoal_service::cycle::FleetKind;
use shoal_testkit::Random;
use tonic::{Response, Status, Streaming};

use crate::history::{fleet_reaches, options};
use crate::names::named;
use crate::restart::on;
use crate::running::{
    Running, START_MS, block, collect, fix, rectangle, report, rows, whole, within,
};
use crate::subscriber::{Subscriber, subscribe, subscription};

const OBJECTS: u64 = 60;
const NAMED: &str = "default";
const NUMERIC: &str = "plain";

/// The name of an object. Some are long, some are numbers, some read from right to left.
fn name(object: u64) -> String {
    match object % 5 {
        0 => format!("{}-{object}", "n".repeat(200)),
        1 => (1_000 - object).to_string(),
        2 => format!("\u{202e}truck,\"{object}\""),
        3 => format!("../Käthe {object}"),
        _ => format!("truck-{object}"),
    }
}

/// Rows of answers by object; the fleet tells how an object is identified.
type Rows = Vec<(String, v1::FixRecord)>;

/// Labels rows: in a numeric fleet with the names that the objects have in the named one.
fn labelled(fleet: &str, objects: &[u64], names: Vec<String>) -> Vec<String> {
    if fleet == NUMERIC {
        assert_eq!(names, Vec::<String>::new());
        return objects.iter().map(|object| name(*object)).collect();
    }
    assert_eq!(names.len(), objects.len());
    names
}

fn sorted(mut labels: Vec<String>, fixes: &[v1::FixRecord]) -> Rows {
    let fixes = fixes.iter().copied().chain(std::iter::repeat(v1::FixRecord::default()));
    let mut rows: Rows = labels.drain(..).zip(fixes).collect();
    rows.sort_by(|one, two| (&one.0, one.1.time_ms).cmp(&(&two.0, two.1.time_ms)));
    rows
}

/// A response of the history.
trait Part {
    fn parts(self) -> (Vec<u64>, Vec<v1::FixRecord>, Vec<String>);
}

macro_rules! parts {
    ($($message:ident),+) => {$(
        impl Part for v1::$message {
            fn parts(self) -> (Vec<u64>, Vec<v1::FixRecord>, Vec<String>) {
                (self.objects, self.fixes, self.names)
            }
        }
    )+};
}

parts!(TrajectoryResponse, PassedResponse, AsOfResponse, ReplayResponse);

async fn past<T: Part>(
    fleet: &str,
    answer: Result<Response<Streaming<T>>, Status>,
) -> (Vec<String>, Vec<v1::FixRecord>) {
    let (mut labels, mut fixes) = (Vec::new(), Vec::new());
    for part in within(collect(answer.unwrap().into_inner())).await.unwrap() {
        let (objects, some, names) = part.parts();
        labels.extend(labelled(fleet, &objects, names));
        fixes.extend(some);
    }
    (labels, fixes)
}

/// Objects for a request, as the fleet identifies them.
fn identified(fleet: &str, objects: &[u64]) -> (Vec<u64>, Vec<String>) {
    match fleet {
        NUMERIC => (objects.to_vec(), Vec::new()),
        _ => (Vec::new(), objects.iter().map(|object| name(*object)).collect()),
    }
}

/// Both fleets of a server, and a subscriber of each.
struct Twins {
    server: Running,
    subscribers: [Subscriber; 2],
}

impl Twins {
    async fn start(disk: &SimulatedDisk) -> Self {
        let options = ServerOptions { default_kind: FleetKind::Named, ..options(4 << 30) };
        let server = Running::start_in(on(disk), options).await;
        // Removals have the same clock in both.
        let v1::Fleet { clock, ttl, event_clock_lead, .. } = server.fleet(NAMED).await;
        let name = NUMERIC.into();
        let create =
            v1::CreateFleetRequest { name, clock, ttl, event_clock_lead, ..Default::default() };
        server.fleets().await.create_fleet(create).await.unwrap();
        let subscriber = async |fleet: &str| {
            let region = subscription(7, rectangle(-40.0, -90.0, 40.0, 90.0));
            let region = v1::RegionSubscription {
                projection: v1::Projection::Fixes.into(),
                evaluation: v1::Evaluation::EveryFix.into(),
                ..region
            };
            let request = v1::SubscribeRequest { fleet: fleet.into(), ..subscribe(vec![region]) };
            Subscriber::open(server.subscriptions().await, request).await.unwrap()
        };
        let subscribers = [subscriber(NAMED).await, subscriber(NUMERIC).await];
        Self { server, subscribers }
    }

    /// Sends the same rows and removals to both fleets; returns the token of each.
    async fn drive(&mut self, random: &mut Random, round: i64) -> [Vec<u8>; 2] {
        let fixes: Vec<_> = (0..1 + random.below(40))
            .map(|row| {
                let time_ms = START_MS + round * 1_000 - i64::from(random.below(3_000));
                let x = random.real(-90.0, 90.0);
                fix(random.below(OBJECTS), time_ms + i64::from(row), x, 1.0)
            })
            .collect();
        let removed: Vec<u64> = (0..random.below(4)).map(|_| random.below(OBJECTS)).collect();
        let mut tokens = [Vec::new(), Vec::new()];
        let mut counts = Vec::new();
        let as_block = random.below(2) == 0;
        for (fleet, token) in [NAMED, NUMERIC].into_iter().zip(&mut tokens) {
            let sent: Vec<_> = fixes
                .iter()
                .map(|fix| match fleet {
                    NUMERIC => fix.clone(),
                    _ => named(&name(fix.object), fix.time_ms, fix.x, fix.y),
                })
                .collect();
            let message = if as_block {
                let described = self.server.fleet(fleet).await;
                let mut encoder = BlockEncoder::of_fleet(&described, PlanChoice::Fixes);
                let EncodedBlock { block: bytes, names: block_names, .. } =
                    encoder.encode(&sent).unwrap().remove(0);
                v1::ReportRequest { block_names, ..block(bytes.into()) }
            } else {
                rows(sent)
            };
            let message = v1::ReportRequest { fleet: fleet.into(), ..message };
            let mut positions = self.server.positions().await;
            let ack = report(&mut positions, vec![message]).await.remove(0);
            let (objects, names) = identified(fleet, &removed);
            let request =
                v1::RemoveRequest { fleet: fleet.into(), objects, names, ..Default::default() };
            let removed = positions.remove(request).await.unwrap().into_inner();
            counts.push((ack.rows, removed.removed_count, removed.missing_count));
            *token = removed.token;
        }
        assert_eq!(counts[0], counts[1]);
        tokens
    }

    /// Answers of the live state.
    async fn live(&self, fleet: &str, min_token: Vec<u8>, seed: u64) -> Vec<Rows> {
        let (mut random, mut queries) = (Random::new(seed), self.server.queries().await);
        let projection = v1::Projection::Fixes.into();
        let options =
            v1::QueryOptions { fleet: fleet.into(), min_token, projection, ..Default::default() };
        let options = Some(options);
        let (west, width) = (random.real(-90.0, 0.0), random.real(0.0, 90.0));
        let region = Some(rectangle(west, 0.0, west + width, 2.0));
        let request = v1::RangeRequest { options: options.clone(), region };
        let range = whole(queries.range(request).await.unwrap().into_inner()).await.unwrap();
        let some: Vec<u64> = (0..20).map(|_| random.below(2 * OBJECTS)).collect();
        let (objects, names) = identified(fleet, &some);
        let request = v1::GetRequest { options: options.clone(), objects, names };
        let get = whole(queries.get(request).await.unwrap().into_inner()).await.unwrap();
        let (x, k) = (random.real(-90.0, 90.0), 1 + random.below(30));
        let request = v1::NearestRequest { options, x, y: 1.0, k, ..Default::default() };
        let nearest = whole(queries.nearest(request).await.unwrap().into_inner()).await.unwrap();
        let answers = [range, get, nearest].into_iter();
        answers.map(|it| sorted(labelled(fleet, &it.objects, it.names), &it.fixes)).collect()
    }

    /// Answers of the past. A track keeps the order of the request.
    async fn past(&self, fleet: &str, seed: u64) -> Vec<Rows> {
        let mut random = Random::new(seed);
        let mut histories = HistoryServiceClient::new(self.server.channel().await);
        let moment = |random: &mut Random| START_MS - 5_000 + i64::from(random.below(50_000));
        let (one, two) = (moment(&mut random), moment(&mut random));
        let window = Some(v1::TimeWindow { from_ms: one.min(two), to_ms: one.max(two) });
        let region = Some(rectangle(-60.0, 0.0, 30.0, 2.0));
        let some: BTreeSet<u64> = (0..8).map(|_| random.below(OBJECTS)).collect();
        let some: Vec<u64> = some.into_iter().rev().collect();
        let fleet_field = || fleet.to_owned();
        let (objects, names) = identified(fleet, &some);
        let request =
            v1::TrajectoryRequest { fleet: fleet_field(), objects, names, window, every: None };
        let (labels, fixes) = past(fleet, histories.trajectory(request).await).await;
        let mut answers = vec![labels.into_iter().zip(fixes).collect()];
        for projection in [v1::Projection::Ids, v1::Projection::Fixes] {
            let (fleet_name, projection) = (fleet_field(), projection.into());
            let region = region.clone();
            let request =
                v1::PassedRequest { fleet: fleet_name, region, window, projection, filter: None };
            let (labels, fixes) = past(fleet, histories.passed(request).await).await;
            answers.push(sorted(labels, &fixes));
        }
        for is_of_some in [false, true] {
            let (objects, names) = identified(fleet, if is_of_some { &some } else { &[] });
            let (fleet_name, time_ms) = (fleet_field(), one);
            let request = v1::AsOfRequest {
                fleet: fleet_name,
                time_ms,
                objects,
                names,
                ..Default::default()
            };
            let (labels, fixes) = past(fleet, histories.as_of(request).await).await;
            answers.push(sorted(labels, &fixes));
        }
        for speed in [0.0, 1e6] {
            let request =
                v1::ReplayRequest { fleet: fleet_field(), window, speed, ..Default::default() };
            let (labels, fixes) = past(fleet, histories.replay(request).await).await;
            answers.push(sorted(labels, &fixes));
        }
        answers
    }

    /// Reads the events of both fleets up to their epochs; they are equal.
    async fn compare_events(&mut self, epochs: [u64; 2]) -> usize {
        let mut events = [Vec::new(), Vec::new()];
        let fleets = [NAMED, NUMERIC].into_iter().zip(epochs);
        for (((fleet, epoch), subscriber), events) in
            fleets.zip(&mut self.subscribers).zip(&mut events)
        {
            while subscriber.epoch < epoch {
                let found: Vec<_> = match subscriber.next().await.unwrap().unwrap() {
                    Kind::Snapshot(chunk) => chunk
                        .regions
                        .into_iter()
                        .flat_map(|of| {
                            let labels = labelled(fleet, &of.objects, of.names).into_iter();
                            labels
                                .zip(of.fixes)
                                .map(|(label, fix)| (label, 0, fix))
                                .collect::<Vec<_>>()
                        })
                        .collect(),
                    Kind::Events(batch) => batch
                        .regions
                        .into_iter()
                        .flat_map(|of| {
                            let labels = labelled(fleet, &of.objects, of.names).into_iter();
                            let events = labels.zip(of.kinds).zip(of.fixes);
                            events
                                .map(|((label, kind), fix)| (label, kind, fix))
                                .collect::<Vec<_>>()
                        })
                        .collect(),
                    Kind::Progress(_) => Vec::new(),
                    other => panic!("{other:?}"),
                };
                events.extend(found);
            }
        }
        // The events of an object are in order in both.
        let of_each = |events: &[(String, i32, v1::FixRecord)]| {
            let mut of_each: BTreeMap<String, Vec<(i32, v1::FixRecord)>> = BTreeMap::new();
            for (label, kind, fix) in events {
                of_each.entry(label.clone()).or_default().push((*kind, *fix));
            }
            of_each
        };
        assert_eq!(of_each(&events[0]), of_each(&events[1]));
        events[0].len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_fleet_answers_as_a_numeric_one_through_the_map_of_names() {
    for seed in 1..=2 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut twins = Twins::start(&SimulatedDisk::new(seed)).await;
        let (mut events, mut rows) = (0, 0);
        for round in 0..40 {
            let [named_token, token] = twins.drive(&mut random, round).await;
            let question = random.word();
            let found = twins.live(NAMED, named_token, question).await;
            assert_eq!(found, twins.live(NUMERIC, token, question).await, "round {round}");
            if round % 10 == 9 {
                let fleets = [twins.server.fleet(NAMED).await, twins.server.fleet(NUMERIC).await];
                events += twins.compare_events(fleets.each_ref().map(|fleet| fleet.epoch)).await;
                for fleet in fleets {
                    fleet_reaches(&twins.server, &fleet.name, fleet.epoch).await;
                }
                for _ in 0..5 {
                    let question = random.word();
                    let found = twins.past(NAMED, question).await;
                    assert_eq!(found, twins.past(NUMERIC, question).await, "round {round}");
                    rows += found.iter().map(Vec::len).sum::<usize>();
                }
            }
        }
        assert!(events > 100 && rows > 1_000, "{events} events, {rows} rows");
    }
}
