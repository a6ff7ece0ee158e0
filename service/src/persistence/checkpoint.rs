//! Writes and reads checkpoints: the state of a fleet as blocks, and its producers.
//!
//! A thread of its own writes a checkpoint, once all cycles that it contains are durable in the
//! log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use rayon::prelude::*;
use shoal_codec::{Aim, CpuCodec, FixColumns, SpaceTag};
use shoal_engine::{ExportHeader, Snapshot};
use shoal_position_log::{
    CheckpointHeader, CheckpointReader, CheckpointWriter, LogError, PastTerm, ProducerState,
    Section, decode_producers,
};
use tracing::{error, info};

use super::data_folder::FleetFolder;
use super::fleet_log::FleetLog;
use super::rows_body::{self, RowsEncoder};
use crate::cycle::{ExportRows, SharedTerms, WallClock};
use crate::limits::{
    CHECKPOINT_PAUSE, EXPORT_SLICES_WAITING, LOG_RETRY_MS, SECTIONS_DECODED_AT_ONCE,
};
use crate::metrics::FleetMetrics;
use crate::names::{NameTable, count_section_names};
use crate::threads::LazyThread;

/// Section of a checkpoint: rows as [`rows_body`] encodes them, ascending by object.
const ROWS: u16 = 16;
/// Section of a checkpoint: names of a named fleet, as [`NameTable::sections`] gives them.
const NAMES: u16 = 17;

/// A request to write a checkpoint.
struct Begin {
    state: ExportHeader,
    producers: Vec<ProducerState>,
    /// The checkpoint contains the names of the objects with numbers up to this one.
    last_number: u64,
    rows: Receiver<FixColumns>,
    /// Tells the engine that rows were taken from `rows`.
    taken: Sender<()>,
}

/// Writes the checkpoints of one fleet, on a thread that starts for the first one.
pub(super) struct CheckpointThread {
    /// `None` once the log ends.
    begins: Option<Sender<Begin>>,
    pause: Arc<CheckpointPause>,
    thread: LazyThread,
}

/// When the pause after the last checkpoint ends; `None` while a checkpoint is written.
#[derive(Debug)]
struct CheckpointPause(Mutex<Option<Instant>>);

impl CheckpointPause {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the pause after a checkpoint that took `took`.
    fn begin(&self, took: Duration) {
        *self.lock() = Some(Instant::now() + took * CHECKPOINT_PAUSE);
    }

    fn is_over(&self, is_urgent: bool) -> bool {
        self.lock().is_some_and(|end| is_urgent || end <= Instant::now())
    }
}

/// What the thread needs.
pub(super) struct CheckpointTools {
    pub(super) folder: FleetFolder,
    pub(super) space: SpaceTag,
    /// Names of the objects, if they have names.
    pub(super) names: Option<Arc<NameTable>>,
    pub(super) terms: Arc<SharedTerms>,
    pub(super) reserve_bytes: u64,
    pub(super) log: Arc<FleetLog>,
    /// Receives the epoch after which the log must keep its cycles.
    pub(super) needed: Sender<u64>,
    pub(super) metrics: FleetMetrics,
}

impl CheckpointThread {
    pub(super) fn new(tools: CheckpointTools) -> Self {
        // Holds at most one request: a checkpoint begins only when no other is being written.
        let (begins, receiver) = unbounded::<Begin>();
        let pause = Arc::new(CheckpointPause(Mutex::new(Some(Instant::now()))));
        let ended = pause.clone();
        let name = format!("checkpoint-{}", tools.folder.name);
        let work = move || {
            while let Ok(begin) = receiver.recv() {
                ended.begin(tools.write(begin, &receiver));
            }
        };
        Self { begins: Some(begins), pause, thread: LazyThread::new(name, work) }
    }

    /// True if no checkpoint is being written, and the pause after the last one is over or
    /// `is_urgent` is set.
    pub(super) fn is_idle(&self, is_urgent: bool) -> bool {
        self.pause.is_over(is_urgent)
    }

