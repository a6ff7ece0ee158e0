//! The record of one cycle: the engine's input, byte for byte as it arrived (LOG.md, section 6).
//!
//! A parsed record borrows its bytes. The whole record is checked before a request is returned.

use std::fmt;

use crate::error::LogError;
use crate::limits::{
    GROUP_BYTES_MAX, PRODUCER_BYTES_MAX, RECORD_ALIGN_BYTES, RECORD_HEADER_BYTES,
    REQUEST_HEADER_BYTES,
};
use crate::record_names::LoggedNames;
use crate::wire::{i64_at, put, u16_at, u32_at, u64_at};

/// A cycle without its outcome.
const CYCLE: u16 = 1;
/// A cycle with its outcome.
const SETTLED_CYCLE: u16 = 2;
/// A cycle with its outcome and names.
const NAMING_CYCLE: u16 = 3;

/// Bytes of the clock that follows the header of a cycle with its outcome.
const CLOCK_BYTES: usize = 8;
/// Bytes of a refused row.
const REFUSED_BYTES: usize = 8;

/// Epoch and clocks of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleHeader {
    /// Epoch of the cycle; epochs of a log ascend.
    pub epoch: u64,
    /// The system clock that the cycle ran with, Unix milliseconds.
    pub system_ms: i64,
    /// Latest event time that the cycle accepted, Unix milliseconds.
    pub time_max_ms: i64,
}

/// A row that the engine refused: the number of its request, and of the row in it;
/// [`EVERY_ROW`] for a request that was refused as a whole.
pub type RefusedRow = (u32, u32);

/// Row number that stands for all rows of a block that does not decode.
pub const EVERY_ROW: u32 = u32::MAX;

/// The outcome of a cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CycleOutcome<'a> {
    /// The fleet's clock after the cycle, Unix milliseconds.
    pub clock_ms: i64,
    /// The rows that the engine refused, ascending.
    pub refused: &'a [RefusedRow],
    /// Names that this cycle adds or forgets, if any.
    pub names: Option<LoggedNames<'a>>,
}

impl CycleOutcome<'_> {
    /// Checks that the refused rows ascend and belong to one of `requests` requests, and checks the
    /// names.
    fn check(&self, requests: usize) -> Result<(), LogError> {
        self.names.map_or(Ok(()), |names| names.check())?;
        check_refused(self.refused.iter().copied(), requests).map_err(LogError::Input)
    }
}

/// Confirms that refused rows ascend, that their requests exist, and that a request that is refused
/// as a whole has no other entries.
fn check_refused(refused: impl Iterator<Item = RefusedRow>, requests: usize) -> Result<(), String> {
    let mut last = None;
    for (request, row) in refused {
        let is_placed = last.is_none_or(|(last_request, last_row)| {
            last_request < request || last_request == request && last_row < row && row != EVERY_ROW
        });
        if !is_placed || request as usize >= requests {
            return Err(format!("refused row {row} of request {request} is misplaced"));
        }
        last = Some((request, row));
    }
    Ok(())
}

/// The number that a producer gave a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerBatch<'a> {
    /// Name of the producer, 1 to 128 bytes.
    pub producer: &'a str,
    /// Number of the message, from 1.
    pub batch_seq: u64,
}

/// Ids of objects, either as numbers or as the log encodes them.
#[derive(Clone, Copy)]
pub enum ObjectIds<'a> {
    /// Numbers.
    Ids(&'a [u64]),
    /// Little-endian numbers of 8 bytes each.
    Encoded(&'a [u8]),
}

impl<'a> ObjectIds<'a> {
    /// Number of ids.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.len(),
            Self::Encoded(bytes) => bytes.len() / 8,
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let (ids, encoded): (&[u64], &[u8]) = match *self {
            Self::Ids(ids) => (ids, &[]),
            Self::Encoded(bytes) => (&[], bytes),
        };
        ids.iter().copied().chain(encoded.as_chunks().0.iter().map(|id| u64::from_le_bytes(*id)))
    }
}

impl fmt::Debug for ObjectIds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for ObjectIds<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

