//! Threads for work that would block a network thread for too long.
//!
//! The threads have a low priority, so that engines and network threads go first. Clients are
//! served in turn, weighted by the time that their work took; a piece of work is not interrupted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;

use super::client::Requester;
use super::fair_queue::FairQueue;
use crate::error::ServiceError;
use crate::threads::{Priority, spawn_at};

type Work = Box<dyn FnOnce() + Send>;

/// See the file's head. The threads end with the last copy.
#[derive(Clone, Debug)]
pub(crate) struct FairWorkers(Arc<End>);

/// Ends the threads when it is dropped.
#[derive(Debug)]
struct End(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    /// The waiting work. When work is done, the time that it took is charged to its client.
    waiting: FairQueue<Work>,
    /// Threads that wait for work.
    idle: usize,
    /// Threads that work.
    busy: usize,
    is_closed: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.0.wake.notify_all();
        drop(waiting);
    }
}

impl FairWorkers {
    /// Starts `threads` threads, whose names begin with `name`.
    ///
    /// # Errors
    /// [`ServiceError::Io`].
    pub(crate) fn start(name: &str, threads: usize) -> Result<Self, ServiceError> {
        let workers = Self(Arc::new(End(Arc::default())));
        for thread in 0..threads {
            let shared = workers.0.0.clone();
            spawn_at(Priority::Low, format!("{name}-{thread}"), move || shared.run())?;
        }
        Ok(workers)
    }

    /// The number of threads that have no work now.
    pub(crate) fn idle(&self) -> usize {
        self.0.0.lock().idle
    }

    /// Runs a client's work when it has its turn and returns the result. The work does not start if
    /// the caller has dropped this future.
    ///
    /// # Errors
    /// [`ServiceError::ShuttingDown`].
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        client: Requester,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        let (reply, done) = oneshot::channel();
        let work = move || {
            if !reply.is_closed() {
                // An error means that the caller left meanwhile.
                let _ = reply.send(work());
            }
        };
        let shared = &self.0.0;
        shared.lock().waiting.push(client, 0, Box::new(work));
        shared.wake.notify_one();
        done.await.map_err(|_| ServiceError::ShuttingDown)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.is_closed {
            let Some((client, work)) = state.waiting.pop() else {
                state.idle += 1;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            state.busy += 1;
            drop(state);
            let started = Instant::now();
            // A panic fails only the caller, whose reply was dropped; the panic hook has printed
            // it.
            let _ = catch_unwind(AssertUnwindSafe(work));
            let micros = started.elapsed().as_micros() as u64;
            state = self.lock();
            state.busy -= 1;
            let busy = state.busy;
            state.waiting.charge(client, micros + 1, busy);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn clients_are_served_in_turn_by_the_time_they_took() {
        let workers = FairWorkers::start("worker", 1).unwrap();
        let (open, gate) = mpsc::channel::<()>();
        let (busy, other) = (Requester::at(1), Requester::at(2));
        let (order, served) = mpsc::channel();
        let (begun, has_begun) = mpsc::channel();
        let first = workers.run(busy, move || {
            begun.send(()).unwrap();
            gate.recv().unwrap();
        });
        let mut first = std::pin::pin!(first);
        assert!(futures_poll(first.as_mut()).is_pending());
        has_begun.recv().unwrap();
        assert_eq!(workers.idle(), 0);
        let mut rest = Vec::new();
        for (client, name) in [(busy, 1), (busy, 2), (other, 3)] {
            let order = order.clone();
            let done = workers.run(client, move || order.send(name).unwrap());
            let mut done = Box::pin(done);
            assert!(futures_poll(done.as_mut()).is_pending());
            rest.push(done);
        }
        // The time is charged when the work ends.
        std::thread::sleep(std::time::Duration::from_millis(5));
        open.send(()).unwrap();
        first.await.unwrap();
        for done in rest {
            done.await.unwrap();
        }
        assert_eq!(served.try_iter().collect::<Vec<_>>(), [3, 1, 2]);
        while workers.idle() == 0 {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_panic_fails_its_caller_alone_and_abandoned_work_is_not_done() {
        let workers = FairWorkers::start("worker", 1).unwrap();
        let failed = workers.run(Requester::PROCESS, || panic!("a test")).await;
        assert!(matches!(failed, Err(ServiceError::ShuttingDown)));
        let (open, gate) = mpsc::channel::<()>();
        let mut first = Box::pin(workers.run(Requester::PROCESS, move || gate.recv().unwrap()));
        assert!(futures_poll(first.as_mut()).is_pending());
        let mut left = Box::pin(workers.run(Requester::PROCESS, || panic!("nobody waits for it")));
        assert!(futures_poll(left.as_mut()).is_pending());
        drop(left);
        open.send(()).unwrap();
        first.await.unwrap();
        assert_eq!(workers.run(Requester::PROCESS, || 7).await.unwrap(), 7);
    }

    fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}
