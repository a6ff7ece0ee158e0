//! Events of plain continuous queries against the model, while queries are added and removed.

use shoal_codec::{FixColumns, FixRow};
use shoal_engine::conformance::Trial;
use shoal_engine::{
    Backend, Clock, EngineOptions, EventKinds, Filter, Region, RegionId, Request, Space,
    Subscription, SubscriptionChange,
};
use shoal_gpu::{CudaBackend, Gpu};
use shoal_testkit::Random;

/// 2024-01-01T00:00:00Z, the initial clock of a trial.
const START_MS: i64 = 1_704_067_200_000;
const OBJECTS: u64 = 60;

fn cuda(options: EngineOptions) -> Box<dyn Backend> {
    let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    Box::new(CudaBackend::new(&gpu, options).unwrap_or_else(|error| panic!("{error}")))
}

/// The place of a trial's objects: near the middle, or near a border.
fn place(random: &mut Random, space: &Space) -> (i32, i32) {
    let bounds = space.bounds();
    let (x_mid, reach) = (if space.is_geographic() { 0 } else { bounds.x_max / 2 }, 40_000);
    match random.below(4) {
        0 => (
            random.quanta(bounds.x_min, bounds.x_min + reach),
            random.quanta(bounds.y_max - reach, bounds.y_max),
        ),
        1 => (random.quanta(bounds.x_max - reach, bounds.x_max), bounds.y_max / 2),
        _ => (
            random.quanta(x_mid - reach, x_mid + reach),
            random.quanta(bounds.y_max / 2 - reach, bounds.y_max / 2 + reach),
        ),
    }
}

fn row(random: &mut Random, space: &Space, turn: i64) -> FixRow {
    let (x, y) = place(random, space);
    let time_ms = START_MS + turn * 100 - random.between(0, 150);
    let mut row = FixRow::new(random.below(OBJECTS) + 1, time_ms, x, y);
    row.state = random.below(4) as u32;
    if random.once_in(2) {
        row.speed_mm_s = random.below(10) as u32;
    }
    row
}

/// A region of some kind around a place, in degrees or metres.
fn region(random: &mut Random, space: &Space) -> Region {
    let (x, y) = place(random, space);
    let (x, y) = (f64::from(x) * space.quantum(), f64::from(y) * space.quantum());
    let size = space.quantum() * *random.pick(&[0.0, 5_000.0, 30_000.0, 60_000.0]);
    let unit_m = if space.is_geographic() { 111_000.0 } else { 1.0 };
    let bounds = space.bounds();
    let highest = f64::from(bounds.y_max) * space.quantum();
    match random.below(5) {
        0 => Region::rectangle(space, x, y.min(highest - size), x, highest).unwrap(),
        1 => {
            let east =
                if space.is_geographic() && x + size > 180.0 { x + size - 360.0 } else { x + size };
            Region::rectangle(space, x, y - size, east, y).unwrap()
        }
        2 => {
            let (east, low) = ((x + size + 0.01).min(180.0), y - size - 0.01);
            let east = if space.is_geographic() { east } else { x + size + 1.0 };
            let ring = vec![(x - 0.01, y), (east, y), (x, low)];
            let other = vec![(x - size, y - size), (east, y), (x - 0.01, y)];
            let parts = if random.once_in(2) {
                vec![vec![ring]]
            } else {
                vec![vec![ring.clone()], vec![other], vec![ring]]
            };
            Region::multi_polygon(space, &parts)
                .unwrap_or_else(|_| Region::circle(space, x, y, size * unit_m).unwrap())
        }
        _ => Region::circle(space, x, y, size * unit_m).unwrap(),
    }
}

fn subscription(random: &mut Random, space: &Space) -> Subscription {
    let mut subscription = Subscription::new(region(random, space));
    if random.once_in(3) {
        let filter = Filter {
            state_mask: 1,
            state_value: random.below(2) as u32,
            speed_mm_s: random.once_in(2).then_some((2, 8)),
            ..Filter::default()
        };
        subscription.filter = filter.boxed();
    }
    if random.once_in(3) {
        subscription.wanted = EventKinds(random.below(1 << 10) as u16);
    }
    subscription.with_fixes = random.once_in(3);
    subscription
}

fn change(random: &mut Random, space: &Space, regions: u64) -> SubscriptionChange {
    let region = RegionId(random.below(regions));
    match random.below(5) {
        0 => SubscriptionChange::Remove(region),
        1 => SubscriptionChange::Snapshot(region),
        _ => SubscriptionChange::Set {
            region,
            subscription: Box::new(subscription(random, space)),
            is_snapshot_wanted: random.once_in(3),
        },
    }
}

