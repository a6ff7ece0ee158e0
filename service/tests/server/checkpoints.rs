//! A checkpoint has the state of one epoch, although reports go on and whatever the speed of the
//! thread that takes it. One that is abandoned disturbs nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use shoal_codec::{BlockCodec as _, BlockPlan, CpuCodec, FixColumns, FixRow};
use shoal_engine::{Backend as _, EngineError, EngineOptions, ExportHeader, Model, Space};
use shoal_position_log::{ProducerState, SimulatedDisk};
use shoal_proto::v1;
use shoal_service::ServerOptions;
use shoal_service::cycle::{
    CycleRecord, CycleSink, ExportRows, SettledCycle, SinkCapacity, SinkFactory,
};
use shoal_service::limits::EXPORT_SLICE_ROWS;
use shoal_service::server::Environment;

use crate::follower::{crashed, leading, on};
use crate::gated_engine::{Gate, Shortage};
use crate::running::{ReportsOnce as _, Running, START_MS, block, options, refused, until, within};

/// Objects of the fleet: several slices.
const OBJECTS: u64 = 4 * EXPORT_SLICE_ROWS as u64;
/// Longest wait for what must come.
const WAIT: Duration = Duration::from_secs(20);

/// A checkpoint that the engine thread began.
struct Begun {
    state: ExportHeader,
    producers: Vec<ProducerState>,
    rows: Receiver<FixColumns>,
    taken: Sender<()>,
}

/// A sink that takes a checkpoint when the test requests one, with space for one slice.
#[derive(Clone)]
struct Sink {
    cycles: Arc<Mutex<Vec<CycleRecord>>>,
    is_wanted: Arc<AtomicBool>,
    begun: Sender<Begun>,
}

impl CycleSink for Sink {
    fn submitted(&mut self, cycle: CycleRecord) -> SinkCapacity {
        self.cycles.lock().unwrap().push(cycle);
        SinkCapacity::Available
    }

    fn settled(&mut self, outcome: Result<SettledCycle<'_>, &EngineError>) {
        if outcome.is_err() {
            self.cycles.lock().unwrap().pop();
        }
    }

    fn takes_checkpoint(&mut self) -> bool {
        self.is_wanted.swap(false, Ordering::SeqCst)
    }

    fn begin_checkpoint(
        &mut self,
        state: ExportHeader,
        producers: Vec<ProducerState>,
    ) -> Option<ExportRows> {
        let ((rows_sender, rows), (taken, taken_receiver)) = (bounded(1), bounded(1));
        self.begun.send(Begun { state, producers, rows, taken }).unwrap();
        Some(ExportRows::new(rows_sender, taken_receiver))
    }
}

/// A server with all objects.
struct Fixture {
    sink: Sink,
    begun: Receiver<Begun>,
    gate: Gate,
    server: Running,
    /// Number of the next report.
    number: u64,
}

impl Fixture {
    async fn start() -> Self {
        let (begun_sender, begun) = unbounded();
        let (cycles, is_wanted) = (Arc::default(), Arc::default());
        let sink = Sink { cycles, is_wanted, begun: begun_sender };
        let opened = sink.clone();
        let open = move |_: &_, _: &_| Ok(Box::new(opened.clone()) as Box<dyn CycleSink>);
        let gate = Gate::default();
        let environment = Environment { sinks: Some(SinkFactory::new(open)), ..gate.environment() };
        let options = ServerOptions { default_ttl_ms: Some(1_000_000), ..options() };
        let server = Running::start_in(environment, options).await;
        let mut fixture = Self { sink, begun, gate, server, number: 1 };
        for quarter in 0..4 {
            let first = quarter * (OBJECTS / 4);
            fixture.report(first..first + OBJECTS / 4).await;
        }
        fixture
    }

    /// Moves objects, as the next message of a producer.
    async fn report(&mut self, objects: std::ops::Range<u64>) {
        let message = self.message(objects);
        self.server.positions().await.once(message).await.unwrap();
        self.number += 1;
    }

    fn message(&self, objects: std::ops::Range<u64>) -> v1::ReportRequest {
        let mut columns = FixColumns::new();
        for object in objects {
            let x = (object * 7 + self.number) as i32;
            columns.push_row(FixRow::new(object, START_MS + self.number as i64, x, -3));
        }
        let mut bytes = Vec::new();
        CpuCodec.encode(&columns, &Space::geographic().tag(), 1, &mut bytes).unwrap();
        let producer = "p".into();
        v1::ReportRequest { producer, batch_seq: self.number, ..block(bytes) }
    }

    /// Begins a checkpoint with the next report.
    async fn begin(&mut self) -> Begun {
        self.sink.is_wanted.store(true, Ordering::SeqCst);
        self.report(0..10).await;
        self.begun.recv_timeout(WAIT).unwrap()
    }

    /// The greatest number that the producer sent up to an epoch.
    fn greatest(&self, epoch: u64) -> u64 {
        let cycles = self.sink.cycles.lock().unwrap();
        let until = cycles.iter().filter(|cycle| cycle.epoch <= epoch);
        let batches = until.flat_map(|cycle| cycle.batches.iter().flatten());
        batches.map(|batch| batch.batch_seq).max().unwrap()
    }

