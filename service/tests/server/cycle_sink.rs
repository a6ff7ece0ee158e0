//! A sink receives every change exactly once and in order: replaying the cycles of a run on another
//! backend produces the same outcomes, state and answers. A full sink throttles senders.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, Sender, bounded};
use shoal_codec::{BlockCodec as _, CpuCodec, FixColumns, FixRow};
use shoal_engine::cpu::CpuBackend;
use shoal_engine::{
    Backend, Clock, CycleInput, EngineError, EngineOptions, Model, Projection, Query, QueryKind,
    Refusal, Region, Request, RequestOutcome, Space,
};
use shoal_proto::v1;
use shoal_service::cycle::{
    CycleRecord, CycleSink, SettledCycle, SinkCapacity, SinkFactory, WallClock,
};
use shoal_service::server::Environment;
use shoal_service::{ServerLimits, ServerOptions};
use shoal_testkit::Random;

use crate::encoded_blocks::corrupt_block;
use crate::gated_engine::{Gate, MakeEngine, Shortage};
use crate::running::{
    ReportsOnce as _, Running, START_MS, block, fix, options, refused, report, rows, until, within,
    world,
};
use crate::subscriber::subscription;

/// The result of a cycle: epoch, clock and request outcomes.
type Settled = Result<(u64, i64, Vec<RequestOutcome>), EngineError>;

/// A sink that records all cycles.
#[derive(Clone, Default)]
struct Recorder {
    cycles: Arc<Mutex<Vec<CycleRecord>>>,
    settled: Arc<Mutex<Vec<Settled>>>,
    /// Signals capacity; the sink is full after each cycle.
    available: Option<Receiver<()>>,
}

impl Recorder {
    fn count(&self) -> (usize, usize) {
        (self.cycles.lock().unwrap().len(), self.settled.lock().unwrap().len())
    }

    fn environment(&self, environment: Environment) -> Environment {
        let recorder = self.clone();
        let open = move |_: &_, _: &_| Ok(Box::new(recorder.clone()) as Box<dyn CycleSink>);
        Environment { sinks: Some(SinkFactory::new(open)), ..environment }
    }
}

impl CycleSink for Recorder {
    fn submitted(&mut self, cycle: CycleRecord) -> SinkCapacity {
        assert_eq!(cycle.batches.len(), cycle.requests.len());
        self.cycles.lock().unwrap().push(cycle);
        self.available.clone().map_or(SinkCapacity::Available, SinkCapacity::Full)
    }

    fn settled(&mut self, outcome: Result<SettledCycle<'_>, &EngineError>) {
        let owned = |of: SettledCycle<'_>| (of.epoch, of.clock_ms, of.outcomes.to_vec());
        self.settled.lock().unwrap().push(outcome.map(owned).map_err(Clone::clone));
    }
}

fn cpu(options: EngineOptions) -> Box<dyn Backend> {
    Box::new(CpuBackend::new(options))
}

fn model(options: EngineOptions) -> Box<dyn Backend> {
    Box::new(Model::new(options))
}

/// Random rows near the time of a round, a few of them invalid.
fn fixes(random: &mut Random, round: i64) -> Vec<v1::Fix> {
    let count = random.below(30);
    let row = |_| {
        let time_ms = START_MS + round * 100 - i64::from(random.below(400));
        let good = fix(random.below(60), time_ms, random.real(-2.0, 2.0), 1.0);
        match random.below(20) {
            0 => v1::Fix { x: f64::NAN, ..good },
            1 => v1::Fix { object: u64::MAX, ..good },
            _ => v1::Fix { speed_mps: (random.below(2) == 0).then_some(3.5), ..good },
        }
    };
    (0..count).map(row).collect()
}

fn encoded(random: &mut Random, round: i64) -> Vec<u8> {
    let mut columns = FixColumns::new();
    for _ in 0..=random.below(50) {
        let (object, x) = (random.below(60), random.below(40_000_000));
        columns.push_row(FixRow::new(object, START_MS + round * 100, x, 0));
    }
    let mut bytes = Vec::new();
    CpuCodec.encode(&columns, &Space::geographic().tag(), 1, &mut bytes).unwrap();
    bytes
}

/// Ten messages of a producer: rows and blocks; one block fails in round 20.
fn messages(random: &mut Random, round: i64) -> Vec<v1::ReportRequest> {
    let message = |number| {
        let message = match random.below(4) {
            0 => block(encoded(random, round)),
            _ if number == 3 && round == 20 => block(corrupt_block()),
            _ => rows(fixes(random, round)),
        };
        // A producer per round: later rounds do not depend on the failed number.
        let producer = format!("p{round}");
        v1::ReportRequest { producer, batch_seq: number, ..message }
    };
    (1..=10).map(message).collect()
}

