//! A queue of lines for an output that may stop accepting bytes, and the thread that writes them.
//!
//! [`LineQueue::push`] never waits for the output: a line that finds the queue full is lost and
//! counted. `tracing-appender` is not used because it bounds lines, not bytes, and leaves it to the
//! program to report losses.

use std::fmt;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;

use crate::error::ServiceError;
use crate::limits::{OUTPUT_BYTES_MAX, OUTPUT_LINES_MAX};
use crate::threads;

/// Longest time between two calls of `notices`.
const NOTICE_INTERVAL: Duration = Duration::from_secs(1);

/// See [`lines_lost`].
static LINES_LOST: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Counter of lines that were lost because an output of this process did not accept them in time.
pub fn lines_lost() -> Counter {
    LINES_LOST.clone()
}

/// Writes output that is not a line, such as a progress display.
type Drawing = Box<dyn FnOnce() + Send>;

/// Input of the function that returns the notices of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticeCause {
    /// Lines lost since the previous notices.
    pub lost: u64,
    /// The process ends: there may be no later notices.
    pub is_last: bool,
}

/// The lines of one output.
#[derive(Clone)]
pub struct LineQueue(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    pushed: Condvar,
    written: Condvar,
    lost_total: Counter,
}

/// Lines and drawing that the thread has not taken yet.
#[derive(Default)]
struct Waiting {
    text: Vec<u8>,
    lines: usize,
    lost: u64,
    drawing: Option<Drawing>,
    is_last: bool,
    /// Whether the thread is writing the lines that it took.
    is_writing: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.lines == 0 && self.lost == 0 && self.drawing.is_none() && !self.is_last
    }
}

impl fmt::Debug for LineQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineQueue").finish_non_exhaustive()
    }
}

impl LineQueue {
    /// Starts the thread of an output; it lives as long as the process. `write` writes all of the
    /// text. `notices` gives lines to write after the others, at least once a second while the
    /// output accepts bytes. `lost_total` counts lost lines.
    ///
    /// # Errors
    /// [`ServiceError::Io`].
    pub fn start(
        name: &str,
        lost_total: Counter,
        write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
        notices: impl FnMut(NoticeCause) -> String + Send + 'static,
    ) -> Result<Self, ServiceError> {
        let (waiting, pushed, written) = Default::default();
        let shared = Arc::new(Shared { waiting, pushed, written, lost_total });
        let queue = Self(shared.clone());
        threads::spawn(name.to_owned(), move || shared.write_all(write, notices))?;
        Ok(queue)
    }

    /// Queues a line with its line break. After a lost line, all further lines are lost until the
    /// output has accepted the queued ones, so that the notice appears where lines are missing.
    pub fn push(&self, line: &[u8]) {
        let mut waiting = self.0.lock();
        let bytes = waiting.text.len() + line.len();
        let has_room = waiting.lines < OUTPUT_LINES_MAX && bytes <= OUTPUT_BYTES_MAX;
        if has_room && waiting.lost == 0 {
            waiting.text.extend_from_slice(line);
            waiting.lines += 1;
        } else {
            waiting.lost += 1;
            self.0.lost_total.inc();
        }
        drop(waiting);
        self.0.pushed.notify_one();
    }

    /// Runs `drawing` on the writing thread. It replaces an earlier drawing that has not begun.
    pub fn draw(&self, drawing: impl FnOnce() + Send + 'static) {
        self.0.lock().drawing = Some(Box::new(drawing));
        self.0.pushed.notify_one();
    }

