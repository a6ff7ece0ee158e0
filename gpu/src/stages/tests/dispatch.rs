//! Stage dispatch against models on the host: outcomes, refusals, clock, records and the list of
//! moves.
//!
//! The models are the engine's `RowValidator`, row by row, and its model, cycle by cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::channel;

use shoal_codec::{
    Block, BlockCodec as _, BlockPlan, Budget, Column, CpuCodec, Encoding, FixColumns, FixRow,
    Mode, Tree,
};
use shoal_engine::layout::{DispatchReport, NO_SLOT, NOT_FINITE_X};
use shoal_engine::limits::TIME_MIN_MS;
use shoal_engine::{
    Backend as _, Clock, CycleInput, EngineOptions, Model, Refusal, Request, RequestOutcome,
    RowValidator,
};
use shoal_testkit::Random;

use super::scene::Scene;
use crate::launch::tests::{BOUNDARIES, Bench, seeds};
use crate::stages::dispatch::staging::{Arena, stage};
use crate::stages::driver::Driver;
use crate::stages::query::parts::QueryParts;
use crate::stages::{Context, Status, Timeline};
use crate::state::record::row;
use crate::tuning::Tuning;

const START_MS: i64 = 1_704_067_200_000;
const CYCLES: usize = 24;

/// Draws the input of cycles.
struct Sender {
    scene: Scene,
    /// Ids are drawn from this number.
    ids: u64,
    now_ms: i64,
}

impl Sender {
    fn id(&mut self) -> u64 {
        let id = self.scene.random.below(self.ids);
        if id.is_multiple_of(5) { id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1 } else { id }
    }

    fn row(&mut self, records: &BTreeMap<u64, FixRow>) -> FixRow {
        let object = self.id();
        if self.scene.random.once_in(8)
            && let Some(record) = records.get(&object)
        {
            return self.like(*record);
        }
        let (x, y) = self.scene.point();
        let random = &mut self.scene.random;
        let spread_ms = *random.pick(&[0, 3, 20_000]);
        let mut row =
            FixRow::new(object, self.now_ms + random.between(-spread_ms, spread_ms), x, y);
        if random.once_in(2) {
            row.state = random.below(4) as u32;
        }
        if random.once_in(4) {
            row.speed_mm_s = random.below(30_000) as u32;
            row.heading_cdeg = random.below(36_000) as u16;
            row.altitude_mm = random.quanta(-9_000, 9_000);
        }
        if random.once_in(8) {
            row.valid_ms = *random.pick(&[0, 1, 10_000, 60_000, u32::MAX - 2]);
        }
        if random.once_in(20) { self.spoil(row) } else { row }
    }

    /// Repeats a record, unchanged or with one changed field.
    fn like(&mut self, mut row: FixRow) -> FixRow {
        match self.scene.random.below(7) {
            0 => row.state ^= 1,
            1 => row.time_ms += 1,
            2 => row.time_ms -= 1,
            3 => (row.x, row.y) = self.scene.point(),
            4 => row.valid_ms = 5_000,
            _ => {}
        }
        row
    }

    /// A row that is refused, for one reason or several.
    fn spoil(&mut self, mut row: FixRow) -> FixRow {
        loop {
            match self.scene.random.below(10) {
                0 => row.object = u64::MAX,
                1 => row.x = NOT_FINITE_X,
                2 => row.x = i32::MIN + 1,
                3 => row.y = i32::MIN,
                4 => row.time_ms = TIME_MIN_MS - 1,
                5 => row.time_ms = self.now_ms + 60_001,
                6 => row.speed_mm_s = u32::MAX - 1,
                7 => row.heading_cdeg = 36_000,
                8 => row.valid_ms = u32::MAX - 1,
                _ => row.altitude_mm = i32::MIN + 1,
            }
            if !self.scene.random.once_in(3) {
                return row;
            }
        }
    }