/// What a request changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RequestBody<'a> {
    /// A client's block, byte for byte.
    Block(&'a [u8]),
    /// Plain rows, encoded as a block by the server.
    Rows(&'a [u8]),
    /// Removal of these objects.
    Remove(ObjectIds<'a>),
    /// Removal of all objects.
    Clear,
    /// Sets the fleet's clock back to the cycle's `system_ms` if the clock is ahead of it.
    Rewind,
}

impl RequestBody<'_> {
    fn kind(&self) -> u8 {
        match self {
            Self::Block(_) => 1,
            Self::Rows(_) => 2,
            Self::Remove(_) => 3,
            Self::Clear => 4,
            Self::Rewind => 5,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Block(bytes) | Self::Rows(bytes) => bytes.len(),
            Self::Remove(ids) => ids.len() * 8,
            Self::Clear | Self::Rewind => 0,
        }
    }
}

/// One request of a cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoggedRequest<'a> {
    /// What it changes.
    pub body: RequestBody<'a>,
    /// The number that its producer gave it, if any.
    pub batch: Option<ProducerBatch<'a>>,
}

impl LoggedRequest<'_> {
    /// Bytes of the encoded request.
    fn encoded_bytes(&self) -> usize {
        let producer = self.batch.map_or(0, |batch| batch.producer.len());
        REQUEST_HEADER_BYTES
            + producer.next_multiple_of(RECORD_ALIGN_BYTES)
            + self.body.bytes().next_multiple_of(RECORD_ALIGN_BYTES)
    }

    fn check(&self) -> Result<(), LogError> {
        let Some(batch) = self.batch else { return Ok(()) };
        let length = batch.producer.len();
        if length == 0 || length > PRODUCER_BYTES_MAX || batch.batch_seq == 0 {
            return Err(LogError::Input(format!(
                "batch {} of a producer whose name has {length} bytes: numbers begin at 1, names \
                 have 1 to {PRODUCER_BYTES_MAX} bytes",
                batch.batch_seq
            )));
        }
        Ok(())
    }

    /// Writes the request to the start of `out`, whatever it contains, and returns the length of
    /// the request.
    fn encode(&self, out: &mut [u8]) -> usize {
        let producer = self.batch.map_or("", |batch| batch.producer);
        put(out, 0, &(self.body.bytes() as u32).to_le_bytes());
        put(out, 4, &[self.body.kind(), producer.len() as u8, 0, 0]);
        put(out, 8, &self.batch.map_or(0, |batch| batch.batch_seq).to_le_bytes());
        let mut at = put_padded(out, REQUEST_HEADER_BYTES, producer.as_bytes());
        match self.body {
            RequestBody::Block(bytes)
            | RequestBody::Rows(bytes)
            | RequestBody::Remove(ObjectIds::Encoded(bytes)) => at = put_padded(out, at, bytes),
            RequestBody::Remove(ObjectIds::Ids(ids)) => {
                for id in ids {
                    put(out, at, &id.to_le_bytes());
                    at += 8;
                }
            }
            RequestBody::Clear | RequestBody::Rewind => {}
        }
        at
    }

    /// The request at the start of `bytes`, and its length.
    fn parse(bytes: &[u8]) -> Result<(LoggedRequest<'_>, usize), String> {
        let Some(header) = bytes.get(..REQUEST_HEADER_BYTES) else {
            return Err("a request exceeds its record".into());
        };
        let (body_bytes, batch_seq) = (u32_at(header, 0) as usize, u64_at(header, 8));
        let name_end = REQUEST_HEADER_BYTES + usize::from(header[5]);
        let body_at = name_end.next_multiple_of(RECORD_ALIGN_BYTES);
        let end = body_at.saturating_add(body_bytes).next_multiple_of(RECORD_ALIGN_BYTES);
        if end > bytes.len() {
            return Err("a request exceeds its record".into());
        }
        let (producer, body) =
            (&bytes[REQUEST_HEADER_BYTES..name_end], &bytes[body_at..body_at + body_bytes]);
        let body = match header[4] {
            1 => RequestBody::Block(body),
            2 => RequestBody::Rows(body),
            3 if body_bytes.is_multiple_of(8) => RequestBody::Remove(ObjectIds::Encoded(body)),
            3 => return Err(format!("a removal has {body_bytes} bytes, not 8 for each object")),
            4 if body_bytes == 0 => RequestBody::Clear,
            5 if body_bytes == 0 => RequestBody::Rewind,
            kind @ (4 | 5) => {
                return Err(format!("a request of kind {kind} has {body_bytes} bytes, not 0"));
            }
            kind => return Err(format!("unknown kind of request: {kind}")),
        };
        let batch = match (producer, batch_seq) {
            ([], 0) => None,
            ([], _) | (_, 0) => return Err("a batch number without a producer".into()),
            (name, _) if name.len() > PRODUCER_BYTES_MAX => {
                return Err(format!("a producer's name has {} bytes", name.len()));
            }
            (name, batch_seq) => {
                let producer = std::str::from_utf8(name);
                let producer = producer.map_err(|_| "a producer's name is not UTF-8")?;
                Some(ProducerBatch { producer, batch_seq })
            }
        };
        Ok((LoggedRequest { body, batch }, end))
    }
}

