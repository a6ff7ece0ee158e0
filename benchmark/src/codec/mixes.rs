//! Data whose generator changes every five batches: the five mixes of the thesis.
//!
//! A mix cycles through its generators; each produces five batches per turn and resumes where it
//! stopped. A fixed tree is chosen from the first batch.

use shoal_codec::Values;

use super::block::Block;
use super::data_set::DataSet;
use super::thesis::{Generator, Stream};

/// Consecutive batches of one generator.
const BATCHES: usize = 5;
/// Generator turns of a mix.
const TURNS: usize = 6;

/// The mixes: generators with their shares of outliers.
const MIXES: [(&str, &[(Generator, f64)]); 5] = [
    ("time, a", &[(Generator::Time, 0.0), (Generator::PatternA, 0.0)]),
    ("a, b", &[(Generator::PatternA, 0.0), (Generator::PatternB, 0.0)]),
    ("b, time", &[(Generator::PatternB, 0.0), (Generator::Time, 0.0)]),
    (
        "time, a, b",
        &[(Generator::Time, 0.0), (Generator::PatternA, 0.0), (Generator::PatternB, 0.0)],
    ),
    (
        "time, a 1%, b 1%",
        &[(Generator::Time, 0.0), (Generator::PatternA, 0.01), (Generator::PatternB, 0.01)],
    ),
];

/// Each mix by name, its batches in order.
pub(super) fn mixes(batch_rows: usize, seed: u64) -> impl Iterator<Item = (String, Vec<Block>)> {
    MIXES.into_iter().map(move |(name, generators)| {
        let open = |(index, (generator, outliers)): (usize, &(Generator, f64))| {
            Stream::new(*generator, *outliers, seed + index as u64)
        };
        let mut streams: Vec<Stream> = generators.iter().enumerate().map(open).collect();
        let mut batches = Vec::with_capacity(TURNS * BATCHES);
        for turn in 0..TURNS {
            let stream_index = turn % streams.len();
            for _ in 0..BATCHES {
                let values = Values::I32(streams[stream_index].values(batch_rows));
                let set = DataSet::of_column(name, "value", values);
                batches.extend(set.blocks(batch_rows));
            }
        }
        (name.to_owned(), batches)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_character_changes_every_five_batches() {
        for (name, batches) in mixes(1_000, 1) {
            assert_eq!(batches.len(), TURNS * BATCHES, "{name}");
            assert!(batches.iter().all(|batch| batch.rows() == 1_000));
            let ranges: Vec<i64> = batches
                .iter()
                .map(|batch| {
                    let Values::I32(values) = &batch.columns[0].values else {
                        panic!("{name} has other values");
                    };
                    let (least, most) = (values.iter().min(), values.iter().max());
                    i64::from(*most.unwrap_or(&0)) - i64::from(*least.unwrap_or(&0))
                })
                .collect();
            if name == "time, a" {
                assert!(ranges[..5].iter().all(|range| *range < 1_000), "{ranges:?}");
                assert!(ranges[5..10].iter().all(|range| *range > 10_000), "{ranges:?}");
                assert!(ranges[10..15].iter().all(|range| *range < 1_000), "{ranges:?}");
            }
        }
    }
}