    fn request(&mut self, records: &BTreeMap<u64, FixRow>, removes: bool) -> Request {
        let random = &mut self.scene.random;
        let length = *random.pick(&BOUNDARIES);
        match random.below(if removes { 10 } else { 7 }) {
            7 | 8 => Request::Remove((0..length).map(|_| self.id()).collect()),
            9 if random.once_in(3) => Request::Clear,
            kind => {
                let rows: Vec<FixRow> = (0..length).map(|_| self.row(records)).collect();
                let mut columns = FixColumns::with_capacity(length);
                rows.iter().for_each(|row| columns.push_row(*row));
                let (min, max) = rows.iter().fold((i64::MAX, i64::MIN), |(min, max), row| {
                    (min.min(row.time_ms), max.max(row.time_ms))
                });
                // Wider spans of time do not fit one block.
                let fits = max.saturating_sub(min) <= i64::from(u32::MAX);
                if kind % 2 == 0 && fits { self.block(&columns) } else { Request::Fixes(columns) }
            }
        }
    }

    fn block(&mut self, columns: &FixColumns) -> Request {
        let random = &mut self.scene.random;
        let plan = if random.once_in(3) { BlockPlan::raw() } else { plan(random) };
        let mut bytes = Vec::new();
        let tag = self.scene.space.tag();
        CpuCodec.encode_planned(columns, &plan, &tag, 0, &mut bytes).unwrap();
        Request::Block(Block::parse(bytes.into(), &Budget::default()).unwrap())
    }

    fn cycle(&mut self, records: &BTreeMap<u64, FixRow>) -> CycleInput {
        if self.scene.random.once_in(3) {
            self.scene.turn();
        }
        let random = &mut self.scene.random;
        self.now_ms += *random.pick(&[0, 1, 500, 15_000]);
        let (requests, removes) = (random.below(5), random.once_in(2));
        let system_ms = self.now_ms - *random.pick(&[0, 0, 10_000]);
        let requests = (0..requests).map(|_| self.request(records, removes)).collect::<Vec<_>>();
        let requests = requests.into();
        let time_max_ms = self.now_ms + 60_000;
        CycleInput { system_ms, time_max_ms, requests, ..CycleInput::default() }
    }
}

/// The plan of fixes with random changes: ids without a dictionary, keyed columns in row order, and
/// other keyed columns.
fn plan(random: &mut Random) -> BlockPlan {
    let afl = || Box::new(Tree::Afl);
    let delta = || Tree::Delta(Mode::Zigzag, afl());
    let keyed = || Tree::KeyedDelta(Mode::Zigzag, afl(), afl());
    let others = [
        (Column::Object, Tree::Scale(afl())),
        (Column::Time, keyed()),
        (Column::X, delta()),
        (Column::Y, Tree::Raw),
        (Column::State, keyed()),
    ];
    let plan = BlockPlan::fixes();
    others.into_iter().fold(plan, |plan, (column, tree)| match random.once_in(4) {
        true => plan.with(column, tree),
        false => plan,
    })
}

/// The ids that dispatch looks up. Each entry of a dictionary is looked up once.
fn ids(block: &Block) -> Vec<u64> {
    let mut ids = block.decode().unwrap().object;
    let chunk = block.columns().find(|(column, _)| *column == Column::Object).unwrap().1;
    if chunk.plan.root().encoding == Encoding::Dict {
        ids.sort_unstable();
        ids.dedup();
    }
    ids
}

/// The driver without its thread, and the model.
struct Trial {
    bench: Bench,
    driver: Driver,
    model: Model,
    query_parts: QueryParts,
    spare: Option<Arena>,
    has_validity: bool,
}

/// The results of dispatch.
struct Dispatched {
    report: DispatchReport,
    outcomes: Vec<RequestOutcome>,
}

impl Trial {
    fn new(options: &EngineOptions) -> Self {
        let bench = Bench::new();
        let (gpu, memory) = (&bench.gpu, &bench.memory);
        let context = Context {
            gpu: gpu.clone(),
            options: options.clone(),
            memory: memory.clone(),
            timeline: Arc::new(Timeline::default()),
            status: Arc::new(Status::default()),
        };
        // The receivers are dropped, because the driver's own loop does not run.
        let ((arenas, _), (outputs, _)) = (channel(), channel());
        let driver = Driver::new(context, Tuning::default(), arenas, outputs).unwrap();
        let (model, query_parts) = (Model::new(options.clone()), QueryParts::default());
        let spare = Some(Arena::new(memory).unwrap());
        Self { bench, driver, model, query_parts, spare, has_validity: false }
    }

