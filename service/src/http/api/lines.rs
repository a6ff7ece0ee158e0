//! Reports of any number of lines, JSON or CSV: each bounded batch of lines is one message of a
//! stream.
//!
//! The body is read only as fast as the fleet takes the rows. A wrong line ends the report; what
//! came before it is applied, and the problem says so.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use axum::response::Response;
use shoal_proto::v1;
use shoal_proto::v1::report_request::Payload;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::call::Call;
use super::csv_lines::CsvLines;
use super::document::stalled;
use super::incoming::Incoming;
use super::reports::{CSV, ReportJson, csv_options, durability};
use super::row;
use crate::http::limits::{HTTP_BATCH_MS, HTTP_BATCH_ROWS_MAX, HTTP_LINE_BYTES_MAX};
use crate::http::problem::Problem;
use crate::limits::MESSAGE_READ_MS_MAX;

/// Maximum number of batches that wait between the reader of lines and the stream.
const BATCHES: usize = 2;

/// Reports the lines of the body.
///
/// # Errors
/// A wrong line, or an error of the stream. The problem states what was applied.
pub(super) async fn report_lines(call: &mut Call) -> Result<Response, Problem> {
    if call.query.has("producer") || call.query.has("batch_seq") {
        let why = "lines are several messages and have no numbers: send a document";
        return Err(Problem::field("producer", why));
    }
    let (sender, receiver) = mpsc::channel(BATCHES);
    let request = call.request(ReceiverStream::new(receiver));
    let reply = call.positions().report(request).await;
    let acks = reply.map_err(|status| call.problem(status))?.into_inner();
    let mut feeder = Feeder {
        template: v1::ReportRequest {
            fleet: call.fleet.clone(),
            durability: durability(call.query.word("durability")).into(),
            drop_invalid_measures: call.query.flag("drop_invalid_measures").unwrap_or(false),
            ..v1::ReportRequest::default()
        },
        is_named: call.is_named().await?,
        sender: Some(sender),
        rows: Vec::new(),
        text: match call.media_type()? {
            CSV => Text::Csv(CsvLines::new(csv_options(&call.query)?)),
            _ => Text::Json(JsonLines::default()),
        },
    };
    let (rows_before, places) = mpsc::unbounded_channel();
    let mut body = std::mem::take(call.body());
    let feeding = async {
        let fed = feeder.feed(&mut body, &rows_before).await;
        // The end of the stream.
        feeder.sender = None;
        fed
    };
    let (fed, (report, acked)) = {
        let mut collecting = pin!(collect(call, acks, places));
        tokio::select! {
            biased;
            // A stream that ends early takes no more lines.
            collected = &mut collecting => (Ok(()), collected),
            fed = feeding => (fed, collecting.await),
        }
    };
    *call.body() = body;
    match fed.and(acked) {
        Ok(()) => report.respond(),
        Err(problem) => Err(problem.with_report(&report)),
    }
}

/// Reads lines into batches.
struct Feeder {
    template: v1::ReportRequest,
    /// Whether the objects of the fleet have names.
    is_named: bool,
    sender: Option<mpsc::Sender<v1::ReportRequest>>,
    rows: Vec<v1::Fix>,
    text: Text,
}

/// The part of the body that is not read yet.
enum Text {
    Json(JsonLines),
    Csv(CsvLines),
}

impl Feeder {
    /// Reads lines and sends batches until the body or the stream ends.
    async fn feed(
        &mut self,
        body: &mut Incoming,
        rows_before: &mpsc::UnboundedSender<u64>,
    ) -> Result<(), Problem> {
        let mut sent = 0;
        let patience = Duration::from_millis(MESSAGE_READ_MS_MAX);
        // Until when a row is expected, and when the rows that have arrived are sent.
        let mut stall = Instant::now() + patience;
        let mut due = stall;
        loop {
            let bytes = match timeout_at(due, body.next()).await {
                Ok(Ok(bytes)) => bytes,
                Ok(Err(problem)) => {
                    // A wrong line before the end of the body is the first problem.
                    let read = self.read(&mut &[][..], Read::Complete);
                    self.send(&mut sent, rows_before).await;
                    return read.and(Err(problem));
                }
                Err(_) => {
                    let read = self.read(&mut &[][..], Read::Complete);
                    if !self.rows.is_empty() {
                        stall = Instant::now() + patience;
                    }
                    if !self.send(&mut sent, rows_before).await {
                        return Ok(());
                    }
                    read?;
                    if Instant::now() >= stall {
                        return Err(stalled(format!("no row for {MESSAGE_READ_MS_MAX} ms")));
                    }
                    due = stall;
                    continue;
                }
            };
            let Some(bytes) = bytes else {
                let read = self.read(&mut &[][..], Read::All);
                self.send(&mut sent, rows_before).await;
                return read;
            };
            let (had_rows, mut rest) = (self.has_rows(), &bytes[..]);
            let mut is_sent = false;
            while !rest.is_empty() {
                let read = self.read(&mut rest, Read::Enough);
                if read.is_err() || self.rows.len() >= HTTP_BATCH_ROWS_MAX {
                    is_sent = true;
                    if !self.send(&mut sent, rows_before).await {
                        return Ok(());
                    }
                }
                read?;
            }
            // The time for which rows wait for the fleet is not the sender's.
            if is_sent {
                stall = Instant::now() + patience;
            }
            due = match self.has_rows() {
                false => stall,
                true if had_rows && !is_sent => due,
                true => Instant::now() + Duration::from_millis(HTTP_BATCH_MS),
            };
        }
    }

