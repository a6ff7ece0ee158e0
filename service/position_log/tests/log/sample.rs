//! Cycles that tests append and compare, and short names for opening logs.

use std::sync::Arc;

use shoal_position_log::{
    CycleHeader, CycleOutcome, CycleSource, EVERY_ROW, FleetIdentity, Group, LogError, LogOptions,
    LogReader, LogWriter, LoggedCycle, LoggedNames, LoggedRequest, ObjectIds, ProducerBatch,
    ReadMode, ReadOptions, Recovered, RefusedRow, RequestBody, Storage, push_name,
};
use shoal_testkit::Random;

pub(crate) const LOG: &str = "fleets/bus/log";
pub(crate) const CHECKPOINT: &str = "fleets/bus/checkpoint";

pub(crate) fn fleet() -> FleetIdentity {
    FleetIdentity::new(0x0123_4567_89ab_cdef_0011_2233_4455_6677, "bus").unwrap()
}

pub(crate) fn options(segment_bytes: u64) -> LogOptions {
    LogOptions { fleet: fleet(), segment_bytes, reserve_bytes: 0, seed: 42 }
}

/// A request that a test owns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OwnedBody {
    Block(Vec<u8>),
    Rows(Vec<u8>),
    Remove(Vec<u64>),
    Clear,
    Rewind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnedRequest {
    pub(crate) body: OwnedBody,
    pub(crate) batch: Option<(String, u64)>,
}

/// A cycle that a test owns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnedCycle {
    pub(crate) header: CycleHeader,
    pub(crate) requests: Vec<OwnedRequest>,
    /// The clock after the cycle and its refused rows; `None` if the log does not record them.
    pub(crate) outcome: Option<(i64, Vec<RefusedRow>)>,
    /// The names that the outcome records, if it records any.
    pub(crate) names: Option<OwnedNames>,
}

/// Names that a test owns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OwnedNames {
    first_number: u64,
    count: u32,
    texts: Vec<u8>,
    forgotten: Vec<u64>,
}

impl OwnedNames {
    pub(crate) fn new(first_number: u64, names: &[&str], forgotten: &[u64]) -> Self {
        let (count, forgotten) = (names.len() as u32, forgotten.to_vec());
        let mut texts = Vec::new();
        names.iter().for_each(|name| push_name(&mut texts, name));
        Self { first_number, count, texts, forgotten }
    }

    pub(crate) fn view(&self) -> LoggedNames<'_> {
        let Self { first_number, count, texts, forgotten } = self;
        let forgotten = ObjectIds::Ids(forgotten);
        LoggedNames { first_number: *first_number, count: *count, texts, forgotten }
    }
}

impl OwnedCycle {
    pub(crate) fn views(&self) -> Vec<LoggedRequest<'_>> {
        self.requests.iter().map(OwnedRequest::view).collect()
    }

    pub(crate) fn append_to(&self, group: &mut Group) {
        let outcome = self.outcome.as_ref();
        let names = self.names.as_ref().map(OwnedNames::view);
        let outcome =
            outcome.map(|(clock_ms, refused)| CycleOutcome { clock_ms: *clock_ms, refused, names });
        let appended = group.append_settled(self.header, outcome, self.views());
        appended.expect("sample cycles are valid");
    }

    /// Whether a cycle that was read is this one.
    pub(crate) fn is(&self, read: &LoggedCycle<'_>) -> bool {
        let outcome = read.clock_ms.map(|clock_ms| (clock_ms, read.refused().collect()));
        let names = self.names.as_ref().filter(|_| outcome.is_some()).map(OwnedNames::view);
        let is_same = self.header == read.header && self.outcome == outcome && names == read.names;
        is_same && read.requests().eq(self.views())
    }
}

impl OwnedRequest {
    fn view(&self) -> LoggedRequest<'_> {
        let body = match &self.body {
            OwnedBody::Block(bytes) => RequestBody::Block(bytes),
            OwnedBody::Rows(bytes) => RequestBody::Rows(bytes),
            OwnedBody::Remove(ids) => RequestBody::Remove(ObjectIds::Ids(ids)),
            OwnedBody::Clear => RequestBody::Clear,
            OwnedBody::Rewind => RequestBody::Rewind,
        };
        let batch = self.batch.as_ref();
        let batch =
            batch.map(|(producer, batch_seq)| ProducerBatch { producer, batch_seq: *batch_seq });
        LoggedRequest { body, batch }
    }
}

/// A cycle whose content follows from epoch and seed.
pub(crate) fn cycle(chance: &mut Random, epoch: u64, bytes_max: usize) -> OwnedCycle {
    let requests: Vec<OwnedRequest> = (0..chance.below(4))
        .map(|number| {
            let mut bytes = vec![0; chance.below(bytes_max)];
            bytes.iter_mut().for_each(|byte| *byte = chance.word() as u8);
            let body = match chance.below(5) {
                0 => OwnedBody::Remove((0..chance.below(20)).map(|_| chance.word()).collect()),
                1 if chance.below(2) == 0 => OwnedBody::Rewind,
                1 => OwnedBody::Clear,
                2 => OwnedBody::Rows(bytes),
                _ => OwnedBody::Block(bytes),
            };
            let name = "producer".repeat(1 + chance.below(16));
            let batch = (chance.below(2) == 0)
                .then(|| (name[..=chance.below(name.len())].to_owned(), number as u64 + 1));
            OwnedRequest { body, batch }
        })
        .collect();
    let system_ms = 1_700_000_000_000 + epoch as i64 * 10;
    let header = CycleHeader { epoch, system_ms, time_max_ms: system_ms + 5_000 };
    let refused = (0..requests.len() as u32).flat_map(|request| match chance.below(4) {
        0 => vec![(request, EVERY_ROW)],
        1 => (0..3).map(|row| (request, row * row + request)).collect(),
        _ => Vec::new(),
    });
    let outcome = (!epoch.is_multiple_of(3)).then(|| (system_ms + 1, refused.collect()));
    let names = (chance.below(3) == 0).then(|| {
        let name = "näme".repeat(1 + chance.below(40));
        let names = vec![name.as_str(); chance.below(5)];
        let forgotten = [chance.word() >> 1, u64::MAX];
        OwnedNames::new(1 + (chance.word() >> 1), &names, &forgotten[..chance.below(3)])
    });
    OwnedCycle { header, requests, outcome, names }
}

pub(crate) fn reader(
    storage: &Arc<dyn Storage>,
    after_epoch: u64,
    mode: ReadMode,
) -> Result<LogReader, LogError> {
    let options = ReadOptions { fleet: Some(fleet()), after_epoch, mode };
    LogReader::open(storage.clone(), LOG, options)
}

/// Reads a log to its end and compares each cycle with the one that was appended for its epoch.
pub(crate) fn recover(
    storage: &Arc<dyn Storage>,
    after_epoch: u64,
    mut each: impl FnMut(&LoggedCycle<'_>),
) -> Result<Recovered, LogError> {
    let mut reader = reader(storage, after_epoch, ReadMode::Recover)?;
    while let Some(cycle) = reader.next_cycle()? {
        each(&cycle);
    }
    reader.finish()
}

/// Recovers the log and opens its writer.
pub(crate) fn open(
    storage: &Arc<dyn Storage>,
    options: LogOptions,
    fresh_term: u64,
) -> Result<LogWriter, LogError> {
    let recovered = recover(storage, 0, |_| {})?;
    let epoch = recovered.end().epoch;
    LogWriter::open(storage.clone(), LOG, options, recovered, epoch, fresh_term)
}