    /// The state after all cycles up to an epoch.
    fn expected(&self, epoch: u64) -> Vec<FixRow> {
        let options =
            EngineOptions { ttl_ms: Some(1_000_000), ..EngineOptions::new(Space::geographic()) };
        let mut model = Model::new(options);
        for cycle in self.sink.cycles.lock().unwrap().iter().filter(|cycle| cycle.epoch <= epoch) {
            model.run(cycle.input()).unwrap();
        }
        model.records().values().copied().collect()
    }

    /// Takes all rows of a checkpoint, and compares them.
    fn take(&self, begun: &Begun, mut rows: Vec<FixRow>) {
        while rows.len() < begun.state.objects as usize {
            let columns = begun.rows.recv_timeout(WAIT).unwrap();
            assert!(columns.len() <= EXPORT_SLICE_ROWS);
            let _ = begun.taken.try_send(());
            rows.extend((0..columns.len()).map(|row| columns.row(row)));
        }
        rows.sort_unstable_by_key(|row| row.object);
        assert!(rows == self.expected(begun.state.epoch), "the rows are those of the epoch");
        // The engine closes the channel at the end.
        assert!(begun.rows.recv_timeout(WAIT).is_err_and(|error| error.is_disconnected()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_go_on_beside_a_checkpoint_and_do_not_reach_it() {
    let mut fixture = Fixture::start().await;
    let begun = fixture.begin().await;
    let greatest = fixture.greatest(begun.state.epoch);
    assert_eq!(begun.state.objects, OBJECTS);
    let producers = [ProducerState { producer: "p".into(), greatest, open: Vec::new() }];
    assert_eq!(begun.producers, producers);
    // Nobody takes rows, and no report waits for that.
    within(async {
        for _ in 0..4 {
            fixture.report(0..OBJECTS / 4).await;
            fixture.report(OBJECTS - 10..OBJECTS + 1_000).await;
            let objects = (0..20_000).map(|id| id * 10 + fixture.number).collect();
            let request = v1::RemoveRequest { objects, ..Default::default() };
            fixture.server.positions().await.remove(request).await.unwrap();
        }
    })
    .await;
    assert!(fixture.server.fleet("").await.epoch > begun.state.epoch + 8);
    // An idle fleet exports the rest.
    fixture.take(&begun, Vec::new());
    let second = fixture.begin().await;
    assert!(second.state.epoch > begun.state.epoch);
    fixture.take(&second, Vec::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_checkpoint_disturbs_nothing() {
    let mut fixture = Fixture::start().await;
    drop(fixture.begin().await);
    within(fixture.report(0..OBJECTS / 4)).await;
    // Abandoned while a slice waits, and with the space for the next.
    let begun = fixture.begin().await;
    begun.rows.recv_timeout(WAIT).unwrap();
    drop(begun);
    within(fixture.report(0..OBJECTS / 4)).await;
    let begun = fixture.begin().await;
    fixture.take(&begun, Vec::new());
    // A server stops while a checkpoint is in progress.
    let begun = fixture.begin().await;
    within(fixture.server.stop()).await;
    drop(begun);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_without_memory_ends_the_checkpoint() {
    for shortage in [Shortage::Input, Shortage::Changes] {
        let mut fixture = Fixture::start().await;
        let begun = fixture.begin().await;
        fixture.gate.set_shortage(shortage);
        let message = fixture.message(0..10);
        refused(fixture.server.positions().await.once(message).await, "ENGINE_MEMORY");
        fixture.gate.set_shortage(Shortage::Nothing);
        while begun.rows.recv_timeout(WAIT).is_ok() {}
        let begun = fixture.begin().await;
        fixture.take(&begun, Vec::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_compress_to_nothing_are_checkpointed_too() {
    const ROWS: u64 = 150_000;
    let disk = SimulatedDisk::new(60);
    // At 8 M rows/s a checkpoint is due after 400,000 rows.
    let mut options = leading(1 << 40);
    options.limits.recovery_ms_max = 100;
    let server = Running::start_in(on(&disk), options.clone()).await;
    let mut columns = FixColumns::new();
    for _ in 0..ROWS {
        columns.push_row(FixRow::new(7, START_MS, 5, 5));
    }
    let mut bytes = Vec::new();
    let (plan, tag) = (BlockPlan::fixes(), Space::geographic().tag());
    CpuCodec.encode_planned(&columns, &plan, &tag, 1, &mut bytes).unwrap();
    assert!((bytes.len() as u64) < ROWS, "{}", bytes.len());
    let mut positions = server.positions().await;
    let log = async |server: &Running| server.fleet("").await.log.unwrap();
    for sent in 1..=3 {
        positions.once(block(bytes.clone())).await.unwrap();
        if sent < 3 {
            let found = log(&server).await;
            assert_eq!((found.checkpoint_epoch, found.tail_row_count), (0, sent * ROWS));
        }
    }
    until(async || log(&server).await.checkpoint_epoch > 0).await;
    assert!(log(&server).await.tail_row_count < ROWS);
    // What a recovery has replayed counts at the next start.
    positions.once(block(bytes.clone())).await.unwrap();
    let expected = log(&server).await.tail_row_count;
    assert_eq!(expected % ROWS, 0);
    let copy = crashed(&disk, 61);
    let again = Running::start_in(on(&copy), options).await;
    assert_eq!(log(&again).await.tail_row_count, expected);
}