    /// Runs one cycle through the stage, and the update that copies its moves to the newest
    /// positions.
    fn dispatch(&mut self, input: CycleInput) -> Dispatched {
        let (memory, stream) = (self.bench.memory.clone(), self.driver.dispatch.stream.clone());
        let newcomers = self.unknown(&input);
        let (driver, spare) = (&mut self.driver, &mut self.spare);
        let mut staged = stage(
            &memory,
            &stream,
            &driver.context.timeline,
            driver.state.epoch + 1,
            spare,
            input,
            &mut self.query_parts,
        )
        .unwrap();
        self.has_validity |= staged.has_validity;
        staged.has_validity = self.has_validity;
        driver.dispatch.fit_lists(&mut driver.state, &staged).unwrap();
        let found = driver.dispatch.newcomers(&driver.state, &staged).unwrap();
        assert_eq!(found, newcomers, "rows without a slot");
        driver.reserve(&staged).unwrap();
        driver.state.epoch += 1;
        let cycle = driver.dispatch.begin(&driver.state, &staged).unwrap();
        driver.dispatch.finish(&staged, &cycle, driver.update.updated().into_iter()).unwrap();
        stream.synchronize().unwrap();
        let (report, outcomes) = driver.dispatch.read_report(&mut driver.state, &staged).unwrap();
        driver.update.begin(&mut driver.state, &report).unwrap();
        driver.update.conclude(&mut driver.state).unwrap();
        driver.settle().unwrap();
        self.spare = Some(staged.arena);
        Dispatched { report, outcomes }
    }

    /// Rows, entries of dictionaries and removals of objects without a slot.
    fn unknown(&self, input: &CycleInput) -> usize {
        let records = &self.driver.state.records;
        let known = self.bench.download(&records.objects, records.slots as usize);
        let known: BTreeSet<u64> = known.into_iter().chain([u64::MAX]).collect();
        let ids = input.requests.iter().flat_map(|request| match request {
            Request::Fixes(columns) => columns.object.clone(),
            Request::Block(block) => ids(block),
            Request::Remove(objects) => objects.clone(),
            Request::Clear | Request::Rewind => Vec::new(),
        });
        ids.filter(|object| !known.contains(object)).count()
    }

    fn cycle(&mut self, input: CycleInput) {
        let what = format!("cycle {}", self.driver.state.epoch + 1);
        let before = self.model.records().clone();
        let found = self.dispatch(input.clone());
        let validator = RowValidator::new(&self.driver.context.options.space, input.time_max_ms);
        for (request, outcome) in input.requests.iter().zip(&found.outcomes) {
            check_refusals(&validator, request, outcome, &what);
        }
        let expected = self.model.run(input).unwrap();
        assert_eq!(found.outcomes, expected.requests, "{what}: outcomes");
        assert_eq!(found.report.expired, expected.expired, "{what}: expired");
        assert_eq!(self.driver.state.objects, expected.objects, "{what}: objects");
        assert_eq!(self.driver.state.clock_ms, expected.clock_ms, "{what}: clock");
        self.check_records(&what);
        self.check_moves(&before, found.report.moves, &what);
    }

