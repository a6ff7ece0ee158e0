//! Recovers a fleet: loads the newest checkpoint into an engine, then replays the cycles of the log
//! after it.
//!
//! The fleet accepts no requests before the whole log has been read and verified.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, unbounded};
use shoal_engine::limits::CYCLES_IN_FLIGHT_MAX;
use shoal_engine::{EngineError, EngineOptions, Request, Ticket};
use shoal_position_log::{LogError, LogWriter, ReadMode, Recovered, Retention, Terms, open_newest};
use tracing::{info, warn};

use super::checkpoint::{self, CheckpointThread, CheckpointTools};
use super::data_folder::{FleetFolder, random};
use super::disk_thread::DiskThread;
use super::fleet_log::{FleetLog, LogReading};
use super::group_thread::GroupThread;
use super::history::{HistoryHandle, HistoryKeep};
use super::log_sink::LogSink;
use super::read_ahead::{CycleBatch, read_ahead};
use crate::cycle::{
    BatchId, CurrentName, CycleNumber, CycleRecord, NumberedEngine, Producers, SharedTerms,
    WallClock,
};
use crate::engine_choice::EngineFactory;
use crate::error::ServiceError;
use crate::limits::{EXPORT_SLICE_ROWS, RECOVERY_PROGRESS_MS, ServerLimits};
use crate::metrics::FleetMetrics;
use crate::names::NameTable;
use crate::threads::LazyThread;

/// What recovery needs.
pub(crate) struct RecoveryTools<'a> {
    pub(crate) folder: &'a FleetFolder,
    pub(crate) options: &'a EngineOptions,
    /// The names of a named fleet, which recovery fills; `None` for a numeric fleet.
    pub(crate) names: Option<&'a Arc<NameTable>>,
    pub(crate) engines: &'a EngineFactory,
    pub(crate) limits: &'a ServerLimits,
    pub(crate) wall: &'a WallClock,
    pub(crate) metrics: &'a FleetMetrics,
    /// Set when the server shuts down.
    pub(crate) is_stopping: &'a AtomicBool,
    /// Whether the fleet follows a leader; its log then continues the leader's term and begins none
    /// of its own.
    pub(crate) follows: bool,
    /// Whether other servers may have copies of the fleet.
    pub(crate) has_followers: bool,
    /// How much history is kept; `None` if the server keeps no history.
    pub(crate) history: Option<HistoryKeep>,
}

/// A fleet with the state that its checkpoint and log contain.
pub(crate) struct RecoveredFleet {
    pub(crate) backend: NumberedEngine,
    pub(crate) producers: Producers,
    pub(crate) epoch: u64,
    pub(crate) clock_ms: i64,
    pub(crate) terms: Arc<SharedTerms>,
    pub(crate) sink: LogSink,
    pub(crate) log: Arc<FleetLog>,
}

/// See the file's head.
///
/// # Errors
/// [`ServiceError::Log`]; errors of the engine; [`ServiceError::ShuttingDown`].
pub(crate) fn recover(tools: &RecoveryTools<'_>) -> Result<RecoveredFleet, ServiceError> {
    let started = Instant::now();
    let mut replay = Replay::new(tools)?;
    let checkpoint = replay.load_checkpoint(tools)?;
    let reader = tools.folder.read_log(replay.epoch, ReadMode::Recover)?;
    let mut progress = Progress::new(&tools.folder.name);
    let replay_started = Instant::now();
    let recovered = read_ahead(reader, |batches| {
        for CycleBatch { cycles, remaining_bytes } in batches {
            for cycle in cycles {
                progress.rows += replay.apply(cycle)?;
                if tools.is_stopping.load(Ordering::SeqCst) {
                    return Err(ServiceError::ShuttingDown);
                }
            }
            progress.show(remaining_bytes);
        }
        replay.settle_until(0)
    })?;
    if let Some(torn) = recovered.torn_tail() {
        let (segment, offset) = (torn.segment, torn.offset);
        info!(segment, offset, reason = torn.reason, "the log ends in an incomplete write");
    }
    // Cycles that are not in the log have changed nothing but the clock.
    replay.epoch = replay.epoch.max(recovered.end().epoch);
    replay.engine.set_epoch(replay.epoch);
    let rows = progress.rows;
    let recovery = started.elapsed();
    let seconds = recovery.as_secs_f64();
    tools.metrics.recovery_seconds.set(seconds);
    info!(
        fleet = %tools.folder.name,
        objects = replay.engine.objects(),
        rows,
        seconds,
        epoch = replay.epoch,
        "recovered"
    );
    let replayed = Replayed { rows, time: replay_started.elapsed() };
    let fleet = open_log(tools, replay, &replayed, checkpoint, recovered)?;
    fleet.log.publish(|reading| reading.recovery = recovery);
    Ok(fleet)
}

