//! The objects of a shard, and their phases in a round.
//!
//! Shard `s` of `n` owns the objects `s, s + n, s + 2n, ...` below `objects`. The phase of an
//! object is `object * step / objects`, rounded down, so that ascending objects report in time
//! order within a round for every number of shards.

use crate::Params;

/// The objects of one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shard {
    objects: u64,
    first: u64,
    stride: u64,
    step_ms: u64,
}

impl Shard {
    /// The shard of checked parameters.
    pub(crate) fn new(params: &Params) -> Self {
        Self {
            objects: params.objects,
            first: u64::from(params.shard),
            stride: u64::from(params.shards),
            step_ms: params.step_ms.unsigned_abs(),
        }
    }

    /// Number of objects of the shard.
    pub(crate) fn owned(&self) -> u64 {
        self.objects.saturating_sub(self.first).div_ceil(self.stride)
    }

    /// The object with a local index below [`owned`](Self::owned).
    pub(crate) fn object(&self, local: u64) -> u64 {
        self.first + local * self.stride
    }

    /// The time of an object within a round, `0..step_ms`.
    pub(crate) fn phase_ms(&self, object: u64) -> i64 {
        (object * self.step_ms / self.objects) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_divide_the_objects_and_phases_ascend() {
        let params = Params { objects: 10, step_ms: 1_000, shards: 3, ..Params::default() };
        let mut all = Vec::new();
        for shard in 0..3 {
            let shard = Shard::new(&Params { shard, ..params.clone() });
            all.extend((0..shard.owned()).map(|local| shard.object(local)));
        }
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        let whole = Shard::new(&Params { shards: 1, ..params });
        let phases: Vec<i64> = (0..10).map(|object| whole.phase_ms(object)).collect();
        assert_eq!(phases, (0..10).map(|object| object * 100).collect::<Vec<_>>());
    }

    #[test]
    fn a_shard_beyond_the_objects_owns_none() {
        let params = Params { objects: 2, shard: 3, shards: 4, ..Params::default() };
        assert_eq!(Shard::new(&params).owned(), 0);
    }
}
