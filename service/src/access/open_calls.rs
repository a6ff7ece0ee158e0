//! The calls in progress whose tokens can end, and the end of these calls.
//!
//! A call is ended from outside: its handler may wait, and HTTP/2 does not poll an answer while the
//! client takes no data. Ending a call drops its handler's answer, and with that the work that
//! produces it.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use slab::Slab;
use tonic::body::Body;

use super::call::Call;
use crate::error::{ServiceError, TokenProblem};

/// The calls in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenCalls(Arc<Mutex<Slab<Arc<Progress>>>>);

/// A call in progress, until it is dropped.
#[derive(Debug)]
pub(super) struct OpenCall {
    calls: OpenCalls,
    place: usize,
    progress: Arc<Progress>,
}

#[derive(Debug)]
struct Progress {
    call: Call,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// The handler prepares its answer.
    Handled { task: Option<Waker> },
    /// The answer is sent.
    Answered { body: Body, task: Option<Waker> },
    /// The token has ended; the client has not been told why.
    Ended(ServiceError),
    /// The client has been told.
    Told,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenCalls {
    /// Adds a call.
    pub(super) fn open(&self, call: Call) -> OpenCall {
        let state = Mutex::new(State::Handled { task: None });
        let progress = Arc::new(Progress { call, state });
        let place = lock(&self.0).insert(progress.clone());
        OpenCall { calls: self.clone(), place, progress }
    }

    /// Ends the calls for which `problem` returns a reason.
    pub(super) fn end(&self, problem: impl Fn(&Call) -> Option<TokenProblem>) {
        let ended: Vec<_> = {
            let calls = lock(&self.0);
            let with_problem = |progress: &Arc<Progress>| {
                problem(&progress.call).map(|problem| (progress.clone(), problem))
            };
            calls.iter().filter_map(|(_, progress)| with_problem(progress)).collect()
        };
        ended.iter().for_each(|(progress, problem)| progress.end(*problem));
    }
}

impl Progress {
    /// Ends the call and records that in the audit log, unless it has ended.
    fn end(&self, problem: TokenProblem) {
        let mut state = lock(&self.state);
        if matches!(*state, State::Ended(_) | State::Told) {
            return;
        }
        let reason = self.call.refused(None, ServiceError::Unauthenticated(problem));
        let before = mem::replace(&mut *state, State::Ended(reason));
        drop(state);
        if let State::Handled { task } | State::Answered { task, .. } = before {
            task.into_iter().for_each(Waker::wake);
        }
    }
}

impl State {
    /// The reason, once after the token has ended, then `None`. Until then the task of `context` is
    /// woken at the end.
    fn poll_end(&mut self, context: &Context<'_>) -> Poll<Option<ServiceError>> {
        if let Self::Handled { task } | Self::Answered { task, .. } = self {
            task.get_or_insert_with(|| context.waker().clone()).clone_from(context.waker());
            return Poll::Pending;
        }
        match mem::replace(self, Self::Told) {
            Self::Ended(reason) => Poll::Ready(Some(reason)),
            _ => Poll::Ready(None),
        }
    }
}

impl OpenCall {
    /// Completes when the token has ended: with the reason at first, then with `None`.
    pub(super) fn poll_end(&self, context: &Context<'_>) -> Poll<Option<ServiceError>> {
        lock(&self.progress.state).poll_end(context)
    }

    /// Takes the answer of the handler, which is dropped when the token ends.
    pub(super) fn answer(&self, body: Body) {
        let mut state = lock(&self.progress.state);
        if let State::Handled { .. } = *state {
            *state = State::Answered { body, task: None };
        }
    }

    /// Reads the answer; `None` if there is none (any more).
    pub(super) fn with_answer<T>(&self, read: impl FnOnce(&mut Body) -> T) -> Option<T> {
        match &mut *lock(&self.progress.state) {
            State::Answered { body, .. } => Some(read(body)),
            _ => None,
        }
    }

    /// Whether the answer, or the reason of its end, is read completely.
    pub(super) fn is_read(&self) -> bool {
        use http_body::Body as _;
        match &*lock(&self.progress.state) {
            State::Handled { .. } | State::Ended(_) => false,
            State::Answered { body, .. } => body.is_end_stream(),
            State::Told => true,
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        lock(&self.calls.0).try_remove(self.place);
    }
}
