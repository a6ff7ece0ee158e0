//! The task behind a stream of reports: sends, reads acknowledgements, sends again.
//!
//! The n-th acknowledgement of a connection belongs to the n-th message sent on it. After a failure
//! nothing new is sent until everything in flight is acknowledged; then the messages that failed
//! go out again, the lowest number first, which the server always accepts. So rounds end.

use std::collections::VecDeque;

use shoal_proto::v1::{self, ErrorReason, report_request};
use tokio::sync::{mpsc, watch};
use tokio::time::{Duration, Instant, sleep, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::block::EncodedBlock;
use crate::client::Client;
use crate::error::{Error, ServerError};
use crate::report::{Payload, ReportOptions};
use crate::totals::AckTotals;

/// Number of failed messages that one acknowledgement can list. With at most this many messages
/// in flight, every failed message is listed.
const IN_FLIGHT_MAX: usize = 256;
/// Messages between the task and the connection.
const QUEUE_MESSAGES: usize = 2;
/// Delay between two attempts to connect.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// A message of the caller, or an empty one that takes the number of a message that failed.
struct Message {
    /// From 1 in the order of the caller.
    number: u64,
    /// The content. `None` while an unnumbered message is in flight, because it is never sent
    /// again.
    payload: Option<Payload>,
    is_filler: bool,
}

/// The state of a stream of reports.
pub(crate) struct Worker {
    client: Client,
    options: ReportOptions,
    input: mpsc::Receiver<Payload>,
    totals: watch::Sender<AckTotals>,
    /// Messages taken from `input`.
    taken: u64,
    is_input_closed: bool,
    /// Sent on this connection and not acknowledged, in order.
    in_flight: VecDeque<Message>,
    /// Messages to send again, before any new message; sorted before each round.
    again: VecDeque<Message>,
    /// The message to send next.
    next: Option<Message>,
    /// True after a failed message until all messages in flight are acknowledged; nothing is sent
    /// meanwhile.
    is_draining: bool,
    /// Number of the first message sent in this round; 0 before that message is sent.
    round_first: u64,
    /// First message of the next acknowledgement on this connection.
    next_ack: u64,
}

impl Worker {
    pub(crate) fn new(
        client: Client,
        mut options: ReportOptions,
        input: mpsc::Receiver<Payload>,
        totals: watch::Sender<AckTotals>,
    ) -> Self {
        options.in_flight_max = match options.producer {
            Some(_) => options.in_flight_max.clamp(1, IN_FLIGHT_MAX),
            None => usize::MAX,
        };
        Self {
            client,
            options,
            input,
            totals,
            taken: 0,
            is_input_closed: false,
            in_flight: VecDeque::new(),
            again: VecDeque::new(),
            next: None,
            is_draining: false,
            round_first: 0,
            next_ack: 1,
        }
    }

    /// Runs until the caller sends no more and every message is acknowledged.
    pub(crate) async fn run(mut self) -> Result<(), Error> {
        let mut retry_until = None;
        loop {
            self.await_message().await;
            let acknowledged = self.totals.borrow().messages;
            let Err(error) = self.connection().await else { return Ok(()) };
            if self.options.producer.is_none() || !error.is_transient() {
                return Err(error);
            }
            if self.totals.borrow().messages > acknowledged {
                retry_until = None;
            }
            let now = Instant::now();
            if now >= *retry_until.get_or_insert(now + self.options.retry_for) {
                return Err(error);
            }
            let retried = error.to_string();
            self.totals.send_if_modified(|totals| {
                let is_new = totals.retried.as_ref() != Some(&retried);
                totals.retried = Some(retried);
                is_new
            });
            sleep(RETRY_INTERVAL).await;
            // Without a new connection the next call fails and counts as another attempt.
            if let Ok(client) = self.client.reconnect().await {
                self.client = client;
            }
        }
    }

    /// Waits until there is a message or the caller has sent all: a server ends a call that begins
    /// without a message.
    async fn await_message(&mut self) {
        let is_idle = self.next.is_none() && self.again.is_empty() && self.in_flight.is_empty();
        if is_idle && !self.is_input_closed {
            let payload = self.input.recv().await;
            self.take(payload);
        }
    }

    /// Sends and reads over one connection, beginning with what was not acknowledged before.
    async fn connection(&mut self) -> Result<(), Error> {
        self.again.extend(self.in_flight.drain(..));
        self.next_ack = 1;
        self.begin_round();
        let (requests, queue) = mpsc::channel(QUEUE_MESSAGES);
        let mut requests = Some(requests);
        let (writer, mut acks) = mpsc::channel(QUEUE_MESSAGES);
        let mut service = self.client.position_service();
        let reading = async move {
            let mut responses = service.report(ReceiverStream::new(queue)).await?.into_inner();
            while let Some(response) = responses.message().await? {
                // Sending fails only if the receiver was dropped; the acknowledgement is then not
                // needed.
                let _ = writer.send(response.ack.unwrap_or_default()).await;
            }
            Ok::<_, tonic::Status>(())
        };
        tokio::pin!(reading);
        loop {
            let has_room = !self.is_draining && self.in_flight.len() < self.options.in_flight_max;
            if has_room && self.next.is_none() {
                self.next = self.again.pop_front();
            }
            let is_idle = self.next.is_none() && !self.is_draining;
            // Numbered messages may have to go out again.
            let is_settled = self.options.producer.is_none() || self.in_flight.is_empty();
            if is_idle && is_settled && self.is_input_closed {
                requests = None;
            }
            let is_waiting = !self.in_flight.is_empty() || !is_idle || self.is_input_closed;
            let silent_at = Instant::now() + self.client.options().timeout;
            tokio::select! {
                biased;
                Some(ack) = acks.recv() => self.settle(ack)?,
                ended = &mut reading => {
                    while let Ok(ack) = acks.try_recv() {
                        self.settle(ack)?;
                    }
                    ended?;
                    return self.ended();
                }
                slot = reserve(&requests), if has_room && self.next.is_some() => {
                    if let Some(message) = self.next.take() {
                        slot.send(self.request(message));
                    }
                }
                payload = self.input.recv(), if has_room && is_idle && !self.is_input_closed => {
                    self.take(payload);
                }
                () = sleep_until(silent_at), if is_waiting => return Err(self.client.timed_out()),
            }
        }
    }

    fn take(&mut self, payload: Option<Payload>) {
        self.is_input_closed = payload.is_none();
        if payload.is_some() {
            self.taken += 1;
            self.next = Some(Message { number: self.taken, payload, is_filler: false });
        }
    }

    /// The request of a message, which is in flight from now on.
    fn request(&mut self, mut message: Message) -> v1::ReportRequest {
        let ReportOptions { fleet, producer, first_batch_seq, durability, .. } = &self.options;
        let payload = match producer {
            Some(_) => message.payload.clone(),
            None => message.payload.take(),
        };
        if self.round_first == 0 {
            self.round_first = message.number;
        }
        // The measures of a block are encoded already.
        let drop_invalid_measures =
            self.options.drop_invalid_measures && matches!(payload, Some(Payload::Rows(_)));
        let mut block_names = Vec::new();
        let payload = payload.map(|payload| match payload {
            Payload::Rows(fixes) => report_request::Payload::Rows(v1::Rows { fixes }),
            Payload::Block(EncodedBlock { block, names, .. }) => {
                block_names = names;
                report_request::Payload::Block(block)
            }
        });
        let batch_seq = producer.as_ref().map_or(0, |_| first_batch_seq + message.number - 1);
        self.in_flight.push_back(message);
        v1::ReportRequest {
            fleet: fleet.clone(),
            producer: producer.clone().unwrap_or_default(),
            batch_seq,
            payload,
            durability: (*durability).into(),
            drop_invalid_measures,
            block_names,
        }
    }

    /// Processes an acknowledgement: removes its messages from those in flight, queues failed ones
    /// again, and adds the rest to the totals.
    fn settle(&mut self, mut ack: v1::ReportAck) -> Result<(), Error> {
        let (first, last) = (ack.first_message, ack.last_message);
        let count = usize::try_from((last + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        if first != self.next_ack || count == 0 || count > self.in_flight.len() {
            let problem = format!("messages {first} to {last} are acknowledged out of order");
            return Err(Error::Protocol(problem));
        }
        self.next_ack = last + 1;
        let settled: Vec<Message> = self.in_flight.drain(..count).collect();
        let message_of = |message: u64| -> Option<&Message> {
            settled.get(usize::try_from(message.checked_sub(first)?).ok()?)
        };
        let number_of = |message| message_of(message).map_or(0, |message| message.number);
        for row in &mut ack.refused_rows {
            row.message = number_of(row.message);
        }
        for measure in &mut ack.dropped_measures {
            measure.message = number_of(measure.message);
        }
        let mut sent_again = 0;
        let mut failures = std::mem::take(&mut ack.failed);
        for failed in &mut failures {
            let Some(message) = message_of(failed.message) else { continue };
            failed.message = message.number;
            if self.options.producer.is_some() {
                let error = failed.status.as_ref().map(ServerError::from);
                self.again.push_back(self.repetition(message, error)?);
                sent_again += 1;
            }
        }
        if sent_again > 0 {
            // Only messages that an empty one replaces count as failed; the others are sent again.
            failures.retain(|failed| {
                self.again.iter().any(|of| of.number == failed.message && of.is_filler)
            });
            ack.failed_messages = failures.len() as u64;
            self.is_draining = true;
        }
        ack.failed = failures;
        let waiting = self.in_flight.iter().chain(&self.again).chain(&self.next);
        let settled = waiting.map(|message| message.number - 1).min().unwrap_or(self.taken);
        self.totals.send_modify(|totals| {
            totals.add(count as u64 - sent_again, ack);
            totals.messages_settled = settled;
        });
        if self.is_draining && self.in_flight.is_empty() {
            self.begin_round();
        }
        Ok(())
    }

    /// Returns the message to send in place of a numbered message that failed: the same one, or an
    /// empty one if its content is at fault. Returns `error` if the stream cannot continue.
    fn repetition(&self, message: &Message, error: Option<ServerError>) -> Result<Message, Error> {
        let Some(error) = error else {
            return Err(Error::Protocol("a message failed without a status".to_owned()));
        };
        let Message { number, ref payload, is_filler } = *message;
        let reason = error.reason();
        if reason == Some(ErrorReason::OutOfOrder) && number != self.round_first {
            return Ok(Message { number, payload: payload.clone(), is_filler });
        }
        let is_own_fault = error.code == Code::InvalidArgument
            || matches!(reason, Some(ErrorReason::Limit | ErrorReason::EngineLimit));
        if is_own_fault && !is_filler {
            return Ok(Message { number, payload: Some(Payload::Rows(vec![])), is_filler: true });
        }
        Err(Box::new(error).into())
    }

    /// Begins a round of sending: queues `next` with the messages to send again, and sorts them by
    /// number.
    fn begin_round(&mut self) {
        self.again.extend(self.next.take());
        self.again.make_contiguous().sort_unstable_by_key(|message| message.number);
        (self.is_draining, self.round_first) = (false, 0);
    }

    /// Handles the end of the stream without an error: fails unless every message is acknowledged
    /// and the caller has sent all.
    fn ended(&self) -> Result<(), Error> {
        let is_done = self.in_flight.is_empty() && self.again.is_empty() && self.next.is_none();
        if is_done && self.is_input_closed {
            return Ok(());
        }
        Err(Error::Protocol("the server ended the stream of reports".to_owned()))
    }
}

/// Reserves a place in the queue of the connection. Without an open queue it never completes; the
/// reader of acknowledgements then reports why the connection ended.
async fn reserve(
    requests: &Option<mpsc::Sender<v1::ReportRequest>>,
) -> mpsc::Permit<'_, v1::ReportRequest> {
    if let Some(requests) = requests
        && let Ok(slot) = requests.reserve().await
    {
        return slot;
    }
    std::future::pending().await
}
