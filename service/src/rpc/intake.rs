//! Converts a report message to a change of a fleet.
//!
//! A message is parsed, then waits for capacity in the queue, then its rows are read, so that no
//! memory beyond that capacity is allocated. An error fails only its message. Workers parse and
//! read long messages.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use shoal_codec::{Block, Budget};
use shoal_engine::Request;

use super::ack_range::{Faults, Settled};
use super::fix_reader::FixReader;
use super::named_block;
use super::position_service::at_most;
use super::report_message::{Payload, ReportMessage};
use super::row_times::newest_times;
use super::service_context::ServiceContext;
use crate::access::{Call, MeteredQuota};
use crate::cycle::{BatchId, DEFAULT, Durability, FleetName};
use crate::error::ServiceError;
use crate::fleet::{ChangePermit, ChangeReply, ConvertedRequest, Fleet, FleetState, PendingChange};
use crate::limits::{MESSAGE_BYTES_MAX, WORKER_BYTES_MIN};
use crate::shares::FairWorkers;

/// Parses the messages of one stream.
pub(super) struct Intake {
    call: Call,
    context: ServiceContext,
    /// The fleet of the last message and its name as sent; kept because most streams use one fleet.
    fleet: Option<(String, Arc<Fleet>)>,
    /// The producer of the last message.
    producer: Option<Arc<str>>,
    /// Terms of the fleets that the stream has reported to, and futures for the end of the fleets.
    used: Vec<(u64, FleetEnd)>,
}

/// Completes with the reason when a fleet's engine has ended.
type FleetEnd = Pin<Box<dyn Future<Output = ServiceError> + Send>>;

/// A parsed message without capacity in the queue.
#[derive(Debug)]
pub(super) struct Report {
    call: Call,
    message: ReportMessage,
    block: Option<Block>,
    batch: Option<BatchId>,
    pub(super) fleet: Arc<Fleet>,
    /// Its name when the message was parsed.
    name: FleetName,
    durability: Durability,
    arrived: Instant,
    time_max_ms: i64,
    workers: FairWorkers,
}

/// A message in the queue or in a cycle.
#[derive(Debug)]
pub(super) struct PendingReport {
    pending: PendingChange,
    /// The name of the fleet when the message was parsed.
    name: FleetName,
    faults: Faults,
    durability: Durability,
    arrived: Instant,
}

impl Intake {
    pub(super) fn new(call: Call, context: ServiceContext) -> Self {
        Self { call, context, fleet: None, producer: None, used: Vec::new() }
    }

    /// Parses a message except its plain rows, which [`Report::send`] reads.
    ///
    /// # Errors
    /// The reason for which this message is refused.
    pub(super) async fn parse(&mut self, bytes: Bytes) -> Result<Report, ServiceError> {
        let (arrived, time_max_ms) = (Instant::now(), self.context.time_max_ms());
        let message = if bytes.len() < WORKER_BYTES_MIN {
            ReportMessage::parse(bytes)?
        } else {
            self.context
                .workers
                .run(self.call.client(), move || ReportMessage::parse(bytes))
                .await??
        };
        let fleet = self.fleet(message.fleet())?;
        let durability = fleet.accept(message.durability)?;
        let (client, workers) = (self.call.client(), self.context.workers.clone());
        let block = match message.payload.clone() {
            Payload::Block(bytes) => {
                let (names, fleet) = (message.block_names_count(), fleet.clone());
                let parse = move || parse_block(bytes, names, &fleet);
                Some(if message.bytes() < WORKER_BYTES_MIN {
                    parse()
                } else {
                    workers.run(client, parse).await?
                })
            }
            Payload::Rows { .. } | Payload::None => None,
        };
        let block = block.transpose().inspect_err(|_| fleet.metrics().count_failed())?;
        let batch = self.batch(&message);
        let report = Report {
            call: self.call.clone(),
            message,
            block,
            batch,
            name: fleet.name(),
            fleet,
            durability,
            arrived,
            time_max_ms,
            workers,
        };
        let (rows, limit) = (report.rows(), self.context.limits.message_rows_max);
        if rows > limit {
            report.fleet.metrics().count_failed();
            let what = "the number of rows in a message (limit message_rows_max)";
            return Err(ServiceError::Limit { what, value: rows as u64, limit: limit as u64 });
        }
        Ok(report)
    }