    /// Begins a checkpoint; returns where the engine sends its rows, `None` if the thread cannot be
    /// started or has ended. No other checkpoint may be in progress.
    pub(super) fn begin(
        &mut self,
        state: ExportHeader,
        producers: Vec<ProducerState>,
        last_number: u64,
    ) -> Option<ExportRows> {
        if let Err(error) = self.thread.start() {
            error!(%error, "no checkpoint is begun");
            self.pause.begin(Duration::from_millis(LOG_RETRY_MS));
            return None;
        }
        let (row_sender, rows) = bounded(EXPORT_SLICES_WAITING);
        let (taken, taken_receiver) = bounded(1);
        *self.pause.lock() = None;
        let begin = Begin { state, producers, last_number, rows, taken };
        let begun = self.begins.as_ref()?.send(begin);
        if begun.is_err() {
            error!("the thread of checkpoints has ended");
            return None;
        }
        Some(ExportRows::new(row_sender, taken_receiver))
    }

    /// Ends the thread, and abandons the checkpoint that it is writing. The log must be ending.
    pub(super) fn end(&mut self) {
        self.begins = None;
        // After a panic the log is complete without this checkpoint.
        self.thread.join();
    }
}

impl Begin {
    /// Waits for the next rows; `None` if the export or the log has ended.
    fn next(&self, end: &Receiver<Self>) -> Option<FixColumns> {
        let rows = select! {
            recv(self.rows) -> rows => rows.ok(),
            recv(end) -> _ => None,
        };
        // An error means that a message is there already, or that the engine sends no more.
        let _ = self.taken.try_send(());
        rows
    }
}

impl CheckpointTools {
    /// Writes a checkpoint; returns the time that it took.
    fn write(&self, begin: Begin, end: &Receiver<Begin>) -> Duration {
        let started = Instant::now();
        let fleet = &self.folder.name;
        let objects = begin.state.objects;
        match self.try_write(begin, end) {
            Ok((epoch, bytes)) => {
                let time = started.elapsed();
                let seconds = time.as_secs_f64();
                self.metrics.checkpoint_seconds.observe(seconds);
                let now_ms = WallClock::system().now_ms();
                self.log.publish(|reading| {
                    (reading.checkpoint_ms, reading.checkpoint_time) = (now_ms, time);
                });
                info!(%fleet, epoch, objects, bytes, seconds, "checkpoint written");
            }
            Err(_) if self.log.is_ending() => info!(%fleet, "a checkpoint is abandoned"),
            Err(error) => error!(%fleet, %error, "no checkpoint was written"),
        }
        started.elapsed()
    }

    fn try_write(&self, mut begin: Begin, end: &Receiver<Begin>) -> Result<(u64, u64), LogError> {
        let stopped = |reason: &str| LogError::Stopped { reason: reason.into() };
        let state = begin.state;
        let reading = self.log.wait_durable(state.epoch);
        let position = reading.ok_or_else(|| stopped("the log has failed"))?.position;
        let terms = self.terms.get();
        let header = CheckpointHeader {
            fleet: self.folder.identity.clone(),
            term: terms.current(),
            // Cycles after the last logged one have changed nothing.
            epoch: state.epoch.min(position.epoch),
            clock_ms: state.clock_ms,
            position,
        };
        let storage = self.folder.storage.clone();
        let folder = self.folder.checkpoint();
        let past = terms.past();
        let mut writer =
            CheckpointWriter::create(storage, &folder, &header, past, self.reserve_bytes)?;
        writer.producers(std::mem::take(&mut begin.producers))?;
        if let Some(names) = &self.names {
            for section in names.sections(begin.last_number) {
                writer.section(NAMES, &section)?;
            }
        }
        let mut encoder = RowsEncoder::new(&CpuCodec, Aim::Fast, self.space);
        let mut missing = state.objects;
        while missing > 0 {
            let rows = begin.next(end).filter(|_| !self.log.is_ending());
            let rows = rows.ok_or_else(|| stopped("the engine exports no more rows"))?;
            missing -= rows.len() as u64;
            writer.section(ROWS, &encoder.encode(&by_object(&rows)))?;
        }
        let summary = writer.finish()?;
        self.log.publish(|reading| {
            reading.checkpoint_epoch = summary.epoch;
            reading.needed_epoch = summary.needed_epoch;
        });
        // An error means that the log has ended.
        let _ = self.needed.send(summary.needed_epoch);
        Ok((summary.epoch, summary.bytes))
    }
}

/// Sorts rows by object, because sorted rows encode to fewer bytes. An engine exports rows in any
/// order.
fn by_object(rows: &FixColumns) -> FixColumns {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_unstable_by_key(|row| rows.object[*row]);
    let mut ordered = FixColumns::with_capacity(rows.len());
    order.into_iter().for_each(|row| ordered.push_row(rows.row(row)));
    ordered
}