    /// Whether there are rows to be sent.
    fn has_rows(&self) -> bool {
        let has_line = match &self.text {
            Text::Json(_) => false,
            Text::Csv(lines) => lines.has_line(),
        };
        has_line || !self.rows.is_empty()
    }

    /// Reads rows from the front of `bytes` until they make a message.
    fn read(&mut self, bytes: &mut &[u8], what: Read) -> Result<(), Problem> {
        match (&mut self.text, what) {
            (Text::Json(lines), Read::Enough) => lines.read(bytes, self.is_named, &mut self.rows),
            (Text::Json(lines), Read::All) => lines.finish(self.is_named, &mut self.rows),
            (Text::Json(_), Read::Complete) => Ok(()),
            (Text::Csv(lines), what) => {
                let is_enough = lines.add(bytes);
                match what {
                    Read::Enough if !is_enough => Ok(()),
                    _ => lines.read(what == Read::All, self.is_named, &mut self.rows),
                }
            }
        }
    }

    /// Sends what was read, in messages; false if the stream has ended.
    async fn send(&mut self, sent: &mut u64, rows_before: &mpsc::UnboundedSender<u64>) -> bool {
        let mut rows = std::mem::take(&mut self.rows);
        while let Some(sender) = self.sender.as_ref().filter(|_| !rows.is_empty()) {
            let rest = rows.split_off(rows.len().min(HTTP_BATCH_ROWS_MAX));
            let fixes = std::mem::replace(&mut rows, rest);
            // The reader of acknowledgements lives as long as this.
            let _ = rows_before.send(*sent);
            *sent += fixes.len() as u64;
            let payload = Some(Payload::Rows(v1::Rows { fixes }));
            let message = v1::ReportRequest { payload, ..self.template.clone() };
            if sender.send(message).await.is_err() {
                return false;
            }
        }
        true
    }
}

/// What of the body is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    /// What makes a message.
    Enough,
    /// All complete lines: the sender pauses.
    Complete,
    /// Everything: the body has ended.
    All,
}

/// Lines of JSON.
#[derive(Default)]
struct JsonLines {
    /// The part of a line that has arrived.
    line: Vec<u8>,
    /// Lines that were read.
    lines: u64,
}

impl JsonLines {
    /// Reads lines from the front of `bytes` until there are enough rows for a message.
    fn read(
        &mut self,
        bytes: &mut &[u8],
        is_named: bool,
        rows: &mut Vec<v1::Fix>,
    ) -> Result<(), Problem> {
        while rows.len() < HTTP_BATCH_ROWS_MAX {
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                return self.hold(std::mem::take(bytes));
            };
            let part = &bytes[..end];
            *bytes = &bytes[end + 1..];
            if self.line.is_empty() {
                self.check(part)?;
                self.line(part, is_named, rows)?;
            } else {
                self.hold(part)?;
                self.finish(is_named, rows)?;
            }
        }
        Ok(())
    }

    /// Reads the line that has arrived.
    fn finish(&mut self, is_named: bool, rows: &mut Vec<v1::Fix>) -> Result<(), Problem> {
        let mut line = std::mem::take(&mut self.line);
        let read = self.line(&line, is_named, rows);
        line.clear();
        self.line = line;
        read
    }

    /// Holds a part of a line.
    fn hold(&mut self, part: &[u8]) -> Result<(), Problem> {
        self.check(part)?;
        self.line.extend_from_slice(part);
        Ok(())
    }

    /// Checks the length of the current line with another part.
    fn check(&self, part: &[u8]) -> Result<(), Problem> {
        if self.line.len() + part.len() <= HTTP_LINE_BYTES_MAX {
            return Ok(());
        }
        let why = format!("longer than {HTTP_LINE_BYTES_MAX} bytes");
        Err(Problem::field("line", why).on_line(self.lines + 1))
    }

    fn line(
        &mut self,
        line: &[u8],
        is_named: bool,
        rows: &mut Vec<v1::Fix>,
    ) -> Result<(), Problem> {
        self.lines += 1;
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let fix = row::one(line, is_named);
        rows.push(fix.map_err(|problem| problem.on_line(self.lines))?);
        Ok(())
    }
}

/// Sums up the acknowledgements until the stream ends.
async fn collect(
    call: &Call,
    mut acks: Streaming<v1::ReportResponse>,
    mut rows_before: mpsc::UnboundedReceiver<u64>,
) -> (ReportJson, Result<(), Problem>) {
    let mut report = ReportJson::new(&call.fleet);
    // The rows before each message without an acknowledgement; their number is bounded by the
    // server's limit of messages in progress.
    let (mut first, mut places) = (1, VecDeque::new());
    loop {
        let ack = match acks.message().await {
            Ok(Some(response)) => response.ack.unwrap_or_default(),
            Ok(None) => return (report, Ok(())),
            Err(status) => return (report, Err(call.problem(status))),
        };
        while let Ok(place) = rows_before.try_recv() {
            places.push_back(place);
        }
        report.add(&ack, |message, row| {
            let place = message.saturating_sub(first) as usize;
            places.get(place).copied().unwrap_or(0_u64) + u64::from(row)
        });
        for _ in first..=ack.last_message {
            places.pop_front();
        }
        first = ack.last_message + 1;
        let failed = ack.failed.into_iter().next().and_then(|failed| failed.status);
        if let Some(status) = failed {
            return (report, Err(call.problem_in_answer(&status)));
        }
    }
}
