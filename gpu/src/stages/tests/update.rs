//! The cells of a grid after a rebuild and after moves were applied, against a model on the host.

use std::collections::BTreeSet;

use shoal_engine::layout::{Entry, Grid, NO_SLOT, Version};

use super::scene::Scene;
use crate::launch::tests::{BOUNDARIES, Bench, Probe, seeds};
use crate::launch::{DeviceBuffer, MovedArgument, RecordsArgument};
use crate::stages::update::tables::Tables;
use crate::state::grid_cells::GridCells;

const NO_KEY: u32 = u32::MAX;
const NOBODY: Entry = Entry { x: 0, y: 0, slot: NO_SLOT, state: 0 };

/// The cell of a position, by the definition of the layout: scales are cells per quantum in 32.32
/// fixed point, positions outside the extent belong to its rim.
fn cell_of(grid: &Grid, entry: &Entry) -> u32 {
    let along = |value: i32, min: i32, max: i32, scale: u64| {
        ((u64::from(value.clamp(min, max).abs_diff(min)) * scale) >> 32) as u32
    };
    let column = along(entry.x, grid.x_min, grid.x_max, grid.scale_x);
    along(entry.y, grid.y_min, grid.y_max, grid.scale_y) * grid.columns + column
}

/// A grid on the device and its model.
struct Trial {
    bench: Bench,
    probe: Probe,
    scene: Scene,
    grid: Grid,
    cells: GridCells,
    tables: Tables,
    /// By slot, on the host: the newest positions, and those that the grid was updated to.
    newest: Vec<Entry>,
    held: Vec<Entry>,
    current: DeviceBuffer<Entry>,
    versions: DeviceBuffer<Version>,
    objects: DeviceBuffer<u64>,
    stamps: Vec<u32>,
    epoch: u64,
}

impl Trial {
    fn new(seed: u64, slots: usize) -> Self {
        let mut scene = Scene::new(seed ^ slots as u64);
        scene.turn();
        let grid = scene.grid();
        Self::of(scene, grid, slots)
    }

    fn of(scene: Scene, grid: Grid, slots: usize) -> Self {
        let bench = Bench::new();
        let mut trial = Self {
            probe: Probe::load(&bench),
            cells: GridCells::new(&bench.memory, &grid).unwrap(),
            tables: Tables::new(&bench.memory).unwrap(),
            newest: vec![NOBODY; slots],
            held: vec![NOBODY; slots],
            current: bench.zeros(slots),
            versions: bench.zeros(2 * slots.max(1)),
            objects: bench.zeros(slots),
            stamps: vec![0; slots],
            epoch: 0,
            bench,
            scene,
            grid,
        };
        for slot in 0..slots as u32 {
            if !trial.scene.random.once_in(10) {
                trial.put(slot);
            }
        }
        trial
    }

    /// Gives a slot a position in the present crowd.
    fn put(&mut self, slot: u32) {
        let (x, y) = self.scene.point();
        let state = self.scene.random.below(4) as u32;
        self.newest[slot as usize] = Entry { x, y, slot, state };
    }

    /// Uploads the newest positions: as published, and as records.
    fn upload(&self, published: &[Entry]) {
        let epoch = self.epoch;
        let version = |entry: &Entry| {
            let Entry { x, y, slot, state } = *entry;
            [
                Version { time_ms: 0, epoch, x, y, state, alive: u32::from(slot != NO_SLOT) },
                Version::default(),
            ]
        };
        let versions: Vec<Version> = self.newest.iter().flat_map(version).collect();
        self.versions.upload(&self.bench.stream, 0, &versions).unwrap();
        self.current.upload(&self.bench.stream, 0, published).unwrap();
        self.bench.wait();
    }

    fn records(&self) -> RecordsArgument {
        RecordsArgument::new(&self.objects, &self.versions, None)
    }

    fn length(&self) -> u32 {
        self.grid.columns * self.grid.rows
    }

    fn slots(&self) -> u32 {
        self.newest.len() as u32
    }

    fn rebuild(&mut self, is_tight: bool) {
        self.upload(&self.newest);
        let objects = self.newest.iter().filter(|entry| entry.slot != NO_SLOT).count() as u64;
        let (kernels, stream) = (&self.bench.gpu.kernels, &self.bench.stream);
        let of = (self.newest.len() as u32, objects);
        let (tables, current) = (&mut self.tables, &self.current);
        self.cells.rebuild(kernels, stream, tables, (&self.grid, is_tight), current, of).unwrap();
        self.bench.wait();
        self.held.clone_from(&self.newest);
        self.check("rebuild", true);
        self.cells.locate(kernels, stream, self.newest.len()).unwrap();
        self.check("locate", true);
        self.check_places("locate");
    }