/// What a checkpoint holds.
#[derive(Debug)]
pub struct CheckpointContent {
    pub header: CheckpointHeader,
    pub past_terms: Vec<PastTerm>,
    pub bytes: u64,
    pub sections: u64,
    pub producers: u64,
    /// Objects.
    pub rows: u64,
    /// Names.
    pub names: u64,
}

/// Reads a checkpoint to its end, one section at a time.
///
/// # Errors
/// As [`read`].
pub(super) fn content(reader: &mut CheckpointReader) -> Result<CheckpointContent, LogError> {
    let (mut producers, mut rows, mut names) = (0, 0, 0);
    let count = |body: &[u8]| {
        rows += decode_rows(body)?.len() as u64;
        Ok(())
    };
    let count_names = |body: &[u8]| {
        names += count_section_names(body)?;
        Ok(())
    };
    let sections = read_sections(reader, |_| producers += 1, count, count_names)?;
    let (header, past_terms) = (reader.header().clone(), reader.past_terms().to_vec());
    let (bytes, _) = reader.progress();
    Ok(CheckpointContent { header, past_terms, bytes, sections, producers, rows, names })
}

/// Returns the state and the producers of a checkpoint, and restores its names into `names`.
///
/// # Errors
/// Those of reading the file; [`LogError::Content`] for a section that cannot be decoded or whose
/// kind is unknown.
pub(super) fn read(
    reader: &mut CheckpointReader,
    names: Option<&NameTable>,
) -> Result<(Snapshot, Vec<ProducerState>), LogError> {
    let header = reader.header();
    let (term, epoch, clock_ms) = (header.term, header.epoch, header.clock_ms);
    let (mut producers, mut batches, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
    let decode = |body: &[u8]| {
        bodies.push(body.to_vec());
        if bodies.len() < SECTIONS_DECODED_AT_ONCE {
            Ok(())
        } else {
            decode_all(&mut bodies, &mut batches)
        }
    };
    let restore = |body: &[u8]| match names {
        Some(names) => names.restore_section(body),
        None => Err("names in a numeric fleet".to_owned()),
    };
    read_sections(reader, |producer| producers.push(producer), decode, restore)?;
    decode_all(&mut bodies, &mut batches).map_err(|reason| content_error(reader, reason))?;
    Ok((Snapshot { term, epoch, clock_ms, batches }, producers))
}

/// Reads all sections and returns their number, including the sections of past terms and of the
/// end.
fn read_sections(
    reader: &mut CheckpointReader,
    mut on_producer: impl FnMut(ProducerState),
    mut on_rows: impl FnMut(&[u8]) -> Result<(), String>,
    mut on_names: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<u64, LogError> {
    let (mut sections, mut wrong) = (2, None);
    while let Some(section) = reader.next_section()? {
        sections += 1;
        let read = match section {
            Section::Producers(bytes) => {
                decode_producers(bytes).try_for_each(|producer| producer.map(&mut on_producer))
            }
            Section::Server { kind: ROWS, bytes } => on_rows(bytes),
            Section::Server { kind: NAMES, bytes } => on_names(bytes),
            Section::Server { kind, .. } => Err(format!("unknown kind of section: {kind}")),
        };
        if let Err(reason) = read {
            wrong = Some(reason);
            break;
        }
    }
    wrong.map_or(Ok(sections), |reason| Err(content_error(reader, reason)))
}

fn content_error(reader: &CheckpointReader, reason: String) -> LogError {
    let file = format!("the checkpoint of epoch {}", reader.header().epoch);
    LogError::Content { file, offset: reader.progress().1, reason }
}

/// Decodes `bodies` on all cores, appends their rows to `batches` in order, and clears `bodies`.
fn decode_all(bodies: &mut Vec<Vec<u8>>, batches: &mut Vec<FixColumns>) -> Result<(), String> {
    let decoded: Result<Vec<_>, _> = bodies.par_iter().map(|body| decode_rows(body)).collect();
    bodies.clear();
    batches.extend(decoded?);
    Ok(())
}

fn decode_rows(body: &[u8]) -> Result<FixColumns, String> {
    match rows_body::decode(body)? {
        shoal_engine::Request::Fixes(columns) => Ok(columns),
        shoal_engine::Request::Block(block) => {
            let mut columns = FixColumns::new();
            let decoded = block.decode_rows(0..block.rows(), &mut columns);
            decoded.map(|()| columns).map_err(|error| error.to_string())
        }
        _ => Err("rows are neither a block nor raw".into()),
    }
}