/// Writes bytes at an offset and pads them with zeros to the alignment. Returns the offset after
/// the padding.
pub(crate) fn put_padded(out: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    put(out, at, bytes);
    let end = at + bytes.len();
    let aligned = end.next_multiple_of(RECORD_ALIGN_BYTES);
    out[end..aligned].fill(0);
    aligned
}

/// Bytes of the record of a cycle with these requests.
pub(crate) fn record_bytes<'a>(
    outcome: Option<CycleOutcome<'_>>,
    requests: impl Iterator<Item = LoggedRequest<'a>>,
) -> Result<usize, LogError> {
    let (mut bytes, mut count) = (RECORD_HEADER_BYTES, 0);
    for request in requests {
        request.check()?;
        bytes = bytes.saturating_add(request.encoded_bytes());
        count += 1;
    }
    if let Some(outcome) = outcome {
        outcome.check(count)?;
        let names = outcome.names.map_or(0, |names| names.encoded_bytes());
        bytes += CLOCK_BYTES + names + outcome.refused.len() * REFUSED_BYTES;
    }
    if bytes > GROUP_BYTES_MAX {
        let limit = GROUP_BYTES_MAX;
        return Err(LogError::Input(format!("a cycle of {bytes} bytes, the limit is {limit}")));
    }
    Ok(bytes)
}

/// Writes the record of a cycle to bytes of exactly its length.
pub(crate) fn encode_record<'a>(
    cycle: CycleHeader,
    outcome: Option<CycleOutcome<'_>>,
    requests: impl Iterator<Item = LoggedRequest<'a>>,
    out: &mut [u8],
) {
    let (mut count, mut at) = (0_u32, RECORD_HEADER_BYTES);
    if let Some(outcome) = outcome {
        put(out, at, &outcome.clock_ms.to_le_bytes());
        at += CLOCK_BYTES;
        if let Some(names) = outcome.names {
            at += names.encode(&mut out[at..]);
        }
    }
    for request in requests {
        at += request.encode(&mut out[at..]);
        count += 1;
    }
    let refused = outcome.map_or(&[][..], |outcome| outcome.refused);
    for (request, row) in refused {
        put(out, at, &request.to_le_bytes());
        put(out, at + 4, &row.to_le_bytes());
        at += REFUSED_BYTES;
    }
    let kind = match outcome {
        None => CYCLE,
        Some(CycleOutcome { names: None, .. }) => SETTLED_CYCLE,
        Some(_) => NAMING_CYCLE,
    };
    assert_eq!(at, out.len(), "the requests changed between two passes");
    put(out, 0, &(at as u32).to_le_bytes());
    put(out, 4, &kind.to_le_bytes());
    put(out, 6, &[0, 0]);
    put(out, 8, &cycle.epoch.to_le_bytes());
    put(out, 16, &cycle.system_ms.to_le_bytes());
    put(out, 24, &cycle.time_max_ms.to_le_bytes());
    put(out, 32, &count.to_le_bytes());
    put(out, 36, &(refused.len() as u32).to_le_bytes());
}

/// Bytes of the refused rows at the end of a record.
fn refused_bytes(encoded: &[u8]) -> usize {
    let is_settled = u16_at(encoded, 4) != CYCLE;
    if is_settled { u32_at(encoded, 36) as usize * REFUSED_BYTES } else { 0 }
}

/// A cycle as it is read from a log or a leader's stream.
#[derive(Clone, Copy, PartialEq)]
pub struct LoggedCycle<'a> {
    /// Its term.
    pub term: u64,
    /// Its epoch and clocks.
    pub header: CycleHeader,
    /// The fleet's clock after the cycle, Unix milliseconds; `None` if the version that wrote the
    /// log did not record it.
    pub clock_ms: Option<i64>,
    /// Names that this cycle adds or forgets, if any.
    pub names: Option<LoggedNames<'a>>,
    /// Offset of the first request in the record.
    requests_at: usize,
    requests: u32,
    /// Refused rows, encoded.
    refused: &'a [[u8; REFUSED_BYTES]],
    encoded: &'a [u8],
}