    /// The records after the cycle are the model's, and so are the newest positions.
    fn check_records(&self, what: &str) {
        let (driver, records) = (&self.driver, &self.driver.state.records);
        let mut found = records.download(&driver.dispatch.stream, driver.state.epoch).unwrap();
        found.sort_unstable_by_key(|row| row.object);
        let found: Vec<FixRow> = found.iter().map(row).collect();
        let expected: Vec<FixRow> = self.model.records().values().copied().collect();
        assert_eq!(found, expected, "{what}: records");
        let slots = records.slots as usize;
        let objects = self.bench.download(&records.objects, slots);
        let distinct: BTreeSet<u64> = objects.iter().copied().collect();
        assert_eq!(distinct.len(), slots, "{what}: a slot an object");
        let current = self.bench.download(&records.current, slots);
        for ((slot, object), entry) in (0..).zip(&objects).zip(current) {
            let expected = self.model.records().get(object);
            let expected = expected.map(|row| (row.x, row.y, slot, row.state));
            let found =
                (entry.slot != NO_SLOT).then_some((entry.x, entry.y, entry.slot, entry.state));
            assert_eq!(found, expected, "{what}: position of {object}");
        }
        let best = self.bench.download(&records.best, records.capacity());
        assert!(best.iter().all(|key| *key == 0), "{what}: no winner is left over");
    }

    /// The list has the objects that were created, ended or changed position or state, each once.
    fn check_moves(&self, before: &BTreeMap<u64, FixRow>, moves: u32, what: &str) {
        let records = &self.driver.state.records;
        let objects = self.bench.download(&records.objects, records.slots as usize);
        let stamps = &records.stamps[self.driver.state.epoch as usize % 2];
        let stamps = self.bench.download(stamps, records.slots as usize);
        let list = &self.driver.state.moved(self.driver.state.epoch).slots;
        let list = self.bench.download(list, moves as usize);
        let slots: BTreeSet<u32> = list.iter().copied().collect();
        assert_eq!(slots.len(), list.len(), "{what}: a slot is listed once");
        let stamped = (0..).zip(&stamps).filter(|(_, at)| **at == self.driver.state.epoch as u32);
        assert!(stamped.map(|(slot, _)| slot).eq(slots.iter().copied()), "{what}: stamps");
        let found: BTreeSet<u64> = slots.iter().map(|slot| objects[*slot as usize]).collect();
        let after = self.model.records();
        let place = |row: &FixRow| (row.x, row.y, row.state);
        let known: BTreeSet<u64> = before.keys().chain(after.keys()).copied().collect();
        let changed = |object: &u64| before.get(object).map(place) != after.get(object).map(place);
        let expected: BTreeSet<u64> = known.into_iter().filter(changed).collect();
        assert_eq!(found, expected, "{what}: what moved");
    }
}

/// Rows that the validator refuses are refused for its reason; others only at the object limit.
fn check_refusals(
    validator: &RowValidator,
    request: &Request,
    outcome: &RequestOutcome,
    what: &str,
) {
    let columns = match request {
        Request::Fixes(columns) => columns.clone(),
        Request::Block(block) => block.decode().unwrap(),
        Request::Remove(_) | Request::Clear | Request::Rewind => FixColumns::default(),
    };
    let faults =
        |row: u32| validator.validate_row(&columns.row(row as usize)).map(|fault| (row, fault));
    let expected: Vec<(u32, Refusal)> = (0..columns.len() as u32).filter_map(faults).collect();
    let is_validated = |fault: &&(u32, Refusal)| fault.1 != Refusal::ObjectLimit;
    let found: Vec<(u32, Refusal)> = outcome.refused.iter().filter(is_validated).copied().collect();
    assert_eq!(found, expected, "{what}: refusals");
}

seeds!(rows_come_to_what_the_contract_says);
fn rows_come_to_what_the_contract_says(seed: u64) {
    let scene = Scene::new(seed);
    let options = EngineOptions {
        clock: if seed % 3 == 2 { Clock::System } else { Clock::Event },
        ttl_ms: (seed % 5 > 1).then_some(40_000),
        objects_max: match seed % 4 {
            1 => 3_000,
            2 => 150,
            3 => 500,
            _ => 1 << 20,
        },
        term: seed,
        ..EngineOptions::new(scene.space)
    };
    let ids = if seed.is_multiple_of(2) { 400 } else { 20_000 };
    let mut sender = Sender { scene, ids, now_ms: START_MS };
    let mut trial = Trial::new(&options);
    for _ in 0..CYCLES {
        let input = sender.cycle(trial.model.records());
        trial.cycle(input);
    }
}
