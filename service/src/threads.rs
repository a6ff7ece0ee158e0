//! Starts threads with names.
//!
//! If the system cannot start a thread, that is an error with the thread's name, not a panic.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::error::ServiceError;

/// Priorities below that of other threads. With lower ones, other processes of a busy machine could
/// starve them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Priority {
    /// A quarter of a core for which the thread competes with one of normal priority.
    Low,
    /// A tenth of such a core.
    Lowest,
}

impl Priority {
    /// The niceness that gives such a share.
    fn niceness(self) -> i32 {
        match self {
            Self::Low => 5,
            Self::Lowest => 10,
        }
    }
}

/// Runs blocking work on a thread of the runtime's blocking pool.
///
/// # Errors
/// The errors of the work; [`ServiceError::ShuttingDown`] if the work panics or the runtime ends.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
) -> Result<T, ServiceError> {
    // An error means that the work panicked or that the runtime ends.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(ServiceError::ShuttingDown))
}

/// Runs `work` on a thread of this name.
///
/// # Errors
/// [`ServiceError::Io`].
pub(crate) fn spawn(
    name: String,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ServiceError> {
    let what = format!("starting the thread {name}");
    Builder::new().name(name).spawn(work).map_err(|source| ServiceError::Io { what, source })
}

type Work = Box<dyn FnOnce() + Send>;

/// A thread that starts when it is first needed: most fleets of a server with many are idle.
pub(crate) struct LazyThread {
    name: String,
    /// `None` once the thread has taken it.
    work: Arc<Mutex<Option<Work>>>,
    thread: Option<JoinHandle<()>>,
}

impl LazyThread {
    /// A thread of this name that will run `work`.
    pub(crate) fn new(name: String, work: impl FnOnce() + Send + 'static) -> Self {
        Self { name, work: Arc::new(Mutex::new(Some(Box::new(work)))), thread: None }
    }

    /// Starts the thread, unless it was started or its work was dropped.
    ///
    /// # Errors
    /// [`ServiceError::Io`]; the next call tries again.
    pub(crate) fn start(&mut self) -> Result<(), ServiceError> {
        if self.thread.is_none() && self.has_work() {
            let work = self.work.clone();
            let take = move || work.lock().unwrap_or_else(PoisonError::into_inner).take();
            let run = move || take().into_iter().for_each(|work| work());
            self.thread = Some(spawn(self.name.clone(), run)?);
        }
        Ok(())
    }

    fn has_work(&self) -> bool {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Waits for the end of the thread. If it was not started, drops its work, so that no other
    /// thread waits for it.
    pub(crate) fn join(&mut self) {
        if self.thread.is_none() {
            drop(self.work.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for LazyThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyThread").field("name", &self.name).finish_non_exhaustive()
    }
}

/// As [`spawn`], on a thread of a lower priority.
///
/// # Errors
/// [`ServiceError::Io`].
pub(crate) fn spawn_at(
    priority: Priority,
    name: String,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ServiceError> {
    spawn(name, move || {
        lower(priority);
        work();
    })
}

/// Lowers the priority of this thread, on systems where each thread has a priority of its own.
pub(crate) fn lower(priority: Priority) {
    // On other systems the call would change the whole process. If it fails, the thread keeps its
    // priority.
    if cfg!(target_os = "linux") {
        let _ = rustix::process::nice(priority.niceness());
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;

    use super::*;

    #[test]
    fn a_lazy_thread_runs_once_and_its_work_ends_with_it() {
        let (sender, receiver) = bounded(9);
        let work = move || sender.send(std::thread::current().name().map(str::to_owned)).unwrap();
        let mut thread = LazyThread::new("lazy".to_owned(), work);
        receiver.try_recv().unwrap_err();
        thread.start().unwrap();
        thread.start().unwrap();
        thread.join();
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [Some("lazy".to_owned())]);
        // One that never ran lets go of what its work holds.
        let (sender, receiver) = bounded::<()>(1);
        let mut thread = LazyThread::new("unused".to_owned(), move || drop(sender));
        thread.join();
        receiver.recv().unwrap_err();
        thread.start().unwrap();
        assert!(thread.thread.is_none());
    }
}
