//! Parses a report message without its rows.
//!
//! One pass over the bytes finds fleet, producer and payload, and counts the rows, so that capacity
//! is reserved before rows are allocated. The rules of protobuf hold: the last payload wins,
//! consecutive `rows` are joined, unknown fields are skipped.

use bytes::Bytes;
use shoal_proto::fields::{report_once_request, report_request, rows};

use super::protobuf_reader::{ProtobufReader, Value};
use crate::cycle::Durability;
use crate::error::ServiceError;
use crate::fleet_request::durability_of;
use crate::limits::PRODUCER_BYTES_MAX;

const WHAT: &str = "ReportRequest";

const _: () = assert!(
    report_request::FLEET == report_once_request::FLEET
        && report_request::PRODUCER == report_once_request::PRODUCER
        && report_request::BATCH_SEQ == report_once_request::BATCH_SEQ
        && report_request::ROWS == report_once_request::ROWS
        && report_request::BLOCK == report_once_request::BLOCK
        && report_request::DURABILITY == report_once_request::DURABILITY
        && report_request::DROP_INVALID_MEASURES == report_once_request::DROP_INVALID_MEASURES
        && report_request::BLOCK_NAMES == report_once_request::BLOCK_NAMES,
    "one parser reads the requests of Report and ReportOnce"
);

/// A message whose rows are encoded.
#[derive(Debug)]
pub(super) struct ReportMessage {
    bytes: Bytes,
    fleet: (usize, usize),
    producer: (usize, usize),
    pub(super) batch_seq: u64,
    pub(super) payload: Payload,
    /// The requested durability; `None` for the default of the fleet.
    pub(super) durability: Option<Durability>,
    /// Whether a measure that cannot be stored is dropped instead of its row.
    pub(super) drops_measures: bool,
    /// Number of the names of a block, and the offset of the first.
    block_names: (usize, usize),
}

/// The rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Payload {
    /// No payload was set.
    None,
    /// Plain rows: their number, and the offset of the first `rows` field.
    Rows { count: usize, from: usize },
    /// A block.
    Block(Bytes),
}

impl ReportMessage {
    /// Reads everything but the rows.
    ///
    /// # Errors
    /// [`ServiceError::Malformed`], [`ServiceError::Field`] for a producer's name that is too long or
    /// an option that the payload has not.
    pub(super) fn parse(bytes: Bytes) -> Result<Self, ServiceError> {
        use report_request::{
            BATCH_SEQ, BLOCK, BLOCK_NAMES, DROP_INVALID_MEASURES, DURABILITY, FLEET, PRODUCER, ROWS,
        };
        let mut reader = ProtobufReader::new(WHAT, &bytes, 0);
        let (mut fleet, mut producer) = ((0, 0), (0, 0));
        let (mut batch_seq, mut payload, mut durability) = (0, Payload::None, 0);
        let (mut drops_measures, mut block_names) = (false, (0, 0));
        loop {
            let at = reader.offset();
            let Some(field) = reader.field()? else { break };
            let end = reader.offset();
            match field {
                (FLEET, Value::Bytes(text)) => fleet = text_span(&reader, text, end)?,
                (PRODUCER, Value::Bytes(text)) => producer = text_span(&reader, text, end)?,
                (BATCH_SEQ, Value::Varint(number)) => batch_seq = number,
                (ROWS, Value::Bytes(rows)) => {
                    let more = count_fixes(rows, end - rows.len())?;
                    payload = match payload {
                        Payload::Rows { count, from } => {
                            Payload::Rows { count: count + more, from }
                        }
                        _ => Payload::Rows { count: more, from: at },
                    };
                }
                (BLOCK, Value::Bytes(block)) => {
                    payload = Payload::Block(bytes.slice(end - block.len()..end));
                }
                (DURABILITY, Value::Varint(number)) => durability = number,
                (DROP_INVALID_MEASURES, Value::Varint(flag)) => drops_measures = flag != 0,
                (BLOCK_NAMES, Value::Bytes(_)) => {
                    let (count, from) = block_names;
                    block_names = (count + 1, if count == 0 { at } else { from });
                }
                (
                    FLEET
                    | PRODUCER
                    | BATCH_SEQ
                    | ROWS
                    | BLOCK
                    | DURABILITY
                    | DROP_INVALID_MEASURES
                    | BLOCK_NAMES,
                    _,
                ) => {
                    return Err(reader.malformed("wrong wire type"));
                }
                _ => {}
            }
        }
        let durability = durability_of(durability)?;
        let message = Self {
            bytes,
            fleet,
            producer,
            batch_seq,
            payload,
            durability,
            drops_measures,
            block_names,
        };
        message.check()?;
        Ok(message)
    }

