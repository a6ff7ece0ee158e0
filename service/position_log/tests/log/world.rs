//! A server's use of the log on a simulated disk, and a model of what it must find after a crash:
//! a prefix of the cycles that contains every synced one, each once and unaltered.

use std::collections::BTreeMap;
use std::sync::Arc;

use shoal_position_log::{
    CheckpointHeader, CheckpointWriter, CycleSource, EpochState, Fault, Group, LogError,
    LogOptions, LogWriter, PastTerm, ReadMode, Retention, Retirement, Section, SimulatedDisk,
    Storage, Terms, create_log, open_newest,
};
use shoal_testkit::Random;

use crate::sample::{CHECKPOINT, LOG, OwnedCycle, cycle, fleet, options, reader};

/// One step of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Appends a number of cycles with requests up to a size in bytes.
    Append(usize, usize),
    Write,
    Sync,
    Checkpoint,
    Retire,
    /// Prepares a segment for later use.
    Spare,
    /// Ends in order and starts again.
    Restart,
    /// A follower is promoted, or its leader has begun a term.
    Term,
    /// Seals the segment, with or without recycling from here on.
    Seal,
}

/// A random program of `steps` steps.
pub(crate) fn program(chance: &mut Random, steps: usize) -> Vec<Step> {
    let step = |chance: &mut Random| match chance.below(22) {
        0..5 => Step::Append(1 + chance.below(3), 1 + chance.below(9_000)),
        5..10 => Step::Write,
        10..14 => Step::Sync,
        14..16 => Step::Checkpoint,
        16 => Step::Retire,
        21 => Step::Seal,
        17 => Step::Spare,
        18 => Step::Restart,
        19 => Step::Term,
        _ => Step::Append(1, 30_000),
    };
    (0..steps).map(|_| step(chance)).collect()
}

/// A program that fills segments, retires them after two checkpoints and writes on in their files.
pub(crate) fn recycling_program(chance: &mut Random) -> Vec<Step> {
    let mut steps = Vec::new();
    let fill = |steps: &mut Vec<Step>, chance: &mut Random| {
        for _ in 0..2 + chance.below(2) {
            steps.extend([Step::Append(1 + chance.below(2), 25_000), Step::Write]);
            if chance.below(3) > 0 {
                steps.push(Step::Sync);
            }
        }
    };
    for _ in 0..2 {
        fill(&mut steps, chance);
        steps.push(Step::Checkpoint);
    }
    for _ in 0..2 {
        steps.push(Step::Retire);
        fill(&mut steps, chance);
    }
    steps.push([Step::Restart, Step::Term, Step::Seal][chance.below(3)]);
    fill(&mut steps, chance);
    steps
}

/// The state that a fleet has after a cycle, as one number.
fn digest(before: u64, cycle: &OwnedCycle) -> u64 {
    let text = format!("{before} {cycle:?}");
    u64::from(crc32c::crc32c(text.as_bytes())) << 32 | cycle.header.epoch
}

