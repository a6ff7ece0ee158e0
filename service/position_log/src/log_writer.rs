//! Writes groups of cycles to segments: one aligned write per group, one sync for several groups.
//!
//! One thread uses a writer. While it writes and syncs, another thread fills the next [`Group`], so
//! the disk never waits for encoding; LOG.md, section 8, has the measurements. Every error of the
//! disk is final, because it is not known what a failed sync has lost.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::aligned_buffer::AlignedBuffer;
use crate::error::LogError;
use crate::fleet_identity::FleetIdentity;
use crate::frame::{FrameHeader, FrameKind};
use crate::group::Group;
use crate::limits::{
    PAGE_BYTES, RESERVE_BYTES_DEFAULT, SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_FIRST,
    SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN,
};
use crate::log_bounds::LogBounds;
use crate::position::{Position, SegmentInfo};
use crate::recovered::{Cursor, Recovered};
use crate::retention::Retention;
use crate::retirement::{Retired, Retirement, Retiring};
use crate::segment::SegmentHeader;
use crate::segment_pool::SegmentPool;
use crate::spare::{Spare, SpareJob};
use crate::storage::{Storage, StorageFile};

/// How a log is written.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The fleet.
    pub fleet: FleetIdentity,
    /// Bytes of a segment, whole pages. The first segments of a log are smaller: each is twice as
    /// large as the one before it.
    pub segment_bytes: u64,
    /// Bytes of the disk that the log leaves free; only start and clean marks may use them.
    pub reserve_bytes: u64,
    /// Random and secret: clients must not be able to guess the salts of segments.
    pub seed: u64,
}

impl LogOptions {
    /// Segments and reserve of the default sizes.
    #[must_use]
    pub fn new(fleet: FleetIdentity, seed: u64) -> Self {
        Self {
            fleet,
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            reserve_bytes: RESERVE_BYTES_DEFAULT,
            seed,
        }
    }

    /// Bytes of the segment that follows one of `bytes`; 0 before the first.
    fn bytes_after(&self, bytes: u64) -> u64 {
        let first = SEGMENT_BYTES_FIRST.min(self.segment_bytes);
        bytes.saturating_mul(2).clamp(first, self.segment_bytes)
    }

    fn check(&self) -> Result<(), LogError> {
        let bytes = self.segment_bytes;
        if bytes.is_multiple_of(PAGE_BYTES as u64)
            && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes)
        {
            return Ok(());
        }
        Err(LogError::Input(format!(
            "segments of {bytes} bytes: they must have {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}, \
             a multiple of {PAGE_BYTES}"
        )))
    }
}

/// Writes the log in a folder.
///
/// ```
/// # use std::sync::Arc;
/// # use shoal_position_log::*;
/// # fn main() -> Result<(), LogError> {
/// # let storage: Arc<dyn Storage> = Arc::new(SimulatedDisk::new(1));
/// # create_log(&*storage, "fleets/bus/log")?;
/// let (log, fleet) = ("fleets/bus/log", FleetIdentity::new(7, "bus")?);
/// let read = ReadOptions { fleet: Some(fleet.clone()), after_epoch: 0, mode: ReadMode::Recover };
/// let mut reader = LogReader::open(storage.clone(), log, read)?;
/// while let Some(cycle) = reader.next_cycle()? {
///     // Replay `cycle.requests()` through the engine.
/// }
/// let recovered = reader.finish()?;
/// let (epoch, options) = (recovered.end().epoch, LogOptions::new(fleet, 42));
/// let mut writer = LogWriter::open(storage, log, options, recovered, epoch, 99)?;
///
/// let mut group = Group::new();
/// let cycle = CycleHeader { epoch: epoch + 1, system_ms: 0, time_max_ms: 0 };
/// let request = LoggedRequest { body: RequestBody::Block(b"a block"), batch: None };
/// group.append(cycle, [request])?;
/// writer.write(&mut group)?;
/// assert_eq!(writer.sync()?.epoch, 1);
/// writer.close()
/// # }
/// ```
#[derive(Debug)]
pub struct LogWriter {
    options: LogOptions,
    pool: SegmentPool,
    file: Box<dyn StorageFile>,
    segment: SegmentHeader,
    cursor: Cursor,
    synced: Position,
    segments: VecDeque<SegmentInfo>,
    /// Segments before this one may be retired already.
    first_kept: u64,
    mark: AlignedBuffer,
    stopped: Option<String>,
}