impl<'a> LoggedCycle<'a> {
    /// Reads the record at the start of `bytes` and checks all of its requests. Allocates nothing.
    ///
    /// # Errors
    /// A description of the fault; an unknown kind is reported by its number.
    pub fn parse(term: u64, bytes: &'a [u8]) -> Result<Self, String> {
        if bytes.len() < RECORD_HEADER_BYTES {
            return Err(format!("{} bytes are too few for a record", bytes.len()));
        }
        let (length, kind) = (u32_at(bytes, 0) as usize, u16_at(bytes, 4));
        let header_bytes = match kind {
            CYCLE => RECORD_HEADER_BYTES,
            SETTLED_CYCLE | NAMING_CYCLE => RECORD_HEADER_BYTES + CLOCK_BYTES,
            _ => return Err(format!("unknown kind of record: {kind}")),
        };
        let is_valid = length >= header_bytes && length.is_multiple_of(RECORD_ALIGN_BYTES);
        let encoded = bytes.get(..length).filter(|_| is_valid);
        let encoded = encoded.ok_or_else(|| format!("a record of {length} bytes"))?;
        let refused_bytes = refused_bytes(encoded);
        if refused_bytes > length - header_bytes {
            return Err("the refused rows exceed their record".into());
        }
        let requests_end = length - refused_bytes;
        if kind == NAMING_CYCLE {
            LoggedNames::parse(&encoded[header_bytes..requests_end])?;
        }
        let cycle = Self::of_checked(term, encoded);
        let mut at = cycle.requests_at;
        for _ in 0..cycle.requests {
            at += LoggedRequest::parse(&encoded[at..requests_end])?.1;
        }
        if at != requests_end {
            return Err(format!("a record of {requests_end} bytes with requests of {at}"));
        }
        check_refused(cycle.refused(), cycle.len())?;
        Ok(cycle)
    }

    /// Parses a record that [`Self::parse`] has accepted, without checking it again.
    pub(crate) fn of_checked(term: u64, encoded: &'a [u8]) -> Self {
        let header = CycleHeader {
            epoch: u64_at(encoded, 8),
            system_ms: i64_at(encoded, 16),
            time_max_ms: i64_at(encoded, 24),
        };
        let kind = u16_at(encoded, 4);
        let clock_ms = (kind != CYCLE).then(|| i64_at(encoded, RECORD_HEADER_BYTES));
        let head = RECORD_HEADER_BYTES + clock_ms.map_or(0, |_| CLOCK_BYTES);
        let names = (kind == NAMING_CYCLE).then(|| LoggedNames::of_checked(&encoded[head..]));
        let (names, bytes) = names.flatten().unzip();
        let requests_at = head + bytes.unwrap_or(0);
        let refused = encoded[encoded.len() - refused_bytes(encoded)..].as_chunks().0;
        let requests = u32_at(encoded, 32);
        Self { term, header, clock_ms, names, requests_at, requests, refused, encoded }
    }

    /// The rows that the engine refused, ascending. Empty if `clock_ms` is `None`.
    pub fn refused(&self) -> impl Iterator<Item = RefusedRow> + use<'a> {
        self.refused.iter().map(|refused| (u32_at(refused, 0), u32_at(refused, 4)))
    }

    /// The record's bytes, as they are streamed to followers; [`Self::parse`] reads them.
    #[must_use]
    pub fn encoded(&self) -> &'a [u8] {
        self.encoded
    }

    /// Number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests as usize
    }

    /// Whether there is no request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// The requests in order.
    pub fn requests(&self) -> impl Iterator<Item = LoggedRequest<'a>> + use<'a> {
        let encoded = self.encoded;
        let mut at = self.requests_at;
        (0..self.requests).map_while(move |_| {
            let (request, bytes) = LoggedRequest::parse(&encoded[at..]).ok()?;
            at += bytes;
            Some(request)
        })
    }
}

impl fmt::Debug for LoggedCycle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LoggedCycle");
        debug.field("term", &self.term).field("header", &self.header);
        debug.field("clock_ms", &self.clock_ms).field("refused", &self.refused.len());
        debug.field("names", &self.names);
        debug.field("requests", &self.requests().collect::<Vec<_>>()).finish()
    }
}
