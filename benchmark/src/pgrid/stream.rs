//! Processes a mixed stream of updates and queries with all workers.
//!
//! The stream is divided into portions, each with its share of updates and queries. A worker takes
//! the next portion and interleaves its updates and queries. If workers have roles, as in the
//! paper, a worker takes the updates or the queries of the next portion; each role goes through the
//! stream at its own pace, so the mix varies. There is no barrier; only event times order portions.
//! Workers keep their answers until the clock has stopped.

use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use shoal_engine::QuantaRect;

use super::grid::{PGrid, Update};
use super::worker::{GROUP, Worker};

/// Updates of one portion: large, because a quiescent point reads a cache line of every worker.
pub(crate) const PORTION_UPDATES: usize = 1024;
/// Queries of one portion without updates.
const PORTION_QUERIES: usize = 128;

/// Updates and windows, mixed in proportion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// Reports in order of time.
    pub(crate) updates: Vec<Update>,
    /// Range queries.
    pub(crate) windows: Vec<QuantaRect>,
}

/// The part of each portion that a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Both,
    Updates,
    Queries,
}

/// Numbers of workers with a role of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Roles {
    /// Workers that only apply updates.
    pub(crate) updates: usize,
    /// Workers that only answer queries.
    pub(crate) queries: usize,
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.updates, self.queries)
    }
}

/// The threads that work on a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workers {
    /// This many, and each applies updates and answers queries.
    Alike(usize),
    /// Each does one of both.
    Divided(Roles),
}

impl Workers {
    pub(crate) fn count(self) -> usize {
        match self {
            Self::Alike(count) => count,
            Self::Divided(Roles { updates, queries }) => updates + queries,
        }
    }

    /// Whether some apply updates and some answer queries.
    pub(super) fn do_everything(self) -> bool {
        match self {
            Self::Alike(count) => count > 0,
            Self::Divided(Roles { updates, queries }) => updates > 0 && queries > 0,
        }
    }

    fn role(self, number: usize) -> Role {
        match self {
            Self::Alike(_) => Role::Both,
            Self::Divided(roles) if number < roles.updates => Role::Updates,
            Self::Divided(_) => Role::Queries,
        }
    }
}

impl Stream {
    fn portions(&self) -> usize {
        let of_updates = self.updates.len().div_ceil(PORTION_UPDATES);
        of_updates.max(self.windows.len().div_ceil(PORTION_QUERIES))
    }
}

/// The answers of one worker.
#[derive(Debug, Default)]
struct Pages {
    /// Number and first answer of each processed portion.
    portions: Vec<(usize, usize)>,
    /// End of each answer in `objects`.
    ends: Vec<usize>,
    objects: Vec<u64>,
    took: Vec<Duration>,
}

/// The answers of one stream.
#[derive(Debug)]
pub(crate) struct Answers {
    workers: Vec<Pages>,
    /// For each portion: its worker, the index of its first answer in that worker's pages, and its
    /// number of answers.
    places: Vec<(usize, usize, usize)>,
}

impl Answers {
    fn new(workers: Vec<Pages>, stream: &Stream) -> Self {
        let portions = stream.portions();
        let mut places = vec![(0, 0, 0); portions];
        for (worker, pages) in workers.iter().enumerate() {
            for (portion, first) in &pages.portions {
                let count = part(&stream.windows, *portion, portions).len();
                places[*portion] = (worker, *first, count);
            }
        }
        Self { workers, places }
    }

    /// The objects of each answer, ascending, in order of the windows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u64]> {
        self.places.iter().flat_map(|(worker, first, count)| {
            let pages = &self.workers[*worker];
            (*first..first + count).map(|at| {
                let start = if at == 0 { 0 } else { pages.ends[at - 1] };
                &pages.objects[start..pages.ends[at]]
            })
        })
    }

    /// Duration of each portion, from its start to its last answer; with roles, of its updates and
    /// of its queries.
    pub(crate) fn portion_times(&self) -> impl Iterator<Item = Duration> {
        self.workers.iter().flat_map(|pages| pages.took.iter().copied())
    }
}

impl PGrid {
    /// Processes a stream with all workers; returns the time from the start until the last worker
    /// ends.
    pub(crate) fn run(&self, stream: &Stream) -> (Duration, Answers) {
        // Workers of one role share a counter of portions.
        let (next, next_queries) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let start = Instant::now();
        let workers = thread::scope(|scope| {
            let work = |number| {
                let role = self.workers().role(number);
                let next = if role == Role::Queries { &next_queries } else { &next };
                scope.spawn(move || work_off(&mut Worker::new(self, number), stream, role, next))
            };
            let threads: Vec<_> = (0..self.workers().count()).map(work).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, Pages>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        });
        let took = start.elapsed();
        (took, Answers::new(workers, stream))
    }
}

fn work_off(worker: &mut Worker<'_>, stream: &Stream, role: Role, next: &AtomicUsize) -> Pages {
    let portions = stream.portions();
    let mut pages = Pages::default();
    loop {
        let portion = next.fetch_add(1, Relaxed);
        if portion >= portions {
            return pages;
        }
        let start = Instant::now();
        let (mut updates, mut windows) = (&[][..], &[][..]);
        if role != Role::Queries {
            updates = part(&stream.updates, portion, portions);
        }
        if role != Role::Updates {
            windows = part(&stream.windows, portion, portions);
            pages.portions.push((portion, pages.ends.len()));
        }
        let groups = updates.len().div_ceil(GROUP).max(windows.len().div_ceil(GROUP));
        for group in 0..groups {
            let windows = part(windows, group, groups);
            worker.look_ahead_windows(windows);
            worker.apply(part(updates, group, groups));
            for window in windows {
                worker.query(window, &mut pages.objects);
                pages.ends.push(pages.objects.len());
            }
        }
        worker.pass();
        if !updates.is_empty() || !windows.is_empty() {
            pages.took.push(start.elapsed());
        }
    }
}

/// Divides `items` into `count` nearly equal parts; returns part `number`.
fn part<T>(items: &[T], number: usize, count: usize) -> &[T] {
    &items[items.len() * number / count..items.len() * (number + 1) / count]
}