impl LogWriter {
    /// Continues a log that was read to its end with [`crate::ReadMode::Recover`], or begins a new
    /// one. Erases all frames after the end and writes a start mark.
    ///
    /// `epoch` is the engine's epoch, at least the log's last one. `fresh_term` becomes the term of
    /// this run, unless the log ended with a clean mark and `epoch` is its last epoch: then its
    /// term continues.
    ///
    /// # Errors
    /// [`LogError::Input`] if the options or the epoch are not allowed; [`LogError::Space`];
    /// [`LogError::Storage`].
    pub fn open(
        storage: Arc<dyn Storage>,
        folder: &str,
        options: LogOptions,
        recovered: Recovered,
        epoch: u64,
        fresh_term: u64,
    ) -> Result<Self, LogError> {
        options.check()?;
        if !recovered.is_synced {
            let reason = "a log is continued from what was read to recover it";
            return Err(LogError::Input(reason.into()));
        }
        let end = recovered.cursor.epoch;
        if epoch < end {
            return Err(LogError::Input(format!("epoch {epoch} is before the log's end, {end}")));
        }
        let term = if epoch == end { recovered.next_term(fresh_term) } else { fresh_term };
        let next = options.bytes_after(recovered.segment.as_ref().map_or(0, |last| last.bytes));
        let mut pool = SegmentPool::open(storage, folder, options.segment_bytes, next)?;
        let (segment, file, cursor, segments) = match recovered.segment.clone() {
            None => {
                let segment = first_segment(&options, epoch, term);
                pool.ensure(segment.bytes, options.reserve_bytes)?;
                let file = pool.create(&segment)?;
                let cursor = Cursor::at_start_of(&segment);
                (segment.clone(), file, cursor, VecDeque::from([SegmentInfo::of(&segment)]))
            }
            Some(segment) => {
                let file = pool.open_segment(segment.number)?;
                erase(&pool, &*file, &recovered)?;
                pool.complete(&*file, &segment, options.reserve_bytes)?;
                (segment, file, recovered.cursor, recovered.segments.into())
            }
        };
        let synced = cursor.position(segment.number);
        let mark = AlignedBuffer::zeroed(PAGE_BYTES);
        let mut writer = Self {
            options,
            pool,
            file,
            segment,
            cursor,
            synced,
            segments,
            first_kept: 0,
            mark,
            stopped: None,
        };
        writer.write_mark(FrameKind::Start, epoch, term)?;
        writer.sync_file()?;
        writer.store_bounds()?;
        Ok(writer)
    }

    /// Writes a group as one frame and empties it. It is durable after [`Self::sync`]. A group
    /// without cycles changes nothing.
    ///
    /// # Errors
    /// [`LogError::Space`]: nothing was written, the same group can be written later.
    /// [`LogError::Input`] if its first epoch is not above the last one. All others are final.
    pub fn write(&mut self, group: &mut Group) -> Result<Position, LogError> {
        self.check_running()?;
        let Some((first, _)) = group.epochs() else { return Ok(self.written()) };
        if first <= self.cursor.epoch {
            let last = self.cursor.epoch;
            return Err(LogError::Input(format!("epoch {first} is written after epoch {last}")));
        }
        let result = self.write_group(group);
        self.finish(result)
    }

    fn write_group(&mut self, group: &mut Group) -> Result<Position, LogError> {
        let bytes = group.frame_bytes() as u64;
        self.ensure_capacity(bytes, self.next_bytes(), self.options.reserve_bytes)?;
        let mut header = self.next_header();
        group.describe(&mut header);
        let (frame, crc) = group.seal(&header);
        let failed = LogError::storage("write", self.display());
        self.file.write_at(self.cursor.offset, frame).map_err(failed)?;
        self.advance(&header, crc, FrameKind::Cycles);
        group.clear();
        Ok(self.written())
    }