/// Sends reports, resends, removals, clears, queries and subscription changes.
async fn drive(server: &Running, random: &mut Random) {
    let mut positions = server.positions().await;
    let mut subscriber = server.subscriber(vec![subscription(1, world())]).await;
    for round in 0..40 {
        let sent = messages(random, round);
        within(report(&mut positions, sent.clone())).await;
        // A resend changes nothing.
        within(positions.once(sent[0].clone())).await.unwrap();
        if round % 4 == 0 {
            let objects = (0..10).map(|_| random.below(80)).collect();
            let request = v1::RemoveRequest { objects, ..Default::default() };
            positions.remove(request).await.unwrap();
        }
        if round % 16 == 9 {
            let request = v1::ClearFleetRequest { name: "default".into() };
            server.fleets().await.clear_fleet(request).await.unwrap();
        }
        if round % 8 == 3 {
            let id = 2 + round as u64;
            let request =
                v1::ModifyRequest { add: vec![subscription(id, world())], ..Default::default() };
            subscriber.modify(request).await.unwrap();
        }
        let request = v1::RangeRequest { region: Some(world()), ..Default::default() };
        within(server.queries().await.range(request)).await.unwrap();
    }
}

/// Runs a server; returns its recorded cycles and its final engine.
async fn run(seed: u64, make: MakeEngine, clock: Clock) -> (Recorder, Box<dyn Backend>) {
    let (gate, recorder) = (Gate::default(), Recorder::default());
    let now_ms = AtomicI64::new(START_MS);
    let wall = WallClock::new(move || now_ms.fetch_add(9, Ordering::SeqCst));
    let environment = Environment { wall, ..gate.environment_of(make) };
    let limits = ServerLimits { fleet_objects_max: 50, ..ServerLimits::default() };
    let (default_clock, default_ttl_ms) = (clock, Some(600));
    // A lead of 60 ms, so that rows are ahead of the clock.
    let default_event_clock_lead_ms = None;
    let options = ServerOptions {
        default_clock,
        default_ttl_ms,
        default_event_clock_lead_ms,
        limits,
        ..options()
    };
    let server = Running::start_in(recorder.environment(environment), options).await;
    drive(&server, &mut Random::new(seed)).await;
    server.stop().await;
    (recorder, gate.ended_engine())
}

/// Answers of each kind of query over all objects, after an empty cycle.
fn answers(backend: &mut dyn Backend) -> Vec<(Vec<u64>, Vec<FixRow>, Vec<u64>)> {
    let space = Space::geographic();
    let all = Region::rectangle(&space, -180.0, -90.0, 180.0, 90.0).unwrap();
    let kinds = [
        QueryKind::Range(all),
        QueryKind::Get((0..80).collect()),
        QueryKind::nearest(1_000, 1_000, 20),
    ];
    let projection = Projection::Fixes;
    let queries = kinds.map(|kind| Query { kind, filter: None, projection, limit: None }).to_vec();
    backend.run(CycleInput::default()).unwrap();
    let output = backend.run(CycleInput { queries, ..CycleInput::default() }).unwrap();
    let answers = output.answers.iter();
    let owned = |rows: &[FixRow]| rows.to_vec();
    answers
        .map(|answer| (answer.objects.to_vec(), owned(answer.fixes), answer.ranks.to_vec()))
        .collect()
}

/// Replays a run on another engine and compares outcomes, state and answers.
fn replay(recorder: &Recorder, source: &mut dyn Backend, make: MakeEngine) {
    let mut target = make(source.options().clone());
    let (cycles, settled) = (recorder.cycles.lock().unwrap(), recorder.settled.lock().unwrap());
    assert_eq!(cycles.len(), settled.len());
    for (cycle, settled) in cycles.iter().zip(&*settled) {
        let output = target.run(cycle.input()).unwrap();
        let (epoch, clock_ms, outcomes) = settled.as_ref().unwrap();
        assert_eq!((output.epoch, output.clock_ms), (*epoch, *clock_ms));
        assert_eq!((&output.requests, output.epoch), (outcomes, cycle.epoch));
    }
    assert_eq!(target.export().unwrap(), source.export().unwrap());
    assert_eq!(answers(&mut *target), answers(source));
}