    /// Each cell holds the objects whose position maps to it. Cells that ascend are disjoint; those
    /// of a tight grid follow each other without a gap.
    fn check(&self, after: &str, ascends: bool) {
        let what = format!("{after}, epoch {}, {} slots", self.epoch, self.slots());
        let seen = self.probe.cells(&self.bench, &self.cells.argument(), self.length());
        let mut expected: Vec<Vec<Entry>> = vec![Vec::new(); seen.cells.len()];
        for entry in self.newest.iter().filter(|entry| entry.slot != NO_SLOT) {
            expected[cell_of(&self.grid, entry) as usize].push(*entry);
        }
        let mut end = 0;
        for (number, (cell, expected)) in seen.cells.iter().zip(expected).enumerate() {
            if ascends {
                assert!(cell.start >= end, "{what}: cell {number} overlaps the previous one");
            }
            assert!(cell.count <= cell.capacity, "{what}: cell {number} outgrew its capacity");
            if self.cells.is_tight {
                assert_eq!((cell.start, cell.count), (end, cell.capacity), "{what}: cell {number}");
            }
            end = cell.start + cell.capacity;
            let range = cell.start as usize..(cell.start + cell.count) as usize;
            let mut found = seen.entries[range].to_vec();
            found.sort_unstable_by_key(|entry| entry.slot);
            assert_eq!(found, expected, "{what}: cell {number}");
        }
    }

    /// Every object's place is that of its entry; objects in no cell have none.
    fn check_places(&self, after: &str) {
        let what = format!("{after}, epoch {}, {} slots", self.epoch, self.slots());
        let argument = self.cells.argument();
        let seen = self.probe.cells(&self.bench, &argument, self.length());
        let mut expected = vec![NO_SLOT; self.newest.len()];
        for cell in &seen.cells {
            for place in cell.start..cell.start + cell.count {
                expected[seen.entries[place as usize].slot as usize] = place;
            }
        }
        let places = self.probe.places(&self.bench, &argument, self.slots());
        assert_eq!(places, expected, "{what}");
    }

    /// The changes of one cycle; returns the slots that moved, in no particular order.
    fn cycle(&mut self) -> Vec<u32> {
        self.epoch += 1;
        self.scene.turn();
        let before = self.newest.clone();
        let share = *self.scene.random.pick(&[1, 2, 10, 100]);
        let chosen: Vec<u32> =
            (0..self.slots()).filter(|_| self.scene.random.once_in(share)).collect();
        let alive = |entry: &Entry| entry.slot != NO_SLOT;
        match self.scene.random.below(5) {
            0 => chosen.into_iter().for_each(|slot| self.step(slot)),
            1 => chosen.into_iter().for_each(|slot| self.put(slot)),
            2 => {
                // All objects leave the cell of one of them.
                let left = self.newest.iter().find(|entry| alive(entry)).copied();
                let left = left.map(|entry| cell_of(&self.grid, &entry));
                let is_there =
                    |entry: &&Entry| alive(entry) && Some(cell_of(&self.grid, entry)) == left;
                let leaving: Vec<u32> =
                    self.newest.iter().filter(is_there).map(|entry| entry.slot).collect();
                leaving.into_iter().for_each(|slot| self.put(slot));
            }
            3 => chosen.into_iter().for_each(|slot| self.newest[slot as usize] = NOBODY),
            _ => chosen.into_iter().for_each(|slot| match self.scene.random.below(4) {
                0 => self.newest[slot as usize] = NOBODY,
                1 => self.step(slot),
                _ => self.put(slot),
            }),
        }
        let changed = |slot: &u32| before[*slot as usize] != self.newest[*slot as usize];
        let mut moved: Vec<u32> = (0..self.slots()).filter(changed).collect();
        for slot in &moved {
            self.stamps[*slot as usize] = self.epoch as u32;
        }
        self.scene.shuffle(&mut moved);
        moved
    }

    /// Moves a slot's object slightly, or changes only its state.
    fn step(&mut self, slot: u32) {
        let entry = self.newest[slot as usize];
        if entry.slot == NO_SLOT {
            return;
        }
        let (x, y) = self.scene.near((entry.x, entry.y), 3);
        let state = entry.state ^ 1;
        self.newest[slot as usize] = Entry { x, y, slot, state };
    }