    fn check(&self) -> Result<(), ServiceError> {
        check_numbered(self.producer(), self.batch_seq)?;
        match self.payload {
            Payload::None => Err(ServiceError::field("payload", "required: set rows or block")),
            Payload::Block(_) if self.drops_measures => {
                let problem = "must be false for a block: only rows have measures to drop";
                Err(ServiceError::field("drop_invalid_measures", problem))
            }
            Payload::Rows { .. } if self.block_names.0 > 0 => {
                let problem = "must be empty without a block: rows have their own names";
                Err(ServiceError::field("block_names", problem))
            }
            _ => Ok(()),
        }
    }

    /// The fleet's name as sent; empty means `default`.
    pub(super) fn fleet(&self) -> &str {
        self.text(self.fleet)
    }

    /// The name of the producer; empty without one.
    pub(super) fn producer(&self) -> &str {
        self.text(self.producer)
    }

    fn text(&self, (from, to): (usize, usize)) -> &str {
        // The text was checked when the span was stored.
        std::str::from_utf8(&self.bytes[from..to]).unwrap_or_default()
    }

    /// Bytes of the whole message.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Number of the names of a block.
    pub(super) fn block_names_count(&self) -> usize {
        self.block_names.0
    }

    /// The names of a block.
    ///
    /// # Errors
    /// [`ServiceError::Malformed`] for a name that is not UTF-8.
    pub(super) fn block_names(&self) -> Result<Vec<&str>, ServiceError> {
        let (count, from) = self.block_names;
        let mut names = Vec::with_capacity(count);
        let mut reader = ProtobufReader::new(WHAT, &self.bytes[from..], from);
        while names.len() < count {
            match reader.field()? {
                Some((report_request::BLOCK_NAMES, Value::Bytes(name))) => {
                    let name = std::str::from_utf8(name);
                    names.push(name.map_err(|_| reader.malformed("string is not UTF-8"))?);
                }
                Some(_) => {}
                None => break,
            }
        }
        Ok(names)
    }

    /// Iterates over the encoded fixes; `from` is the offset of the first `rows` field.
    pub(super) fn fixes(&self, from: usize) -> Fixes<'_> {
        let outer = ProtobufReader::new(WHAT, &self.bytes[from..], from);
        Fixes { outer, inner: ProtobufReader::new(WHAT, &[], from) }
    }
}

/// Checks that a message has both a producer and a batch number, or neither.
///
/// # Errors
/// [`ServiceError::Field`].
pub(super) fn check_numbered(producer: &str, batch_seq: u64) -> Result<(), ServiceError> {
    let bytes = producer.len();
    match (producer.is_empty(), batch_seq) {
        _ if bytes > PRODUCER_BYTES_MAX => {
            let problem = format!("{bytes} bytes exceed the limit of {PRODUCER_BYTES_MAX}");
            Err(ServiceError::field("producer", problem))
        }
        (false, 0) => {
            let problem = "must be 1 or greater in a message with a producer";
            Err(ServiceError::field("batch_seq", problem))
        }
        (true, 1..) => {
            let problem = format!("must be set in a message with batch_seq {batch_seq}");
            Err(ServiceError::field("producer", problem))
        }
        _ => Ok(()),
    }
}

/// Iterates over the encoded fixes of a message.
pub(super) struct Fixes<'a> {
    outer: ProtobufReader<'a>,
    inner: ProtobufReader<'a>,
}