/// Confirms that every kind of request and outcome occurs, and each batch number once.
fn assert_coverage(recorder: &Recorder) {
    let (cycles, settled) = (recorder.cycles.lock().unwrap(), recorder.settled.lock().unwrap());
    let requests = || cycles.iter().flat_map(|cycle| cycle.requests.iter());
    let outcomes = || settled.iter().flatten().flat_map(|(.., outcomes)| outcomes);
    assert!(requests().any(|request| matches!(request, Request::Clear)));
    assert!(requests().any(|request| matches!(request, Request::Remove(_))));
    assert!(cycles.iter().any(|cycle| cycle.requests.is_empty()));
    assert!(cycles.iter().any(|cycle| cycle.requests.len() > 1));
    assert!(outcomes().any(|of| of.late > 0) && outcomes().any(|of| of.removed > 0));
    let is_refused = |reason| outcomes().any(|of| of.refused.iter().any(|row| row.1 == reason));
    // Rows that are invalid whatever the state and the clock are reach no engine.
    assert!(is_refused(Refusal::ObjectLimit));
    assert!(!is_refused(Refusal::Object) && !is_refused(Refusal::NotFinite));
    let batches = cycles.iter().flat_map(|cycle| cycle.batches.iter().flatten());
    let mut numbers: Vec<_> = batches.map(|of| (of.producer.to_string(), of.batch_seq)).collect();
    let sent = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), sent);
    // The seven numbers after the one that fails have no cycle if its failure is found first.
    assert!((393..=400).contains(&sent), "{sent} numbers");
}

#[tokio::test(flavor = "multi_thread")]
async fn replayed_cycles_reproduce_a_run_on_another_backend() {
    for seed in 1..=2 {
        for clock in [Clock::Event, Clock::System] {
            println!("seed {seed}, {clock:?}");
            for (source, target) in [(cpu as MakeEngine, model as MakeEngine), (model, cpu)] {
                let (recorder, mut engine) = run(seed, source, clock).await;
                assert_coverage(&recorder);
                replay(&recorder, &mut *engine, target);
            }
        }
    }
}

#[cfg(feature = "cuda")]
fn cuda(options: EngineOptions) -> Box<dyn Backend> {
    let gpu = shoal_gpu::Gpu::open(shoal_gpu::Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    Box::new(shoal_gpu::CudaBackend::new(&gpu, options).unwrap())
}

#[cfg(feature = "cuda")]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs an NVIDIA GPU"]
async fn replayed_cycles_reproduce_a_run_between_cpu_and_cuda() {
    for (source, target) in [(cpu as MakeEngine, cuda as MakeEngine), (cuda, cpu)] {
        let (recorder, mut engine) = run(3, source, Clock::System).await;
        assert_coverage(&recorder);
        replay(&recorder, &mut *engine, target);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_cycle_is_not_recorded_and_a_failed_cycle_is_reported() {
    let (gate, recorder) = (Gate::default(), Recorder::default());
    let server = Running::start_in(recorder.environment(gate.environment()), options()).await;
    let mut client = server.positions().await;
    let message = rows(vec![fix(1, START_MS, 0.0, 0.0)]);
    for (shortage, count) in [(Shortage::Input, 0), (Shortage::Changes, 1)] {
        gate.set_shortage(shortage);
        refused(client.once(message.clone()).await, "ENGINE_MEMORY");
        assert_eq!(recorder.count(), (count, count));
    }
    gate.set_shortage(Shortage::Nothing);
    client.once(message).await.unwrap();
    let epochs: Vec<_> = recorder.cycles.lock().unwrap().iter().map(|of| of.epoch).collect();
    assert_eq!(epochs, [1, 1], "the next cycle reuses the epoch of a failed cycle");
    let settled = recorder.settled.lock().unwrap();
    assert!(matches!(settled[0], Err(EngineError::OutOfMemory { .. })));
    assert_eq!(settled[1].as_ref().unwrap().0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_sink_delays_cycles_until_it_has_capacity() {
    let (release, available): (Sender<()>, _) = bounded(1);
    let recorder = Recorder { available: Some(available), ..Recorder::default() };
    let environment = recorder.environment(Gate::default().environment());
    let server = Running::start_in(environment, options()).await;
    let message = |object| rows(vec![fix(object, START_MS, 0.0, 0.0)]);
    // The cycle that fills the sink still settles.
    server.positions().await.once(message(1)).await.unwrap();
    let mut client = server.positions().await;
    let waiting = tokio::spawn(async move { client.once(message(2)).await });
    let queued = r#"shoal_queue_messages{fleet="default"}"#;
    until(async || server.metric(queued).await == 1.0).await;
    assert_eq!(recorder.count(), (1, 1));
    release.send(()).unwrap();
    within(waiting).await.unwrap().unwrap();
    assert_eq!(recorder.count(), (2, 2));
    // The sink is full again; the server stops nevertheless.
    server.stop().await;
}