/// What a checkpoint says about the log.
struct CheckpointInfo {
    epoch: u64,
    /// The log must keep the cycles after this epoch.
    needed_epoch: u64,
    terms: Option<Terms>,
}

/// An engine that repeats the cycles of a log.
struct Replay {
    engine: NumberedEngine,
    names: Option<Arc<NameTable>>,
    /// Epoch of the checkpoint, or of the last cycle after it with new names.
    names_epoch: u64,
    producers: Producers,
    /// The last settled cycle.
    epoch: u64,
    clock_ms: i64,
    /// Cycles that are submitted and not settled, with the batch ids of their requests.
    in_flight: VecDeque<(Ticket, Vec<Option<BatchId>>)>,
}

impl Replay {
    fn new(tools: &RecoveryTools<'_>) -> Result<Self, ServiceError> {
        let producers = Producers::with_limit(tools.limits.producers_max);
        let (engine, in_flight) =
            (NumberedEngine::new((tools.engines.start)(tools.options.clone())?), VecDeque::new());
        let names = tools.names.cloned();
        Ok(Self { engine, names, names_epoch: 0, producers, epoch: 0, clock_ms: 0, in_flight })
    }

    fn load_checkpoint(
        &mut self,
        tools: &RecoveryTools<'_>,
    ) -> Result<CheckpointInfo, ServiceError> {
        let (folder, started) = (tools.folder, Instant::now());
        let identity = Some(&folder.identity);
        let found = open_newest(&folder.storage, &folder.checkpoint(), identity)?;
        for rejected in &found.rejected {
            warn!(epoch = rejected.epoch, error = %rejected.error, "a checkpoint is set aside");
            rejected.set_aside(&*folder.storage, &folder.checkpoint())?;
        }
        let needed_epoch = found.needed_epoch;
        let Some(mut reader) = found.newest else {
            return Ok(CheckpointInfo { epoch: 0, needed_epoch, terms: None });
        };
        let verified = started.elapsed();
        let (state, producers) = checkpoint::read(&mut reader, tools.names.map(AsRef::as_ref))?;
        let read = started.elapsed();
        (self.epoch, self.names_epoch) = (state.epoch, state.epoch);
        self.clock_ms = state.clock_ms;
        self.engine.import(state)?;
        info!(
            fleet = %folder.name,
            epoch = self.epoch,
            objects = self.engine.objects(),
            verify_seconds = verified.as_secs_f64(),
            decode_seconds = (read - verified).as_secs_f64(),
            import_seconds = (started.elapsed() - read).as_secs_f64(),
            "the checkpoint is loaded"
        );
        producers.into_iter().for_each(|producer| self.producers.restore_state(producer));
        Ok(CheckpointInfo {
            epoch: self.epoch,
            needed_epoch,
            terms: Some(Terms::new(reader.header().term, reader.past_terms().to_vec())),
        })
    }

    /// Submits a cycle and returns its number of rows and removals. If the engine answers with a
    /// lag, cycles overlap.
    fn apply(&mut self, cycle: CycleRecord) -> Result<u64, ServiceError> {
        let overlapping = if self.engine.answer_lag() == 0 { 0 } else { CYCLES_IN_FLIGHT_MAX - 1 };
        let rows = cycle.requests.iter().map(Request::rows).sum::<usize>() as u64;
        if let Some((names, changes)) = self.names.as_ref().zip(cycle.names.as_ref()) {
            names.restore(changes).map_err(|reason| LogError::Content {
                file: format!("the cycle of epoch {}", cycle.epoch),
                offset: 0,
                reason,
            })?;
            if changes.last_new().is_some() {
                self.names_epoch = cycle.epoch;
            }
        }
        let ticket = self.engine.submit(cycle.input(), CycleNumber::At(cycle.epoch))?;
        self.in_flight.push_back((ticket, cycle.batches));
        self.settle_until(overlapping)?;
        Ok(rows)
    }

    /// Settles the oldest cycles until at most `in_flight_max` are in flight.
    fn settle_until(&mut self, in_flight_max: usize) -> Result<(), ServiceError> {
        while self.in_flight.len() > in_flight_max
            && let Some((ticket, batches)) = self.in_flight.pop_front()
        {
            let output = self.engine.wait(ticket)?;
            for (batch, outcome) in batches.iter().zip(&output.requests) {
                if let Some(BatchId { producer, batch_seq }) = batch {
                    let is_applied = outcome.block_error.is_none();
                    self.producers.restore(producer, *batch_seq, is_applied);
                }
            }
            (self.epoch, self.clock_ms) = (output.epoch, output.clock_ms);
        }
        Ok(())
    }
}