    /// The cells that would outgrow their capacity.
    fn outgrown(&self) -> BTreeSet<u32> {
        let seen = self.probe.cells(&self.bench, &self.cells.argument(), self.length());
        let mut counts: Vec<i64> = seen.cells.iter().map(|cell| cell.count.into()).collect();
        for (from, to) in self.held.iter().zip(&self.newest) {
            for (entry, change) in [(from, -1), (to, 1)] {
                if entry.slot != NO_SLOT {
                    counts[cell_of(&self.grid, entry) as usize] += change;
                }
            }
        }
        let numbered = (0..).zip(counts.iter().zip(&seen.cells));
        let over = numbered.filter(|(_, (count, cell))| **count > i64::from(cell.capacity));
        over.map(|(number, _)| number).collect()
    }

    /// Two cycles and the update that applies them.
    fn bring_up(&mut self) {
        let before = self.cycle();
        let published = self.newest.clone();
        let now = self.cycle();
        if before.is_empty() && now.is_empty() {
            return;
        }
        self.upload(&published);
        let lists = (self.bench.upload(&before), self.bench.upload(&now));
        let stamps = self.bench.upload(&self.stamps);
        let (before_list, now_list) =
            ((&lists.0, before.len() as u32), (&lists.1, now.len() as u32));
        let moved = MovedArgument::new(before_list, now_list, &stamps, self.epoch);
        self.classify(&moved, &before, &now);
        self.upload(&published);
        let expected = self.outgrown();
        let (kernels, stream) = (&self.bench.gpu.kernels, &self.bench.stream);
        let (records, tables) = (self.records(), &mut self.tables);
        self.cells.apply(kernels, stream, tables, &self.current, &moved, &records).unwrap();
        let outgrown = self.bench.download(&self.tables.outgrown, 1)[0];
        assert_eq!(outgrown.count() as usize, expected.len(), "epoch {}: {expected:?}", self.epoch);
        assert_eq!(self.bench.download(&self.current, self.newest.len()), self.newest, "published");
        if outgrown.has_failed() {
            return self.rebuild(false);
        }
        self.held.clone_from(&self.newest);
        self.check("apply", false);
        self.check_places("apply");
    }

    /// Every slot that moved is a deletion, an insertion, both, or moves inside its cell.
    fn classify(&self, moved: &MovedArgument, before: &[u32], now: &[u32]) {
        let length = 2 * (before.len() + now.len());
        let (keys, slots) = (self.bench.zeros(length), self.bench.zeros(length));
        let (kernels, stream) = (&self.bench.gpu.kernels, &self.bench.stream);
        let lists = (&keys, &slots);
        let from = (moved, &self.records());
        kernels.update_keys(stream, &self.cells.argument(), from, &self.current, lists).unwrap();
        let key = |entry: &Entry, kind: u32| match entry.slot {
            NO_SLOT => NO_KEY,
            _ => cell_of(&self.grid, entry) << 1 | kind,
        };
        let mut expected = Vec::new();
        let twice: BTreeSet<u32> = now.iter().copied().collect();
        let once = before.iter().map(|slot| (slot, !twice.contains(slot)));
        for (slot, counts) in once.chain(now.iter().map(|slot| (slot, true))) {
            let (from, to) = (&self.held[*slot as usize], &self.newest[*slot as usize]);
            let (deletion, insertion) = (key(from, 0), key(to, 1));
            let stays = deletion != NO_KEY && deletion | 1 == insertion;
            let keys = if counts && !stays { [deletion, insertion] } else { [NO_KEY; 2] };
            expected.extend(keys);
        }
        assert_eq!(self.bench.download(&keys, length), expected, "keys of epoch {}", self.epoch);
        let expected: Vec<u32> = before.iter().chain(now).flat_map(|slot| [*slot, *slot]).collect();
        assert_eq!(self.bench.download(&slots, length), expected, "slots of epoch {}", self.epoch);
    }
}

seeds!(cells_hold_what_maps_to_them);
fn cells_hold_what_maps_to_them(seed: u64) {
    for slots in BOUNDARIES.into_iter().chain([6_000]) {
        let mut trial = Trial::new(seed, slots);
        trial.rebuild(false);
        for _ in 0..6 {
            trial.bring_up();
        }
        trial.rebuild(false);
    }
}

seeds!(rebuilt_cells_hold_what_maps_to_them);
fn rebuilt_cells_hold_what_maps_to_them(seed: u64) {
    // Several blocks of entries, in few cells, in as many as a block counts, and in more.
    for (slots, cells) in [(40_000, (37, 23)), (30_000, (90, 90)), (40_000, (400, 300))] {
        let mut scene = Scene::new(seed ^ slots);
        scene.turn();
        let grid = scene.grid_of(cells);
        let mut trial = Trial::of(scene, grid, slots as usize);
        for is_tight in [true, false] {
            trial.rebuild(is_tight);
            trial.cycle();
        }
    }
}