    /// Makes everything written durable and returns its end.
    ///
    /// # Errors
    /// Every error is final.
    pub fn sync(&mut self) -> Result<Position, LogError> {
        self.check_running()?;
        let result = self.sync_file();
        self.finish(result)
    }

    fn sync_file(&mut self) -> Result<Position, LogError> {
        if self.synced != self.written() {
            self.file.sync_data().map_err(LogError::storage("sync", self.display()))?;
            self.synced = self.written();
        }
        Ok(self.synced)
    }

    /// Begins `term`; the former term ends at the last epoch written. The change is durable on
    /// return.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn begin_term(&mut self, term: u64) -> Result<Position, LogError> {
        self.check_running()?;
        let marked = self.write_mark(FrameKind::Start, self.cursor.epoch, term);
        let result = marked.and_then(|()| self.sync_file());
        self.finish(result)
    }

    /// Seals the segment: later cycles are written to a new segment. The seal is durable on return.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn seal(&mut self) -> Result<Position, LogError> {
        self.check_running()?;
        // A segment that is sealed early need not be followed by a larger one.
        let bytes = self.segment.bytes.min(self.options.segment_bytes);
        let result = self.rotate(bytes, self.options.reserve_bytes);
        let result = result.map(|()| self.synced);
        self.finish(result)
    }

    /// Sets whether files of retired segments are recycled; initially true. False removes them, and
    /// also the prepared files, so that none of their content remains in the folder.
    ///
    /// # Errors
    /// Every error is final.
    pub fn recycle(&mut self, recycles: bool) -> Result<(), LogError> {
        self.check_running()?;
        let result = self.pool.recycle(recycles);
        self.finish(result)
    }

    /// Syncs and writes a clean mark, so that the next start keeps the term.
    ///
    /// # Errors
    /// As [`Self::sync`]; then the next start begins a new term.
    pub fn close(mut self) -> Result<(), LogError> {
        self.check_running()?;
        self.sync_file()?;
        self.write_mark(FrameKind::Clean, self.cursor.epoch, self.cursor.term)?;
        self.sync_file()?;
        self.store_bounds()
    }

    /// Stores the bounds. If the disk is full, keeps the stored bounds and succeeds if they are
    /// still true.
    fn store_bounds(&self) -> Result<(), LogError> {
        let bounds = self.bounds(0);
        match self.pool.store_bounds(bounds) {
            Err(error) if error.is_full() => match self.pool.load_bounds()? {
                Some(former)
                    if former.durable_epoch <= bounds.durable_epoch
                        && self.segments.iter().any(|it| it.number == former.first_segment) =>
                {
                    Ok(())
                }
                _ => Err(error),
            },
            stored => stored,
        }
    }

    /// The bounds of the durable log without its first `retired` segments.
    fn bounds(&self, retired: usize) -> LogBounds {
        let first_segment = self.segments.get(retired).map_or(0, |segment| segment.number);
        let first_segment = first_segment.max(self.first_kept);
        LogBounds { first_segment, durable_epoch: self.synced.epoch }
    }

    /// Retires the segments that have no cycle at or after `needed_epoch`, and recycles or removes
    /// their files. Returns the number of segments. `needed_epoch` is the epoch that checkpoints
    /// need ([`crate::CheckpointSummary::needed_epoch`]), or an earlier one that a follower needs.
    ///
    /// # Errors
    /// [`LogError::Space`] if the disk has no space for the new bounds; the retirement can then be
    /// repeated. All others are final.
    pub fn retire(
        &mut self,
        needed_epoch: u64,
        retention: &Retention,
        now_ms: i64,
    ) -> Result<usize, LogError> {
        self.check_running()?;
        let mut count = 0;
        for retired in self.retirement(needed_epoch, retention, now_ms).into_iter().flatten() {
            self.retired(retired)?;
            count += 1;
        }
        Ok(count)
    }

    /// As [`Self::retire`], but returns the work, to be run on another thread; `None` if no segment
    /// can be retired. Pass its results to [`Self::retired`] in order. The next retirement may
    /// begin only when all results were passed.
    pub fn retirement(
        &mut self,
        needed_epoch: u64,
        retention: &Retention,
        now_ms: i64,
    ) -> Option<Retirement> {
        let count = retention.retired(&self.segments, needed_epoch, now_ms);
        let segments = self.segments.iter().take(count);
        let segments: Vec<(u64, u64)> =
            segments.map(|segment| (segment.number, segment.bytes)).collect();
        if count == 0 {
            return None;
        }
        let bounds = self.bounds(count);
        // The segments may be retired even if their results are never passed back.
        self.first_kept = bounds.first_segment;
        Some(self.pool.retirement(&segments, bounds))
    }

    /// Records one result of a [`Retirement`]: removes the segment from the list, and adds its file
    /// to the spares if it was kept.
    ///
    /// # Errors
    /// Returns the error of `retired`. All but [`LogError::Space`] are final.
    pub fn retired(&mut self, retired: Result<Retired, LogError>) -> Result<(), LogError> {
        self.check_running()?;
        let Retired(Retiring { number, spare }) = self.finish(retired)?;
        self.segments.retain(|segment| segment.number != number);
        spare.into_iter().for_each(|spare| self.pool.add(spare));
        Ok(())
    }

    /// Returns the work that prepares the next segment, `None` if one is ready. Run it on another
    /// thread, so that the writer does not wait for it.
    pub fn spare_job(&mut self) -> Option<SpareJob> {
        let (bytes, reserve_bytes) = (self.next_bytes(), self.options.reserve_bytes);
        (!self.pool.has_spare(bytes)).then(|| self.pool.job(bytes, reserve_bytes))
    }

    /// Adds a prepared segment that [`SpareJob::run`] returned. It is removed if the log has grown
    /// meanwhile, so that the next segment is larger.
    pub fn add_spare(&mut self, spare: Spare) {
        self.pool.add(spare);
        self.pool.discard_below(self.next_bytes());
    }

    /// The position up to which the log is written.
    #[must_use]
    pub fn written(&self) -> Position {
        self.cursor.position(self.segment.number)
    }

    /// The position up to which the log is durable.
    #[must_use]
    pub fn synced(&self) -> Position {
        self.synced
    }

    /// The term of this run.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.cursor.term
    }

    /// The segments of the log, ascending.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentInfo> {
        self.segments.iter()
    }

    /// Bytes of all segments, without prepared ones.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Why the writer has stopped, if it has.
    #[must_use]
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    fn check_running(&self) -> Result<(), LogError> {
        match &self.stopped {
            Some(reason) => Err(LogError::Stopped { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Stops the writer after an error that is final.
    fn finish<T>(&mut self, result: Result<T, LogError>) -> Result<T, LogError> {
        if let Err(error) = &result
            && !error.is_recoverable()
        {
            self.stopped = Some(error.to_string());
        }
        result
    }

    /// Rotates to a new segment unless a frame of this size and a seal fit the current one. The new
    /// segment has `bytes`, or more if the frame is larger.
    fn ensure_capacity(
        &mut self,
        frame_bytes: u64,
        bytes: u64,
        reserve_bytes: u64,
    ) -> Result<(), LogError> {
        let needed_bytes = frame_bytes + PAGE_BYTES as u64;
        if self.cursor.offset + needed_bytes <= self.segment.bytes {
            return Ok(());
        }
        self.rotate(bytes.max(needed_bytes + PAGE_BYTES as u64), reserve_bytes)
    }

    /// Bytes of the next segment, if its first frame fits it.
    fn next_bytes(&self) -> u64 {
        self.options.bytes_after(self.segment.bytes)
    }

    /// Seals the segment and begins the next. LOG.md, section 7.3, argues the order.
    fn rotate(&mut self, bytes: u64, reserve_bytes: u64) -> Result<(), LogError> {
        self.pool.ensure(bytes, reserve_bytes)?;
        self.sync_file()?;
        let header = FrameHeader { kind: FrameKind::Seal as u16, ..self.next_header() };
        let crc = header.encode(&mut self.mark);
        let number = self.segment.number + 1;
        let next = SegmentHeader {
            number,
            bytes,
            salt: salt(self.options.seed, number),
            first_sequence: header.sequence + 1,
            synced_sequence: self.cursor.sequence,
            term: self.cursor.term,
            epoch_before: self.cursor.epoch,
            system_ms_before: self.cursor.system_ms,
            previous_crc: crc,
            fleet: self.options.fleet.clone(),
        };
        let display = self.display();
        let failed = |operation| LogError::storage(operation, display.clone());
        let file = self.pool.create(&next)?;
        self.file.write_at(self.cursor.offset, &self.mark).map_err(failed("seal"))?;
        self.file.sync_data().map_err(failed("sync"))?;
        self.advance(&header, crc, FrameKind::Seal);
        self.cursor.offset = PAGE_BYTES as u64;
        self.segments.push_back(SegmentInfo::of(&next));
        (self.file, self.segment) = (file, next);
        self.pool.discard_below(self.next_bytes());
        self.synced = self.written();
        Ok(())
    }

    /// Header of the next frame with the fields of a mark.
    fn next_header(&self) -> FrameHeader {
        FrameHeader {
            kind: 0,
            cycles: 0,
            segment: self.segment.number,
            salt: self.segment.salt,
            sequence: self.cursor.sequence + 1,
            synced_sequence: self.synced.sequence,
            term: self.cursor.term,
            epoch_first: self.cursor.epoch,
            epoch_last: self.cursor.epoch,
            system_ms: self.cursor.system_ms,
            payload_bytes: 0,
            payload_crc: 0,
            previous_crc: self.cursor.crc,
        }
    }

    fn write_mark(&mut self, kind: FrameKind, epoch: u64, term: u64) -> Result<(), LogError> {
        // Marks may use the reserve of the disk, so they take little of it.
        self.ensure_capacity(PAGE_BYTES as u64, self.options.bytes_after(0), 0)?;
        let next = self.next_header();
        let (kind_number, epoch_first, epoch_last) = (kind as u16, epoch, epoch);
        let header = FrameHeader { kind: kind_number, term, epoch_first, epoch_last, ..next };
        let crc = header.encode(&mut self.mark);
        let failed = LogError::storage("write", self.display());
        self.file.write_at(self.cursor.offset, &self.mark).map_err(failed)?;
        self.advance(&header, crc, kind);
        Ok(())
    }

    fn advance(&mut self, header: &FrameHeader, crc: u32, kind: FrameKind) {
        self.cursor = Cursor {
            offset: self.cursor.offset + header.frame_bytes(),
            sequence: header.sequence,
            crc,
            epoch: header.epoch_last,
            term: header.term,
            system_ms: header.system_ms,
            kind: Some(kind),
        };
    }

    fn display(&self) -> String {
        self.pool.display(self.segment.number)
    }
}

fn first_segment(options: &LogOptions, epoch: u64, term: u64) -> SegmentHeader {
    SegmentHeader {
        number: 1,
        bytes: options.bytes_after(0),
        salt: salt(options.seed, 1),
        first_sequence: 1,
        synced_sequence: 0,
        term,
        epoch_before: epoch,
        system_ms_before: 0,
        previous_crc: 0,
        fleet: options.fleet.clone(),
    }
}

/// Erases frames and removes segments after the end of the log. Segments are removed in descending
/// order, so that no crash leaves a hole.
fn erase(
    pool: &SegmentPool,
    file: &dyn StorageFile,
    recovered: &Recovered,
) -> Result<(), LogError> {
    recovered.orphan_segments.iter().rev().try_for_each(|&number| pool.remove(number))?;
    if recovered.orphans.is_empty() {
        return Ok(());
    }
    let display = pool.display(recovered.end().segment);
    let failed = |operation| LogError::storage(operation, display.clone());
    let zeros = AlignedBuffer::zeroed(PAGE_BYTES);
    for &offset in &recovered.orphans {
        file.write_at(offset, &zeros).map_err(failed("write"))?;
    }
    file.sync_data().map_err(failed("sync"))
}

/// The salt of a segment: a step of SplitMix64 (Steele, Lea, Flood 2014) from seed and number.
fn salt(seed: u64, number: u64) -> u64 {
    let mut mixed = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