/// The number of rows replayed after the checkpoint, and how long that took.
struct Replayed {
    rows: u64,
    time: Duration,
}

/// Logs the progress of a recovery.
struct Progress<'a> {
    fleet: &'a CurrentName,
    rows: u64,
    started: Instant,
    shown: Instant,
    shown_rows: u64,
}

impl<'a> Progress<'a> {
    fn new(fleet: &'a CurrentName) -> Self {
        let now = Instant::now();
        Self { fleet, rows: 0, started: now, shown: now, shown_rows: 0 }
    }

    fn show(&mut self, remaining_bytes: u64) {
        let since = self.shown.elapsed();
        if since < Duration::from_millis(RECOVERY_PROGRESS_MS) {
            return;
        }
        let rows_per_s = ((self.rows - self.shown_rows) as f64 / since.as_secs_f64()) as u64;
        let rows = self.rows;
        let seconds = self.started.elapsed().as_secs();
        info!(fleet = %self.fleet, rows, rows_per_s, remaining_bytes, seconds, "recovering");
        (self.shown, self.shown_rows) = (Instant::now(), self.rows);
    }
}

/// Continues the log of a fleet and starts its threads.
fn open_log(
    tools: &RecoveryTools<'_>,
    replay: Replay,
    replayed: &Replayed,
    checkpoint: CheckpointInfo,
    recovered: Recovered,
) -> Result<RecoveredFleet, ServiceError> {
    let Replay { mut engine, names, names_epoch, producers, epoch, clock_ms, .. } = replay;
    let options = tools.folder.log_options(tools.limits)?;
    let read = recovered.clone();
    let (storage, folder) = (tools.folder.storage.clone(), tools.folder.log());
    let last_term = read.term().or(checkpoint.terms.as_ref().map(Terms::current));
    let fresh_term = match last_term.filter(|_| tools.follows) {
        Some(term) => term,
        None => random()?,
    };
    let writer = LogWriter::open(storage, &folder, options, recovered, epoch, fresh_term)?;
    let terms = read.terms(checkpoint.terms, writer.term());
    if let Some(names) = names {
        // Each term that ended after the last logged name may have lost names.
        let began = terms.past().iter().skip(1).map(|past| past.term).chain([terms.current()]);
        let after_names = terms.past().iter().zip(began);
        let after_names = after_names.filter(|(ended, _)| ended.last_epoch >= names_epoch);
        after_names.for_each(|(_, term)| names.skip(term));
        forget_gone(tools, &mut engine, &names)?;
    }
    let terms = Arc::new(SharedTerms::new(terms));
    let reading = LogReading {
        durable_epoch: epoch,
        clock_ms: None,
        term: writer.term(),
        position: writer.synced(),
        checkpoint_epoch: checkpoint.epoch,
        needed_epoch: checkpoint.needed_epoch,
        bytes: writer.bytes(),
        ..LogReading::default()
    };
    let log = Arc::new(FleetLog::new(&tools.folder.name, reading));
    let &Replayed { rows: replayed_rows, time } = replayed;
    log.tail().replayed(tools.engines.name, replayed_rows, time);
    let start = LogStart { tools, writer, log: log.clone(), terms: terms.clone(), replayed_rows };
    let sink = start.sink(epoch, clock_ms, checkpoint.needed_epoch)?;
    Ok(RecoveredFleet { backend: engine, producers, epoch, clock_ms, terms, sink, log })
}

/// Forgets the names of objects that are gone, if the table of names is half full. Only a start can:
/// later, reports that wait may have the numbers of such names. A follower forgets what its leader
/// forgets. A history, also that of a follower, may have fixes of objects that are gone.
fn forget_gone(
    tools: &RecoveryTools<'_>,
    engine: &mut NumberedEngine,
    names: &NameTable,
) -> Result<(), ServiceError> {
    let may_have_gone = names.is_half_full() && names.len() as u64 > engine.objects();
    if !may_have_gone || tools.follows || tools.has_followers || tools.history.is_some() {
        return Ok(());
    }
    let FleetFolder { storage, name, .. } = tools.folder;
    let history = tools.folder.history();
    match storage.list(&history) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            return Err(LogError::storage("list", storage.display(&history))(error).into());
        }
        Ok(_) => return Ok(()),
    }
    match exported_objects(engine) {
        Ok(objects) => {
            let forgotten = names.forget_others(&objects);
            info!(fleet = %name, forgotten, "names of objects that are gone are forgotten");
            Ok(())
        }
        Err(error @ EngineError::Device(_)) => Err(error.into()),
        Err(error) => {
            warn!(fleet = %name, %error, "names of objects that are gone are not forgotten");
            Ok(())
        }
    }
}