fn requests(random: &mut Random, space: &Space, turn: i64) -> Vec<Request> {
    let mut requests = Vec::new();
    for _ in 0..random.below(3) {
        let mut columns = FixColumns::with_capacity(8);
        (0..random.below(30)).for_each(|_| columns.push_row(row(random, space, turn)));
        requests.push(Request::Fixes(columns));
        if random.once_in(3) {
            let removed = (0..random.below(4)).map(|_| random.below(OBJECTS) + 1);
            requests.push(Request::Remove(removed.collect()));
        }
        if random.once_in(20) {
            requests.push(Request::Clear);
        }
    }
    requests
}

/// Runs `turns` cycles with up to `changes` changes each among `regions` regions.
fn churn(seed: u64, space: Space, (turns, changes, regions): (i64, u64, u64)) {
    let mut random = Random::new(seed);
    let options = EngineOptions {
        clock: if seed.is_multiple_of(2) { Clock::Event } else { Clock::System },
        ttl_ms: (!seed.is_multiple_of(3)).then_some(700),
        events_max: if seed.is_multiple_of(5) { 60 } else { 1 << 20 },
        ..EngineOptions::new(space)
    };
    let space = options.space;
    let mut trial = Trial::new(cuda, options, &format!("seed {seed}"));
    for turn in 0..turns {
        trial.system_ms = START_MS + turn * 100;
        for _ in 0..random.below(changes) {
            trial.change(change(&mut random, &space, regions));
        }
        let requests = requests(&mut random, &space, turn);
        trial.submit(requests, Vec::new());
        while trial.in_flight() > random.below(3) as usize {
            trial.wait(0);
        }
    }
}

macro_rules! churns {
    ($($name:ident: $($seed:literal)+, $space:expr, $of:expr;)+) => {
        $(
            #[test]
            #[ignore = "needs an NVIDIA GPU"]
            fn $name() {
                for seed in [$($seed),+] {
                    churn(seed, $space, $of);
                }
            }
        )+
    };
}

churns! {
    few_regions_on_a_plane: 1 2 3 4 5, Space::planar(2_000.0, 1_500.0, 0.01).unwrap(),
        (150, 4, 12);
    few_regions_on_the_earth: 6 7 8 9 10, Space::geographic(), (150, 4, 12);
    regions_that_wear_the_tables_out: 11 12, Space::planar(2_000.0, 1_500.0, 0.01).unwrap(),
        (24, 6_000, 1_500);
}

/// Members that left the cells of their region are still evaluated after slots are renumbered. This
/// happens when a fleet outgrows its memory and when most of its objects have been removed.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn members_are_watched_while_a_fleet_grows() {
    let space = Space::planar(2_000.0, 1_500.0, 0.01).unwrap();
    let mut trial = Trial::new(cuda, EngineOptions::new(space), "growth");
    let wide = Region::circle(&space, 0.0, 0.0, 900.0).unwrap();
    let Region::Circle(wide) = wide else { unreachable!("a circle") };
    let near = Subscription {
        hysteresis_rank_max: Some(wide.rank_max()),
        ..Subscription::new(Region::circle(&space, 100.0, 100.0, 50.0).unwrap())
    };
    trial.change(SubscriptionChange::Set {
        region: RegionId(1),
        subscription: Box::new(near),
        is_snapshot_wanted: true,
    });
    let rows = |of: std::ops::Range<u64>, turn: i64, x: i32| {
        let mut columns = FixColumns::with_capacity(8);
        of.for_each(|id| columns.push_row(FixRow::new(id, START_MS + turn, x, 10_000)));
        Request::Fixes(columns)
    };
    trial.events(vec![rows(1..3, 0, 10_000)]);
    let mut reported = 0;
    for turn in 1..=6 {
        // Inside the region; outside its cells but within the hysteresis; beyond the hysteresis.
        let x = [10_000, 90_000, 180_000][turn as usize % 3];
        let first = 1_000 + 6_000 * turn as u64;
        let others = rows(first..first + 6_000, turn, 150_000);
        let removed = (first - 6_000..first).collect();
        let events = trial.events(vec![rows(1..3, turn, x), others, Request::Remove(removed)]);
        reported += events.events();
    }
    assert!(reported >= 10, "{reported} events");
}
