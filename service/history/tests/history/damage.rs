//! Flips bits of runs and manifests. Each flip must cause an error or leave the answers unchanged.

use shoal_codec::FixColumns;
use shoal_history::{AsOf, AsOfQuery, Everywhere, HistoryError, QueryBudget, Scan, Trajectory};
use shoal_position_log::Storage;

use crate::world::{FOLDER, Shape, Step, World, rows};

/// Distance between the flipped bits, a prime.
const STEP: usize = 211;

fn read_all(world: &World) -> Result<Vec<shoal_codec::FixRow>, HistoryError> {
    let window = (i64::MIN / 4, i64::MAX / 4);
    let mut out = FixColumns::new();
    let budget = QueryBudget::unlimited;
    let mut scan = Scan::new(world.version(), window, Everywhere, budget());
    while scan.next(&mut out)? {}
    let query = AsOfQuery { time_ms: window.1, ttl_ms: None, objects: None };
    let mut as_of = AsOf::new(world.version(), query, Everywhere, budget());
    while as_of.next(&mut out)? {}
    // The query above does not read fixes older than the clear, so read the directories here.
    let objects: Vec<u64> = (0..30).collect();
    let mut tracks = Trajectory::new(world.version(), &objects, window, 0, budget());
    while tracks.next(&mut out)? {}
    Ok(rows(&out))
}

#[test]
fn flipped_bits_give_an_error_or_change_nothing() {
    let mut world = World::new(5, Shape { objects: 30, batch_rows: 3_000, partitions: 2 });
    world.open().unwrap();
    world.step(Step::Seal).unwrap();
    world.step(Step::Seal).unwrap();
    let whole = read_all(&world).unwrap();
    let names = world.disk.list(FOLDER).unwrap();
    assert!(names.len() >= 3, "{names:?}");
    for name in names {
        let path = format!("{FOLDER}/{name}");
        let bits = 8 * world.disk.bytes(&path).unwrap().len();
        let (mut found, mut tried) = (0, 0);
        for bit in (0..bits).step_by(STEP) {
            world.disk.flip(&path, bit);
            tried += 1;
            match world.open().and_then(|()| read_all(&world)) {
                Ok(answer) => assert_eq!(answer, whole, "bit {bit} of {path}"),
                Err(HistoryError::File(_)) => found += 1,
                Err(error) => panic!("bit {bit} of {path}: {error}"),
            }
            world.disk.flip(&path, bit);
        }
        // What is not found is padding: up to two pages of a run, most of a small manifest; and
        // removals that a clear hides.
        let padding = 8 * 9_000 / STEP;
        assert!(found > 0 && found + padding >= tried, "{path}: {found} of {tried}");
    }
    world.open().unwrap();
    assert_eq!(read_all(&world).unwrap(), whole);
}

#[test]
fn a_missing_run_and_a_foreign_fleet_are_named() {
    let mut world = World::new(6, Shape { objects: 3, batch_rows: 30, partitions: 1 });
    world.open().unwrap();
    world.step(Step::Seal).unwrap();
    let storage = std::sync::Arc::new(world.disk.clone());
    let foreign = shoal_history::HistoryOptions { fleet_id: 8, ..crate::world::options() };
    let error = shoal_history::HistoryWriter::open(storage, FOLDER, &foreign).unwrap_err();
    assert!(error.to_string().contains("fleet"), "{error}");
    let names = world.disk.list(FOLDER).unwrap();
    let run = names.iter().find(|name| name.ends_with(".run")).unwrap();
    world.disk.remove(&format!("{FOLDER}/{run}")).unwrap();
    let error = world.open().unwrap_err().to_string();
    assert!(error.contains(run) && error.contains("does not exist"), "{error}");
}