/// All objects, ascending.
fn exported_objects(engine: &mut NumberedEngine) -> Result<Vec<u64>, EngineError> {
    let mut objects = Vec::new();
    engine.begin_export()?;
    while let Some(rows) = engine.export_next(EXPORT_SLICE_ROWS)? {
        objects.extend_from_slice(&rows.object);
    }
    objects.sort_unstable();
    Ok(objects)
}

/// An open log without threads.
struct LogStart<'a> {
    tools: &'a RecoveryTools<'a>,
    writer: LogWriter,
    log: Arc<FleetLog>,
    terms: Arc<SharedTerms>,
    replayed_rows: u64,
}

impl LogStart<'_> {
    fn sink(self, epoch: u64, clock_ms: i64, needed_epoch: u64) -> Result<LogSink, ServiceError> {
        let Self { tools, writer, log, terms, replayed_rows } = self;
        let (limits, space) = (tools.limits, tools.options.space.tag());
        let fleet = tools.folder.name.clone();
        let (item_sender, items) = unbounded();
        let (group_sender, groups) = bounded(0);
        let (empty_sender, empty) = bounded(2);
        let (written_sender, written) = bounded(1);
        let (needed_sender, needed) = unbounded();
        let history = match tools.history {
            Some(keep) => Some(HistoryHandle::open(tools, keep, &log, written_sender.clone())?),
            None => None,
        };
        let disk = DiskThread {
            fleet: fleet.clone(),
            writer,
            log: log.clone(),
            groups,
            empty: empty_sender,
            written: written_sender,
            needed,
            follower_bytes: limits.log_follower_bytes,
            follower_keep: Duration::from_millis(limits.log_follower_ms),
            retention: Retention { keep_bytes: limits.log_keep_bytes, keep_ms: limits.log_keep_ms },
            wall: tools.wall.clone(),
            metrics: tools.metrics.clone(),
            needed_epoch: None,
            put_off: None,
            prepares: true,
            preparing: None,
            retiring: None,
        };
        // An error cannot occur: the receiver is in `disk`.
        let _ = needed_sender.send(needed_epoch);
        let checkpoints = CheckpointThread::new(CheckpointTools {
            folder: tools.folder.clone(),
            space,
            names: tools.names.cloned(),
            terms,
            reserve_bytes: limits.log_reserve_bytes,
            log: log.clone(),
            needed: needed_sender,
            metrics: tools.metrics.clone(),
        });
        let (codec, aim) = ((tools.engines.codec)(), tools.engines.log_aim);
        let group = GroupThread { items, groups: group_sender, written: empty, space, codec, aim };
        let threads = [
            guarded(format!("disk-{fleet}"), &log, move || disk.run()),
            guarded(format!("group-{fleet}"), &log, group_work(group, log.clone())),
        ];
        let mut sink = LogSink {
            log,
            last_number: tools.names.map_or(0, |names| names.last_number()),
            names: tools.names.cloned(),
            clock: tools.options.clock,
            submitted: VecDeque::new(),
            items: Some(item_sender),
            follows: tools.follows,
            written,
            pending_bytes_max: limits.log_pending_bytes_max,
            logged_epoch: epoch,
            clock_ms,
            bytes_since_checkpoint: 0,
            checkpoint_bytes: limits.checkpoint_log_bytes,
            rows_since_checkpoint: replayed_rows,
            recovery_max: Duration::from_millis(limits.recovery_ms_max),
            checkpoints,
            threads,
            history,
        };
        // A log without cycles has nothing to write, to retire or to read.
        if epoch > 0 {
            sink.start_threads();
            sink.log.check()?;
        }
        Ok(sink)
    }
}

fn group_work(thread: GroupThread, log: Arc<FleetLog>) -> impl FnOnce() + Send + 'static {
    move || {
        // Report the error before the thread's channels close: the disk thread would report another
        // reason.
        if let Err(error) = thread.run() {
            log.fail(&error.to_string());
        }
    }
}

/// Marks the log as failed if its thread panics, so that nothing waits for the log for ever.
struct PanicGuard(Arc<FleetLog>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail("a thread of the log panicked; restart the server");
        }
    }
}

/// A thread for a part of the log.
fn guarded(name: String, log: &Arc<FleetLog>, work: impl FnOnce() + Send + 'static) -> LazyThread {
    let log = log.clone();
    LazyThread::new(name, move || {
        let _guard = PanicGuard(log);
        work();
    })
}
