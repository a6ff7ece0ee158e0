//! Random operations: rows, removals, clears and queries.
//!
//! Every output is compared with the model's; cycles overlap, and states are exported and move to
//! fresh engines on the way.

use super::builders::START_MS;
use super::generate::Generator;
use super::trial::{Make, Trial};
use crate::backend::{Backend as _, Clock, EngineOptions};
use crate::hash_key::HashKey;
use crate::space::Space;

/// Number of operations of one seed: the environment variable `SHOAL_CONFORMANCE_OPERATIONS`, or
/// 200,000.
#[must_use]
pub fn operations_per_seed() -> u64 {
    let set = std::env::var("SHOAL_CONFORMANCE_OPERATIONS").ok();
    set.and_then(|text| text.replace('_', "").parse().ok()).unwrap_or(200_000)
}

/// Runs `operations` random operations on a thousand ids, and compares every output with the model.
///
/// Even seeds are geographic, odd ones planar of three sizes; clock, TTL and object limit vary with
/// the seed.
pub fn random_operations(make: Make, seed: u64, operations: u64) {
    let plane = |width_m, height_m, quantum_m| {
        Space::planar(width_m, height_m, quantum_m).expect("the plane exists")
    };
    let space = match seed % 8 {
        1 => plane(100_000.0, 60_000.0, 0.01),
        3 | 7 => plane(30.0, 20.0, 1.0),
        5 => plane(f64::from(i32::MAX), f64::from(i32::MAX), 1.0),
        _ => Space::geographic(),
    };
    let options = EngineOptions {
        clock: if seed % 3 == 2 { Clock::System } else { Clock::Event },
        ttl_ms: (seed % 5 > 1).then_some(40_000),
        // Of a thousand ids: nearly all refused, half of them, few.
        objects_max: match seed % 4 {
            1 => 500,
            2 => 40,
            3 => 900,
            _ => 1 << 20,
        },
        term: seed,
        hash_key: HashKey::new([seed, 1]),
        ..EngineOptions::new(space)
    };
    let mut trial = Trial::new(make, options.clone(), &format!("seed {seed}"));
    let mut generator = Generator::new(seed, space, 1_000, START_MS);
    let mut done = 0;
    while done < operations {
        let random = &mut generator.random;
        if random.once_in(40) {
            generator.next_phase();
        }
        let random = &mut generator.random;
        generator.now_ms += *random.pick(&[0, 1, 500, 5_000]);
        let step_back_ms = *random.pick(&[0, 0, 0, 10_000]);
        trial.system_ms = generator.now_ms - step_back_ms;
        trial.time_max_ms = generator.now_ms + 60_000;
        let bound_ms = *random.pick(&[-90_000, -1_000, 0, 1_000, 70_000]);
        trial.event_clock_max_ms = random.once_in(2).then_some(generator.now_ms + bound_ms);
        let requests = generator.random.below(6);
        let queries = generator.random.below(8);
        done += 1 + submit(&mut trial, &mut generator, requests, 60, queries);
        settle(&mut trial, &mut generator, &options);
    }
    finish(&mut trial);
}

/// Runs cycles of a hundred thousand objects and more that gather, spread, vanish and return.
pub fn many_objects(make: Make, seed: u64, operations: u64) {
    let space = if seed.is_multiple_of(2) {
        Space::geographic()
    } else {
        Space::planar(200_000.0, 200_000.0, 0.01).expect("the plane exists")
    };
    let ttl_ms = (seed % 3 == 2).then_some(60_000);
    let objects_max = match seed % 4 {
        1 => 30_000,
        3 => 100_000,
        _ => 1 << 20,
    };
    let hash_key = HashKey::new([seed, !seed]);
    let options =
        EngineOptions { ttl_ms, objects_max, term: seed, hash_key, ..EngineOptions::new(space) };
    let mut trial = Trial::new(make, options.clone(), &format!("many objects, seed {seed}"));
    let mut generator = Generator::new(seed, space, 250_000, START_MS);
    let mut done = 0;
    while done < operations.max(400_000) {
        generator.next_phase();
        generator.now_ms += 10_000;
        trial.system_ms = generator.now_ms;
        trial.time_max_ms = generator.now_ms + 60_000;
        done += submit(&mut trial, &mut generator, 8, 20_000, 24);
        settle(&mut trial, &mut generator, &options);
    }
    finish(&mut trial);
}

/// Submits one random cycle; returns its operations.
fn submit(
    trial: &mut Trial,
    generator: &mut Generator,
    requests: u64,
    rows_max: u64,
    queries: u64,
) -> u64 {
    let mut operations = queries;
    let mut changes = Vec::new();
    for _ in 0..requests {
        let (request, count) = generator.request(trial.model(), rows_max);
        operations += count;
        changes.push(request);
    }
    let queries = (0..queries).map(|_| generator.query(trial.model())).collect();
    trial.submit(changes, queries);
    operations
}

/// Leaves cycles in flight or waits for them in any order; sometimes exports the state or moves it
/// to a fresh engine.
fn settle(trial: &mut Trial, generator: &mut Generator, options: &EngineOptions) {
    let random = &mut generator.random;
    if trial.in_flight() < 2 && random.once_in(2) {
        return;
    }
    while trial.in_flight() > 0 {
        let place = random.below(trial.in_flight() as u64) as usize;
        trial.wait(place);
        if random.once_in(3) {
            break;
        }
    }
    if random.once_in(50) {
        trial.export();
    }
    export_a_slice(trial, generator);
    let random = &mut generator.random;
    if trial.in_flight() == 0 && random.once_in(100) {
        trial.migrate(options.clone());
    }
}

/// Begins, continues or drops an export while cycles run. Queries are answered from its rows.
fn export_a_slice(trial: &mut Trial, generator: &mut Generator) {
    if !trial.is_exporting() || generator.random.once_in(60) {
        let queries = generator.random.below(12);
        let queries = (0..queries).map(|_| generator.query(trial.model())).collect();
        trial.begin_scan(queries);
    }
    let random = &mut generator.random;
    let objects = trial.model().objects();
    let slices = *random.pick(&[0, 1, 1, 2]);
    for _ in 0..slices {
        let part = *random.pick(&[1, 4, 20]);
        let rows_max = 1 + random.below(1 + objects / part);
        if !trial.export_next(rows_max as usize) {
            return;
        }
    }
}

fn finish(trial: &mut Trial) {
    while trial.in_flight() > 0 {
        trial.wait(0);
    }
    trial.export();
}
