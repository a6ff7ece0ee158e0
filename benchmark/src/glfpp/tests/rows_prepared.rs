//! Prepared rows: number, size, and determinism.

use shoal_codec::Block;

use super::options;
use crate::glfpp::case::{Case, Distribution, cases};
use crate::glfpp::options::Experiment;
use crate::glfpp::prepared::Prepared;

fn bytes(prepared: &Prepared) -> Vec<&[u8]> {
    let cycles = prepared.load.iter().chain([&prepared.warm]).chain(&prepared.cycles);
    cycles.flat_map(|cycle| &cycle.blocks).map(|block| &block.bytes()[..]).collect()
}

#[test]
fn the_same_case_gives_the_same_bytes_from_several_generators() {
    let options = options(&["--objects", "1000", "--updates", "1200000", "--cycle", "600000"]);
    for case in cases(Experiment::Gauss, &options) {
        let (one, again) = (Prepared::new(&case).unwrap(), Prepared::new(&case).unwrap());
        assert_eq!(bytes(&one), bytes(&again));
        assert_eq!(one.cycles.len(), 2);
        for (cycle, same) in one.cycles.iter().zip(&again.cycles) {
            assert_eq!(cycle.blocks.len(), 3, "250,000 rows a block at most");
            assert_eq!(cycle.blocks.iter().map(Block::rows).sum::<usize>(), 600_000);
            assert_eq!(cycle.queries, same.queries);
            assert_eq!(cycle.queries.len(), 60_000);
        }
        let other = Prepared::new(&Case { seed: 2, ..case }).unwrap();
        assert_ne!(bytes(&one), bytes(&other));
    }
}

#[test]
fn objects_report_in_order_of_time() {
    let options = options(&["--objects", "999"]);
    for distribution in [Distribution::Uniform, Distribution::Gauss(3)] {
        let case = Case { distribution, ..cases(Experiment::Small, &options).remove(0) };
        let prepared = Prepared::new(&case).unwrap();
        let mut last = vec![i64::MIN; 999];
        let cycles = prepared.load.iter().chain([&prepared.warm]).chain(&prepared.cycles);
        for block in cycles.flat_map(|cycle| &cycle.blocks) {
            let columns = block.decode().unwrap();
            for (object, time_ms) in columns.object.iter().zip(&columns.time_ms) {
                let last = &mut last[*object as usize];
                assert!(*last < *time_ms, "object {object} at {time_ms}");
                *last = *time_ms;
            }
        }
        assert!(last.iter().all(|time_ms| *time_ms > i64::MIN), "everybody has reported");
    }
}

#[test]
fn rows_have_the_stated_sizes() {
    let options = options(&[]);
    for (experiment, row_bytes) in [(Experiment::Mixed, 20), (Experiment::Attributes, 34)] {
        let case = cases(experiment, &options).remove(0);
        let prepared = Prepared::new(&case).unwrap();
        let block = &prepared.cycles[0].blocks[0];
        let decoded: u64 = block.chunks().iter().map(|chunk| chunk.decoded_bytes).sum();
        assert_eq!(decoded, row_bytes * block.rows() as u64, "{experiment:?}");
    }
}

#[test]
fn cases_have_the_sizes_of_the_paper() {
    let options = options(&["--updates", "40000000", "--cycle", "4000000"]);
    let labels = |experiment| -> Vec<String> {
        cases(experiment, &options).iter().map(Case::label).collect()
    };
    assert_eq!(labels(Experiment::Mixed), ["100:10", "100:8", "100:5", "100:2", "100:1"]);
    assert_eq!(labels(Experiment::Gauss), ["H = 1", "H = 10", "H = 100"]);
    let mixed = cases(Experiment::Mixed, &options).remove(0);
    assert_eq!((mixed.updates, mixed.queries, mixed.cycles), (40_000_000, 4_000_000, 10));
    let small = cases(Experiment::Small, &options).remove(0);
    assert_eq!((small.cycle_updates(), small.cycle_queries()), (100_000, 10_000));
    let queries_alone = cases(Experiment::CellsQueries, &options).remove(0);
    assert_eq!((queries_alone.updates, queries_alone.queries), (0, 4_000_000));
    for large in cases(Experiment::Large, &options) {
        let results = large.window * large.window * large.objects as f64;
        assert!((results - 10.0).abs() < 1e-6, "{results} objects a window");
    }
}