    /// Waits until everything is written, at most until `end`.
    pub fn drain(&self, end: Instant) {
        let mut waiting = self.0.lock();
        waiting.is_last = true;
        self.0.pushed.notify_one();
        while waiting.is_writing || !waiting.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.written.wait_timeout(waiting, left);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Main loop of the writing thread.
    fn write_all(
        &self,
        mut write: impl FnMut(&[u8]) -> io::Result<()>,
        mut notices: impl FnMut(NoticeCause) -> String,
    ) {
        loop {
            let Waiting { mut text, lines, lost, drawing, is_last, .. } = self.take();
            text.extend(notices(NoticeCause { lost, is_last }).into_bytes());
            if let Some(drawing) = drawing {
                drawing();
            }
            if !text.is_empty() && write(&text).is_err() {
                self.lost_total.inc_by(lines as u64);
            }
            self.lock().is_writing = false;
            self.written.notify_all();
        }
    }

    /// Waits until there is something to write or notices are due, then takes everything queued.
    fn take(&self) -> Waiting {
        let waited =
            self.pushed.wait_timeout_while(self.lock(), NOTICE_INTERVAL, |of| of.is_empty());
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        mem::replace(&mut *waiting, Waiting { is_writing: true, ..Waiting::default() })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::metrics::Metrics;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn notice(cause: NoticeCause) -> String {
        if cause.lost > 0 { format!("lost={}\n", cause.lost) } else { String::new() }
    }

    #[test]
    fn a_full_pipe_delays_no_line_and_the_lost_ones_are_counted() {
        let (mut reader, mut pipe) = io::pipe().unwrap();
        let lost_total = Counter::default();
        let write = move |text: &[u8]| pipe.write_all(text);
        let queue = LineQueue::start("lines", lost_total.clone(), write, notice).unwrap();
        // Nobody reads: the pipe and the queue together hold fewer bytes.
        let line = [b"x".repeat(199), b"\n".to_vec()].concat();
        const LINES: u64 = 10_000;
        for _ in 0..LINES {
            queue.push(&line);
        }
        assert!(lost_total.get() > 0);
        // A bounded wait, though nothing can be written.
        queue.drain(Instant::now() + Duration::from_millis(20));
        assert!(queue.0.lock().is_writing);
        // Once the pipe is read, everything else arrives, and the number of lost lines.
        let (mut text, mut bytes) = (String::new(), [0; 4096]);
        let lost = loop {
            let count = reader.read(&mut bytes).unwrap();
            text.push_str(str::from_utf8(&bytes[..count]).unwrap());
            let notices = text.lines().filter_map(|line| line.strip_prefix("lost="));
            let lost: u64 = notices.clone().map(|count| count.parse::<u64>().unwrap()).sum();
            let lines = text.lines().count() - notices.count();
            if text.ends_with('\n') && lines as u64 + lost == LINES {
                break lost;
            }
        };
        assert_eq!(lost_total.get(), lost);
        queue.push(b"later\n");
        reader.read_exact(&mut bytes[..6]).unwrap();
        assert_eq!(&bytes[..6], b"later\n");
    }

    #[test]
    fn lines_are_bounded_by_number_and_by_bytes() {
        let (_reader, mut pipe) = io::pipe().unwrap();
        let lost_total = Counter::default();
        let write = move |text: &[u8]| pipe.write_all(text);
        let queue = LineQueue::start("lines", lost_total.clone(), write, notice).unwrap();
        queue.push(&vec![b'x'; OUTPUT_BYTES_MAX + 1]);
        assert_eq!(lost_total.get(), 1);
        queue.drain(Instant::now() + PATIENCE);
        // More than a pipe holds: from now on the thread is blocked.
        queue.push(&vec![b'x'; OUTPUT_BYTES_MAX]);
        while !queue.0.lock().is_writing || queue.0.lock().lines > 0 {
            std::thread::yield_now();
        }
        for _ in 0..OUTPUT_LINES_MAX {
            queue.push(b"\n");
        }
        assert_eq!(lost_total.get(), 1);
        queue.push(b"\n");
        assert_eq!(lost_total.get(), 2);
    }

    #[test]
    fn lost_lines_are_a_metric_of_the_process() {
        lines_lost().inc_by(41);
        let text = Metrics::default().text();
        assert!(text.contains("\nshoal_log_lines_lost_total 41\n"), "{text}");
    }

    #[test]
    fn a_closed_output_loses_lines_and_delays_nothing() {
        let (reader, mut pipe) = io::pipe().unwrap();
        drop(reader);
        let lost_total = Counter::default();
        let write = move |text: &[u8]| pipe.write_all(text);
        let queue = LineQueue::start("lines", lost_total.clone(), write, notice).unwrap();
        queue.push(b"line\n");
        queue.drain(Instant::now() + PATIENCE);
        assert_eq!(lost_total.get(), 1);
    }
}