impl<'a> Fixes<'a> {
    /// The bytes of the next fix and their offset; `None` after the last.
    #[inline]
    pub(super) fn next_fix(&mut self) -> Result<Option<(&'a [u8], usize)>, ServiceError> {
        loop {
            while let Some((number, value)) = self.inner.field()? {
                if let (rows::FIXES, Value::Bytes(fix)) = (number, value) {
                    return Ok(Some((fix, self.inner.offset() - fix.len())));
                }
            }
            match self.outer.field()? {
                Some((report_request::ROWS, Value::Bytes(rows))) => {
                    let base = self.outer.offset() - rows.len();
                    self.inner = ProtobufReader::new(WHAT, rows, base);
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}

fn count_fixes(bytes: &[u8], base: usize) -> Result<usize, ServiceError> {
    let mut reader = ProtobufReader::new(WHAT, bytes, base);
    let mut count = 0;
    while let Some((number, value)) = reader.field()? {
        if number == rows::FIXES {
            match value {
                Value::Bytes(_) => count += 1,
                _ => return Err(reader.malformed("wrong wire type")),
            }
        }
    }
    Ok(count)
}

/// Checks that `text` is UTF-8 and returns its span, which ends at `end`.
fn text_span(
    reader: &ProtobufReader<'_>,
    text: &[u8],
    end: usize,
) -> Result<(usize, usize), ServiceError> {
    match std::str::from_utf8(text) {
        Ok(_) => Ok((end - text.len(), end)),
        Err(_) => Err(reader.malformed("string is not UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use shoal_proto::v1::report_request::Payload as Sent;
    use shoal_proto::v1::{Fix, ReportRequest, Rows};

    use super::*;

    fn rows(count: usize) -> Sent {
        Sent::Rows(Rows { fixes: vec![Fix { object: 5, ..Fix::default() }; count] })
    }

    fn request(payload: Option<Sent>) -> ReportRequest {
        let (fleet, producer) = ("f".into(), "näme".into());
        ReportRequest {
            fleet,
            producer,
            batch_seq: 300,
            payload,
            durability: 2,
            ..ReportRequest::default()
        }
    }

    #[test]
    fn generated_messages_are_parsed() {
        let sent = ReportRequest { drop_invalid_measures: true, ..request(Some(rows(3))) };
        let message = ReportMessage::parse(sent.encode_to_vec().into()).unwrap();
        assert_eq!((message.fleet(), message.producer()), ("f", "näme"));
        assert_eq!((message.batch_seq, message.durability), (300, Some(Durability::Logged)));
        assert!(message.drops_measures);
        let Payload::Rows { count, from } = message.payload else { panic!("no rows") };
        assert_eq!(count, 3);
        let mut fixes = message.fixes(from);
        for _ in 0..3 {
            let (fix, _) = fixes.next_fix().unwrap().unwrap();
            assert_eq!(Fix::decode(fix).unwrap().object, 5);
        }
        assert!(fixes.next_fix().unwrap().is_none());

        let block = Some(Sent::Block(Bytes::from_static(b"block")));
        let message = ReportMessage::parse(request(block).encode_to_vec().into()).unwrap();
        assert_eq!(message.payload, Payload::Block(Bytes::from_static(b"block")));
        assert!(!message.drops_measures);
        assert_eq!(message.block_names().unwrap(), Vec::<&str>::new());
    }

    #[test]
    fn names_of_a_block_may_stand_anywhere() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let block = Some(Sent::Block(Bytes::from_static(b"b")));
        let first = ReportRequest { block_names: names(&["a", "", "b"]), ..request(block) };
        let second = ReportRequest { block_names: names(&["a"]), ..ReportRequest::default() };
        let bytes = [first.encode_to_vec(), second.encode_to_vec()].concat();
        let message = ReportMessage::parse(bytes.into()).unwrap();
        assert_eq!(message.block_names_count(), 4);
        assert_eq!(message.block_names().unwrap(), ["a", "", "b", "a"]);
        let with_rows = ReportRequest { block_names: names(&["a"]), ..request(Some(rows(1))) };
        let error = ReportMessage::parse(with_rows.encode_to_vec().into()).unwrap_err();
        assert!(error.to_string().contains("block_names"), "{error}");
        let mut bytes = second.encode_to_vec();
        *bytes.last_mut().unwrap() = 0xff;
        bytes.extend(request(Some(Sent::Block(Bytes::new()))).encode_to_vec());
        let message = ReportMessage::parse(bytes.into()).unwrap();
        assert!(matches!(message.block_names().unwrap_err(), ServiceError::Malformed { .. }));
    }

    #[test]
    fn payloads_follow_the_rules_of_protobuf() {
        let joined = |payloads: &[Option<Sent>]| {
            let parts = payloads.iter().map(|payload| request(payload.clone()).encode_to_vec());
            ReportMessage::parse(parts.flatten().collect::<Vec<u8>>().into())
        };
        let block = Some(Sent::Block(Bytes::from_static(b"b")));
        let message =
            joined(&[Some(rows(2)), block.clone(), Some(rows(3)), Some(rows(4))]).unwrap();
        let Payload::Rows { count, from } = message.payload else { panic!("no rows") };
        assert_eq!(count, 7);
        let mut fixes = message.fixes(from);
        for _ in 0..7 {
            assert!(fixes.next_fix().unwrap().is_some());
        }
        assert!(fixes.next_fix().unwrap().is_none());
        assert!(matches!(joined(&[Some(rows(2)), block]).unwrap().payload, Payload::Block(_)));
        assert!(joined(&[None]).is_err());
        assert!(ReportMessage::parse(Bytes::new()).is_err());
    }

    #[test]
    fn every_cut_is_refused_or_a_shorter_message() {
        let whole = ReportRequest { durability: 0, ..request(Some(rows(3))) };
        let bytes = Bytes::from(whole.encode_to_vec());
        for length in 0..bytes.len() {
            // A cut between fields leaves a message without payload, which is refused too.
            assert!(ReportMessage::parse(bytes.slice(..length)).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn long_names_are_refused() {
        let mut long = request(Some(rows(1)));
        long.producer = "p".repeat(129);
        let error = ReportMessage::parse(long.encode_to_vec().into()).unwrap_err();
        assert!(error.to_string().contains("129 bytes exceed the limit of 128"), "{error}");
    }
}