    /// Completes with the reason when a fleet that the stream has reported to ends.
    pub(super) async fn fleet_ended(&mut self) -> ServiceError {
        poll_fn(|context| {
            let mut ends = self.used.iter_mut().map(|(_, end)| end.as_mut().poll(context));
            ends.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    fn fleet(&mut self, name: &str) -> Result<Arc<Fleet>, ServiceError> {
        match &self.fleet {
            Some((last, fleet)) if last == name && fleet.state() == FleetState::Running => {
                let sent = if name.is_empty() { DEFAULT } else { name };
                if fleet.name().as_str() != sent {
                    return Err(ServiceError::FleetRenamed(sent.to_owned()));
                }
                Ok(fleet.clone())
            }
            _ => {
                let fleet = self.context.fleet(&self.call, "fleet", name)?;
                if self.used.iter().all(|(term, _)| *term != fleet.term()) {
                    let (ended, name) = (fleet.clone().ended(), fleet.name());
                    let ended = async move { ended.await.of_fleet(&name) };
                    self.used.push((fleet.term(), Box::pin(ended)));
                }
                self.fleet = Some((name.to_owned(), fleet.clone()));
                Ok(fleet)
            }
        }
    }

    fn batch(&mut self, message: &ReportMessage) -> Option<BatchId> {
        let name = message.producer();
        if name.is_empty() {
            return None;
        }
        let last = self.producer.take().filter(|last| &**last == name);
        let producer = last.unwrap_or_else(|| name.into());
        self.producer = Some(producer.clone());
        Some(BatchId { producer, batch_seq: message.batch_seq })
    }
}

/// Parses a block whose message has this number of names.
fn parse_block(bytes: Bytes, names: usize, fleet: &Fleet) -> Result<Block, ServiceError> {
    if names > 0 {
        fleet.names_for("block_names")?;
    }
    let budget = Budget { bytes_max: MESSAGE_BYTES_MAX, ..Budget::default() };
    let block = Block::parse(bytes, &budget)?;
    let (found, expected) = (block.header().space, fleet.space().tag());
    if found == expected {
        at_most("block_names", names, "names of a block", block.rows())?;
        return Ok(block);
    }
    let fleet = fleet.name().as_str().to_owned();
    Err(ServiceError::SpaceMismatch { fleet, found, expected })
}

impl Report {
    /// Waits for capacity in the queue, and until the quota of the token allows the rows.
    ///
    /// # Errors
    /// The error with which the fleet ended.
    pub(super) async fn reserve(&self) -> Result<ChangePermit, ServiceError> {
        self.call.wait(MeteredQuota::Rows, self.charged_rows()).await;
        let reserved = self.fleet.reserve(self.call.client(), self.rows()).await;
        reserved.map_err(|error| error.of_fleet(&self.name))
    }

    /// Reserves capacity in the queue without waiting.
    ///
    /// # Errors
    /// [`ServiceError::Busy`]; [`ServiceError::Quota`]; the error with which the fleet ended.
    pub(super) fn try_reserve(&self) -> Result<ChangePermit, ServiceError> {
        self.call.take(MeteredQuota::Rows, self.charged_rows())?;
        let reserved = self.fleet.try_reserve(self.call.client(), self.rows());
        reserved.map_err(|error| error.of_fleet(&self.name))
    }

    /// Rows that count in the quota of the token: an empty message counts as one.
    fn charged_rows(&self) -> u64 {
        self.rows().max(1) as u64
    }

    /// Number of rows of the message.
    fn rows(&self) -> usize {
        match (&self.block, &self.message.payload) {
            (Some(block), _) => block.rows(),
            (None, Payload::Rows { count, .. }) => *count,
            (None, _) => 0,
        }
    }

    /// Reads the rows and queues the change.
    ///
    /// # Errors
    /// [`ServiceError::Malformed`]; in a named fleet those of [`named_block::read`].
    pub(super) async fn send(
        self,
        mut permit: ChangePermit,
    ) -> Result<PendingReport, ServiceError> {
        let rows = self.rows();
        let Self { call, message, block, batch, fleet, name, durability, arrived, .. } = self;
        let time_max_ms = self.time_max_ms;
        let worker_rows_min = fleet.worker_rows_min();
        let read = match block {
            Some(block) if fleet.names().is_none() => {
                Ok((Request::Block(block).into(), Faults::new()))
            }
            Some(block) if rows < worker_rows_min => {
                read_named_block(&block, &message, &fleet, time_max_ms)
            }
            Some(block) => {
                let fleet = fleet.clone();
                let read = move || read_named_block(&block, &message, &fleet, time_max_ms);
                self.workers.run(call.client(), read).await?
            }
            None if rows < worker_rows_min => read_rows(&message, &fleet, time_max_ms),
            None => {
                let fleet = fleet.clone();
                let read = move || read_rows(&message, &fleet, time_max_ms);
                self.workers.run(call.client(), read).await?
            }
        };
        let (mut converted, faults) = read.inspect_err(|_| fleet.metrics().count_failed())?;
        // Refused rows need no capacity: return theirs.
        permit.shrink(converted.request.rows());
        if fleet.uses_newest_times() {
            converted.times = newest_times(&converted.request).await;
        }
        let pending = fleet.change(permit, converted, batch);
        Ok(PendingReport { pending, name, faults, durability, arrived })
    }
}

fn read_named_block(
    block: &Block,
    message: &ReportMessage,
    fleet: &Fleet,
    time_max_ms: i64,
) -> Result<(ConvertedRequest, Faults), ServiceError> {
    let table = fleet.names_for("block")?;
    let converted =
        named_block::read(block, &message.block_names()?, (fleet.space(), time_max_ms), table)?;
    Ok((converted, Faults::new()))
}

fn read_rows(
    message: &ReportMessage,
    fleet: &Fleet,
    time_max_ms: i64,
) -> Result<(ConvertedRequest, Faults), ServiceError> {
    let Payload::Rows { count, from } = message.payload else {
        return Ok((Request::Fixes(Default::default()).into(), Faults::new()));
    };
    let drops_measures = message.drops_measures;
    let mut reader =
        FixReader::new(*fleet.space(), fleet.names(), time_max_ms, count, drops_measures);
    reader.read(&mut message.fixes(from))?;
    Ok(reader.finish())
}

impl PendingReport {
    /// Waits for the outcome.
    ///
    /// # Errors
    /// The error with which the fleet ended; an error of the log if it failed or has no space. The
    /// message may or may not have been applied.
    pub(super) async fn settled(self) -> Result<Settled, ServiceError> {
        let Self { mut pending, name, faults, durability, arrived } = self;
        let reply = (&mut pending).await.map_err(|error| error.of_fleet(&name))?;
        let fleet = pending.fleet();
        if let ChangeReply::Settled { epoch, .. } | ChangeReply::Duplicate { epoch } = reply {
            fleet.survives(durability, epoch).await?;
        }
        fleet.metrics().ack_seconds.observe(arrived.elapsed().as_secs_f64());
        let term = fleet.term();
        Ok(match reply {
            ChangeReply::Settled { epoch, mut outcome, refused, dropped } => {
                match outcome.block_error.take() {
                    None => Settled::Applied {
                        term,
                        epoch,
                        outcome,
                        refused,
                        dropped,
                        faults,
                        durability,
                    },
                    Some(error) => Settled::Failed(error.into()),
                }
            }
            ChangeReply::Duplicate { epoch } => Settled::Duplicate { term, epoch, durability },
            ChangeReply::Refused(error) => Settled::Failed(error),
        })
    }
}