pub(crate) struct World {
    pub(crate) disk: SimulatedDisk,
    storage: Arc<dyn Storage>,
    chance: Random,
    group: Group,
    log: Option<LogWriter>,
    /// A retirement in progress, as if on another thread.
    retirement: Option<Retirement>,
    /// Cycles by epoch, and the state after each.
    cycles: BTreeMap<u64, (OwnedCycle, u64)>,
    /// Greatest epoch that may be on the disk, and greatest epoch that must be.
    written: u64,
    pub(crate) synced: u64,
    /// The same before the last sync that advanced it.
    synced_before: u64,
    /// Segments that were retired, and that began after one of them was recycled.
    pub(crate) retired: u64,
    pub(crate) recycled: u64,
    /// Epoch of the last finished checkpoint.
    checkpoint: u64,
    needed_epoch: u64,
    /// Whether the log was being closed, and whether that was reported done.
    is_closing: bool,
    is_closed: bool,
    /// Starts and terms so far, for fresh terms.
    runs: u64,
    /// Whether it follows a leader, whose term continues across its crashes.
    follows: bool,
    term: u64,
    /// The term that is being begun. A crash leaves either this term or the one before.
    begun: Option<u64>,
    terms: Terms,
    /// The last epoch of each term that survived.
    ends: BTreeMap<u64, u64>,
    /// The operation that the disk only pretends to do, and what was synced before it.
    lie: Option<(u64, u64)>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self::on(seed, SimulatedDisk::new(seed))
    }

    /// The seed determines the content of a program; the disk determines what a crash leaves.
    pub(crate) fn on(seed: u64, disk: SimulatedDisk) -> Self {
        Self {
            storage: Arc::new(disk.clone()),
            disk,
            chance: Random::new(seed),
            group: Group::new(),
            log: None,
            retirement: None,
            cycles: BTreeMap::new(),
            written: 0,
            synced: 0,
            synced_before: 0,
            retired: 0,
            recycled: 0,
            checkpoint: 0,
            needed_epoch: 0,
            is_closing: false,
            is_closed: false,
            runs: 0,
            follows: seed % 4 == 3,
            term: 0,
            begun: None,
            terms: Terms::new(0, Vec::new()),
            ends: BTreeMap::new(),
            lie: None,
        }
    }

    /// Lets the disk report success for a write that vanishes or lands elsewhere. What is written
    /// from then on may be lost if nothing is synced after it.
    pub(crate) fn lie(&mut self, at: u64, fault: Fault) {
        self.disk.inject(at, fault);
        self.lie = Some((at, 0));
    }

    /// Whether the disk has lied.
    pub(crate) fn was_deceived(&self) -> bool {
        self.lie.is_some_and(|(at, _)| self.disk.operations() > at)
    }

    fn set_synced(&mut self, epoch: u64) {
        if epoch > self.synced {
            self.synced_before = self.synced;
        }
        self.synced = epoch;
        if let Some((at, certain)) = &mut self.lie
            && self.disk.operations() <= *at
        {
            *certain = epoch;
        }
    }

    fn options() -> LogOptions {
        options(32 << 10)
    }

    fn state(&self, epoch: u64) -> u64 {
        self.cycles.get(&epoch).map_or(0, |(_, state)| *state)
    }

    /// Starts the server: loads the checkpoint, replays the log, compares both with the model.
    pub(crate) fn start(&mut self) -> Result<(), LogError> {
        (self.log, self.retirement) = (None, None);
        self.group.clear();
        if let Some((_, certain)) = self.lie.filter(|_| self.was_deceived()) {
            // A frame that is written later states what was synced, so only the cycles of the last
            // sync can be lost unnoticed.
            let certain = certain.max(self.synced_before);
            (self.synced, self.checkpoint, self.is_closed) = (certain, 0, false);
        }
        create_log(&*self.storage, LOG)?;
        self.storage.create_dir(CHECKPOINT).map_err(storage_error)?;
        let found = open_newest(&self.storage, CHECKPOINT, Some(&fleet()))?;
        assert!(found.rejected.is_empty() || self.was_deceived(), "{:?}", found.rejected);
        self.needed_epoch = found.needed_epoch;
        let (mut epoch, mut state, mut terms) = (0, 0, None);
        if let Some(mut checkpoint) = found.newest {
            epoch = checkpoint.header().epoch;
            let past = checkpoint.past_terms().to_vec();
            terms = Some(Terms::new(checkpoint.header().term, past));
            while let Some(section) = checkpoint.next_section()? {
                let Section::Server { kind: 16, bytes } = section else { panic!("{section:?}") };
                state = u64::from_le_bytes(bytes.try_into().expect("a digest"));
            }
            assert_eq!(state, self.state(epoch), "the state of the checkpoint");
        }
        assert!(epoch >= self.checkpoint, "checkpoint {} became {epoch}", self.checkpoint);
        // It may be a checkpoint whose writing ended with an error. The next one is not older.
        self.checkpoint = epoch;
        let mut reader = reader(&self.storage, epoch, ReadMode::Recover)?;
        while let Some(read) = reader.next_cycle()? {
            epoch += 1;
            assert_eq!(read.header.epoch, epoch, "a cycle is missing or repeated");
            let (expected, after) = &self.cycles[&epoch];
            assert!(expected.is(&read), "cycle {epoch} is altered");
            state = *after;
        }
        assert_eq!(state, self.state(epoch), "the state after the replay");
        let recovered = reader.finish()?;
        assert_eq!(recovered.end().epoch, epoch);
        let numbers: Vec<u64> = recovered.segments().iter().map(|info| info.number).collect();
        let is_whole = numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        // A segment that recovery does not need may have lost its header.
        assert!(is_whole || self.was_deceived(), "a hole in the segments: {numbers:?}");
        assert!(epoch >= self.synced, "synced up to {}, recovered up to {epoch}", self.synced);
        assert!(epoch <= self.written, "written up to {}, recovered {epoch}", self.written);
        let may_be_clean = self.is_closing || self.was_deceived();
        assert!(may_be_clean || !recovered.was_clean(), "an end that was not in order");
        assert!(!self.is_closed || recovered.was_clean(), "the orderly end is lost");
        // From now on the recovered cycles must stay, and the others must stay lost.
        self.cycles.retain(|other, _| *other <= epoch);
        self.set_synced(epoch);
        self.written = epoch;
        let was_clean = recovered.was_clean();
        // The start that follows may be half done.
        self.is_closed = false;
        self.runs += 1;
        let last_term = recovered.term().or(terms.as_ref().map(Terms::current));
        let fresh_term = last_term.filter(|_| self.follows).unwrap_or(self.runs);
        let (storage, read) = (self.storage.clone(), recovered.clone());
        let log = LogWriter::open(storage, LOG, Self::options(), read, epoch, fresh_term)?;
        if was_clean && !self.was_deceived() {
            assert_eq!(log.term(), self.term, "an orderly restart keeps the term");
        }
        self.terms = recovered.terms(terms, log.term());
        self.check_terms(epoch, log.term());
        (self.term, self.is_closing, self.begun) = (log.term(), false, None);
        self.log = Some(log);
        Ok(())
    }

    /// Tokens of each earlier term are valid up to its last epoch that survived.
    fn check_terms(&mut self, epoch: u64, term: u64) {
        if self.term > 0 && self.term != term {
            self.ends.insert(self.term, epoch);
        }
        if self.follows && self.lie.is_none() {
            let is_known = self.term == 0 || term == self.term || Some(term) == self.begun;
            assert!(is_known, "term {} became {term}", self.term);
        }
        for (&term, &last_epoch) in self.ends.iter().filter(|_| self.lie.is_none()) {
            assert_eq!(self.terms.judge(term, last_epoch), EpochState::Valid, "term {term}");
            let lost = self.terms.judge(term, last_epoch + 1);
            assert_eq!(lost, EpochState::Lost { last_epoch }, "term {term}");
        }
    }

    fn last_epoch(&self) -> u64 {
        self.cycles.last_key_value().map_or(0, |(epoch, _)| *epoch)
    }

    fn append(&mut self, cycles: usize, bytes_max: usize) {
        for _ in 0..cycles {
            let epoch = self.last_epoch() + 1;
            let cycle = cycle(&mut self.chance, epoch, bytes_max);
            cycle.append_to(&mut self.group);
            let state = digest(self.state(epoch - 1), &cycle);
            self.cycles.insert(epoch, (cycle, state));
        }
    }

    /// Performs a step of a started server.
    pub(crate) fn step(&mut self, step: Step) -> Result<(), LogError> {
        let Some(log) = &mut self.log else { return self.start() };
        match step {
            Step::Append(cycles, bytes_max) => self.append(cycles, bytes_max),
            Step::Write => {
                self.written = self.group.epochs().map_or(self.written, |(_, last)| last);
                let segment = log.written().segment;
                log.write(&mut self.group)?;
                let has_rotated = log.written().segment > segment;
                self.recycled += u64::from(has_rotated && self.retired > self.recycled);
            }
            Step::Sync => {
                let epoch = log.sync()?.epoch;
                self.set_synced(epoch);
            }
            Step::Checkpoint => self.take_checkpoint()?,
            Step::Retire => {
                let keep_bytes = self.chance.below(160 << 10) as u64;
                let retention = Retention { keep_bytes, keep_ms: 0 };
                if self.retirement.is_none() {
                    self.retirement = log.retirement(self.needed_epoch, &retention, 0);
                }
                // Other steps run between the retirements of its segments.
                let steps = 1 + self.chance.below(3);
                for retired in self.retirement.iter_mut().flatten().take(steps) {
                    log.retired(retired)?;
                    self.retired += 1;
                }
                self.retirement.take_if(|retirement| retirement.is_done());
            }
            Step::Seal => {
                let recycles = self.chance.below(2) == 0;
                if self.retirement.is_none() {
                    log.recycle(recycles)?;
                }
                let epoch = log.seal()?.epoch;
                self.set_synced(epoch);
            }
            Step::Spare => {
                if let Some(job) = log.spare_job() {
                    log.add_spare(job.run()?);
                }
            }
            Step::Restart => {
                self.step(Step::Write)?;
                self.is_closing = true;
                self.synced = self.written;
                let log = self.log.take().expect("it is started");
                log.close().inspect_err(|_| self.synced = 0)?;
                self.is_closed = true;
                self.start()?;
            }
            Step::Term => {
                self.runs += 1;
                self.begun = Some(self.runs);
                let position = log.begin_term(self.runs)?;
                let ended = PastTerm { term: self.term, last_epoch: position.epoch };
                self.ends.insert(ended.term, ended.last_epoch);
                self.terms.extend(&[ended], self.runs);
                (self.term, self.begun) = (self.runs, None);
                // What follows a promotion is a leader.
                self.follows &= self.chance.below(2) == 0;
                self.set_synced(position.epoch);
            }
        }
        Ok(())
    }

    fn take_checkpoint(&mut self) -> Result<(), LogError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let position = log.sync()?;
        self.set_synced(position.epoch);
        let span = self.synced - self.checkpoint;
        let epoch = self.synced - self.chance.below(span as usize + 1) as u64;
        let term = self.terms.current();
        let header = CheckpointHeader { fleet: fleet(), term, epoch, clock_ms: 0, position };
        let (storage, past) = (self.storage.clone(), self.terms.past());
        let mut file = CheckpointWriter::create(storage, CHECKPOINT, &header, past, 0)?;
        file.section(16, &self.state(epoch).to_le_bytes())?;
        let summary = file.finish()?;
        (self.checkpoint, self.needed_epoch) = (epoch, summary.needed_epoch);
        Ok(())
    }

    /// Checks after an error that is not a crash that a stopped log refuses everything.
    pub(crate) fn check_stopped(&mut self) {
        let Some(log) = &mut self.log else { return };
        if log.stopped().is_some() {
            assert!(matches!(log.sync(), Err(LogError::Stopped { .. })));
            assert!(matches!(log.write(&mut self.group), Err(LogError::Stopped { .. })));
            assert!(log.retire(0, &Retention::default(), 0).is_err());
            self.log = None;
        }
    }

    /// Starts until no planned fault disturbs; `plan` may plan one before each attempt.
    pub(crate) fn start_after_faults(&mut self, mut plan: impl FnMut(&SimulatedDisk, usize)) {
        for attempt in 0.. {
            plan(&self.disk, attempt);
            match self.start() {
                Ok(()) => return,
                Err(error) => assert!(attempt < 20, "it does not start: {error}"),
            }
            if self.disk.has_crashed() {
                self.disk.restart();
            }
        }
    }
}

fn storage_error(source: std::io::Error) -> LogError {
    LogError::Storage { operation: "create", file: "folder".into(), source }
}
