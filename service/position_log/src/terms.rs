//! Terms across restarts: which epochs of earlier terms survived.
//!
//! A restart after a clean mark keeps the term. After a crash, visible epochs may be missing, so a
//! new term begins, and the former term ends with its last durable epoch.

use crate::limits::PAST_TERMS_MAX;

/// A term that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastTerm {
    /// The term.
    pub term: u64,
    /// The last epoch of the term that survived.
    pub last_epoch: u64,
}

/// State of an epoch of a term, as seen from the current term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochState {
    /// The epoch survived, or it belongs to the current term.
    Valid,
    /// A crash lost it.
    Lost {
        /// The last epoch of that term that survived.
        last_epoch: u64,
    },
    /// The term is neither the current one nor one of the past terms that are kept.
    Unknown,
}

/// The current term and the past terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    current: u64,
    past: Vec<PastTerm>,
}

impl Terms {
    /// Creates the terms of a new fleet or of a checkpoint. Keeps the newest [`PAST_TERMS_MAX`]
    /// past terms.
    #[must_use]
    pub fn new(current: u64, mut past: Vec<PastTerm>) -> Self {
        past.drain(..past.len().saturating_sub(PAST_TERMS_MAX));
        Self { current, past }
    }

    /// The current term.
    #[must_use]
    pub fn current(&self) -> u64 {
        self.current
    }

    /// The past terms, oldest first.
    #[must_use]
    pub fn past(&self) -> &[PastTerm] {
        &self.past
    }

    /// Whether `term` is the current term or a past term that is kept.
    #[must_use]
    pub fn knows(&self, term: u64) -> bool {
        self.current == term || self.past.iter().any(|past| past.term == term)
    }

    /// Appends the terms in `ended`, which a log recorded as ended, and sets the current term.
    /// Skips past terms that are present already.
    pub fn extend(&mut self, ended: &[PastTerm], current: u64) {
        for past in ended {
            if !self.past.iter().any(|other| other.term == past.term) {
                self.past.push(*past);
            }
        }
        self.current = current;
        self.past.drain(..self.past.len().saturating_sub(PAST_TERMS_MAX));
    }

    /// Whether an epoch that was visible in a term survived.
    #[must_use]
    pub fn judge(&self, term: u64, epoch: u64) -> EpochState {
        if term == self.current {
            return EpochState::Valid;
        }
        match self.past.iter().find(|past| past.term == term) {
            Some(past) if epoch <= past.last_epoch => EpochState::Valid,
            Some(past) => EpochState::Lost { last_epoch: past.last_epoch },
            None => EpochState::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_of_past_terms_are_judged_by_what_survived() {
        let mut terms = Terms::new(7, Vec::new());
        terms.extend(&[PastTerm { term: 7, last_epoch: 90 }], 8);
        terms.extend(&[PastTerm { term: 7, last_epoch: 90 }], 8);
        assert_eq!(terms.past().len(), 1);
        assert_eq!(terms.judge(7, 90), EpochState::Valid);
        assert_eq!(terms.judge(7, 91), EpochState::Lost { last_epoch: 90 });
        assert_eq!(terms.judge(8, 1000), EpochState::Valid);
        assert_eq!(terms.judge(6, 1), EpochState::Unknown);
    }

    #[test]
    fn old_terms_are_forgotten() {
        let past = (0..2000).map(|term| PastTerm { term, last_epoch: term }).collect();
        let mut terms = Terms::new(5000, past);
        assert_eq!(terms.past().len(), PAST_TERMS_MAX);
        terms.extend(&[PastTerm { term: 5000, last_epoch: 3 }], 5001);
        assert_eq!(terms.past().len(), PAST_TERMS_MAX);
        assert_eq!(terms.judge(5000, 4), EpochState::Lost { last_epoch: 3 });
        assert_eq!(terms.judge(0, 0), EpochState::Unknown);
    }
}
