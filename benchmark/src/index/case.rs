//! Requests of a case, and the check of answers.

use rayon::prelude::*;

use super::key_set::{self, MadeKey};
use super::layout::{eytzinger_rank, k_ary_rank};
use super::options::{Distribution, Options, Structure};
use crate::error::BenchmarkError;
use crate::harness::AnswerHash;

/// Requests for keys that exist, and their ranks.
pub(super) struct Requests<K> {
    pub(super) distribution: Distribution,
    pub(super) keys: Vec<K>,
    pub(super) ranks: Vec<u32>,
    /// Hash of the ranks.
    pub(super) answer_hash: String,
}

impl<K: MadeKey> Requests<K> {
    /// Requests for some of these keys.
    pub(super) fn new(
        keys: &[K],
        searches: u32,
        distribution: Distribution,
        options: &Options,
    ) -> Self {
        let ranks = key_set::ranks(keys.len() as u32, searches, distribution, options.common.seed);
        let mut hash = AnswerHash::new();
        ranks.iter().for_each(|rank| hash.add_word(u64::from(*rank)));
        let requests = ranks.par_iter().map(|rank| keys[*rank as usize]).collect();
        Self { distribution, keys: requests, ranks, answer_hash: hash.finish() }
    }

    /// Fails if a place found by a structure does not have the rank of its request.
    pub(super) fn check(&self, what: &Searched<K>, places: &[u32]) -> Result<(), BenchmarkError> {
        let rank = |place: &u32| what.rank_of(*place);
        let wrong = |at: &usize| rank(&places[*at]) != self.ranks[*at];
        match (0..self.ranks.len()).into_par_iter().find_first(wrong) {
            None => Ok(()),
            Some(at) => Err(BenchmarkError::Disagreement {
                case: format!("request {at} of {} keys, {:?}", what.length, self.distribution),
                backend: format!("{:?}", what.structure),
                answers: format!("rank {} (place {})", rank(&places[at]), places[at]),
                other: "the sorted keys".into(),
                others: format!("rank {}", self.ranks[at]),
            }),
        }
    }
}

/// A structure over `length` keys; converts its places to ranks.
#[derive(Clone, Copy)]
pub(super) struct Searched<K> {
    pub(super) structure: Structure,
    pub(super) length: u32,
    /// Keys of a leaf of the tree.
    pub(super) fill: usize,
    pub(super) keys: std::marker::PhantomData<K>,
}

impl<K: MadeKey> Searched<K> {
    pub(super) fn new(structure: Structure, length: u32, options: &Options) -> Self {
        let fill = leaf_keys::<K>(options);
        Self { structure, length, fill, keys: std::marker::PhantomData }
    }

    /// The rank of the key at a place.
    fn rank_of(&self, place: u32) -> u32 {
        let (node, length) = (K::LEAF_KEYS as u32, u64::from(self.length));
        match self.structure {
            Structure::Tree => place / node * self.fill as u32 + place % node,
            Structure::Eytzinger => eytzinger_rank(place.into(), length) as u32,
            Structure::KAry => k_ary_rank(place.into(), length, node.into()) as u32,
            _ => place,
        }
    }
}

/// Keys that a leaf has when the tree is built.
pub(super) fn leaf_keys<K: MadeKey>(options: &Options) -> usize {
    (K::LEAF_KEYS * options.fill as usize / 100).max(1)
}
