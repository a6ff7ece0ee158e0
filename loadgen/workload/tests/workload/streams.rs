//! Hazard: a workload's stream depends on the run, version, batch size or number of shards.
//!
//! `calibration.rs` checks distributions.

use shoal_workload::{
    Event, Fix, Mix, MixShares, Params, START_MS, SpeedRange, Workload, WorkloadSpace, open,
};

const SEED: u64 = 20_260_801;
const GENERATORS: [&str; 5] = ["uniform", "world", "gauss", "network", "hub"];

fn params() -> Params {
    Params { objects: 1_000, seed: SEED, ..Params::default() }
}

fn opened(name: &str, params: &Params) -> Box<dyn Workload> {
    open(name, params).expect("the parameters are legal")
}

fn rows(workload: &mut dyn Workload, count: usize) -> Vec<Fix> {
    let mut out = Vec::new();
    assert_eq!(workload.fill(count, &mut out), count);
    out
}

/// All fixes before a time; consumes one more.
fn until(workload: &mut dyn Workload, end_ms: i64) -> Vec<Fix> {
    let mut out = Vec::new();
    while out.last().is_none_or(|fix: &Fix| fix.time_ms < end_ms) {
        workload.fill(1, &mut out);
    }
    out.pop();
    out
}

#[test]
fn fixes_come_in_time_order_from_2020_on() {
    for name in GENERATORS {
        let fixes = rows(opened(name, &params()).as_mut(), 50_000);
        assert_eq!(fixes[0].time_ms, START_MS, "{name}");
        assert!(fixes.is_sorted_by_key(|fix| fix.time_ms), "{name}, seed {SEED}");
    }
}

#[test]
fn the_first_rows_report_every_object_once() {
    for name in GENERATORS {
        let mut objects: Vec<u64> =
            rows(opened(name, &params()).as_mut(), 1_000).iter().map(|fix| fix.object).collect();
        objects.sort_unstable();
        assert_eq!(objects, (0..1_000).collect::<Vec<_>>(), "{name}, seed {SEED}");
    }
}

#[test]
fn equal_seeds_give_equal_rows_in_batches_of_any_size() {
    for name in GENERATORS {
        let whole = rows(opened(name, &params()).as_mut(), 20_000);
        let mut workload = opened(name, &params());
        let mut parts = Vec::new();
        let mut size = 1;
        while parts.len() < whole.len() {
            workload.window();
            workload.fill(size.min(whole.len() - parts.len()), &mut parts);
            size = size * 3 % 1_009;
        }
        assert_eq!(whole, parts, "{name}, seed {SEED}");
        let other = Params { seed: SEED + 1, ..params() };
        assert_ne!(whole, rows(opened(name, &other).as_mut(), 20_000), "{name}");
    }
}

#[test]
fn shards_are_complete_and_disjoint() {
    let end_ms = START_MS + 300_000;
    for name in GENERATORS {
        let mut whole = until(opened(name, &params()).as_mut(), end_ms);
        let mut union = Vec::new();
        for shard in 0..7 {
            let params = Params { shard, shards: 7, ..params() };
            let part = until(opened(name, &params).as_mut(), end_ms);
            assert!(part.iter().all(|fix| fix.object % 7 == u64::from(shard)), "{name}");
            union.extend(part);
        }
        let order = |fix: &Fix| (fix.time_ms, fix.object);
        whole.sort_by_key(order);
        union.sort_by_key(order);
        assert_eq!(whole, union, "{name}, seed {SEED}");
    }
}

#[test]
fn positions_headings_and_windows_are_in_range() {
    for name in GENERATORS {
        let mut workload = opened(name, &params());
        let (x, y) = match workload.space() {
            WorkloadSpace::Planar { width_m, height_m } => (0.0..=width_m, 0.0..=height_m),
            WorkloadSpace::Geographic => (-180.0..=180.0, -90.0..=90.0),
        };
        for fix in rows(workload.as_mut(), 200_000) {
            assert!(x.contains(&fix.x), "{name}: {fix:?}, seed {SEED}");
            assert!(y.contains(&fix.y), "{name}: {fix:?}, seed {SEED}");
            assert!(fix.heading_deg.is_none_or(|deg| (0.0..360.0).contains(&deg)), "{fix:?}");
            assert!(fix.speed_mps.is_none_or(|speed| speed >= 0.0), "{fix:?}");
        }
        for _ in 0..10_000 {
            let window = workload.window();
            assert!(x.contains(&window.west) && y.contains(&window.south), "{name}: {window:?}");
            assert!(x.contains(&window.east) && y.contains(&window.north), "{name}: {window:?}");
            let width = 0.001 * (x.end() - x.start());
            assert!((window.east - window.west - width).abs() < 1e-6, "{name}: {window:?}");
        }
    }
}

/// FNV-1a over the words of fixes and windows.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    fn add(&mut self, words: impl IntoIterator<Item = u64>) {
        for word in words {
            self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    fn fix(&mut self, fix: &Fix) {
        let bits = |value: Option<f64>| value.map_or(u64::MAX, f64::to_bits);
        self.add([fix.object, fix.time_ms as u64, fix.x.to_bits(), fix.y.to_bits()]);
        self.add([bits(fix.speed_mps), bits(fix.heading_deg)]);
    }
}

/// The streams of a seed never change: fixes, and then windows, of every generator.
#[test]
fn streams_have_their_recorded_hashes() {
    let follow = Params { windows_follow: true, shard: 1, shards: 3, ..params() };
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/bus_austin.csv.gz");
    let replay = format!("replay:{sample}");
    let copies = Params { fan_out: 3, ..params() };
    for (name, params, fixes_hash, windows_hash) in [
        ("uniform", params(), 0x4643_6915_0501_0adc_u64, 0x6ee8_fd50_8d5a_37e8_u64),
        ("world", params(), 0x8413_b695_f731_86d0, 0xe5c0_7735_7f05_b561),
        ("gauss", params(), 0x65ef_f1d6_022a_cce3, 0x6ee8_fd50_8d5a_37e8),
        ("gauss", follow, 0xefe6_3c4b_f076_d449, 0xfb24_f567_28cf_b65a),
        ("network", params(), 0x5709_b5a3_5226_90cf, 0x8f2c_48f5_87d4_84a1),
        ("hub", params(), 0x9d63_3ef9_094b_76d8, 0x709d_64e7_ca84_8848),
        (replay.as_str(), copies, 0xfca2_7dd4_43f9_50b8, 0xe1b0_9aac_852c_a9b9),
    ] {
        let mut workload = opened(name, &params);
        let (mut fixes, mut windows) = (Hash::new(), Hash::new());
        rows(workload.as_mut(), 5_000).iter().for_each(|fix| fixes.fix(fix));
        for _ in 0..1_000 {
            let window = workload.window();
            let sides = [window.west, window.south, window.east, window.north];
            windows.add(sides.map(f64::to_bits));
        }
        assert_eq!((fixes.0, windows.0), (fixes_hash, windows_hash), "{name}");
    }
    let shares = MixShares {
        late: 0.1,
        late_delay_ms: 1_000,
        duplicate: 0.1,
        duplicate_delay_ms: 3_000,
        bad: 0.1,
        removal: 0.05,
        absence_ms: 2_000,
    };
    let mut events = Hash::new();
    for event in Mix::new(opened("uniform", &params()), shares, SEED).expect("legal").take(5_000) {
        match event {
            Event::Fix(fix) => events.fix(&fix),
            Event::Remove(object) => events.add([object]),
        }
    }
    assert_eq!(events.0, 0xbaaf_a860_45ef_3b64, "mix");
}

#[test]
fn speeds_are_in_their_range() {
    let speed_range = SpeedRange { min_m_s: 1.0, max_m_s: 20.0 };
    let slow = Params { speed_range, ..params() };
    let fixes = rows(opened("uniform", &slow).as_mut(), 2_000);
    let (first, second) = fixes.split_at(1_000);
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for (from, to) in first.iter().zip(second) {
        let speed_mps = from.speed_mps.expect("uniform reports speeds");
        (least, most) = (least.min(speed_mps), most.max(speed_mps));
        let moved_m = ((to.x - from.x).powi(2) + (to.y - from.y).powi(2)).sqrt();
        assert!(moved_m <= speed_mps + 1e-6, "{moved_m} m in a second at {speed_mps} m/s");
    }
    assert!((1.0..1.5).contains(&least) && (19.5..=20.0).contains(&most), "{least} to {most}");
}

#[test]
fn an_empty_shard_ends_at_once() {
    for name in GENERATORS {
        let params = Params { objects: 2, shard: 3, shards: 4, ..params() };
        assert_eq!(opened(name, &params).fill(10, &mut Vec::new()), 0, "{name}");
    }
}

#[test]
fn a_bad_name_or_parameter_is_named_in_the_refusal() {
    let refusal = |name: &str, params: &Params| open(name, params).err().unwrap().to_string();
    assert!(refusal("gaus", &params()).starts_with("no workload is called `gaus`; there are uni"));
    let none = Params { objects: 0, ..params() };
    assert_eq!(refusal("uniform", &none), "parameter objects is 0; it must be 1 to 1000000000");
    let wide = Params { window: f64::NAN, ..params() };
    assert!(refusal("uniform", &wide).starts_with("parameter window is NaN"));
    let shard = Params { shard: 2, shards: 2, ..params() };
    assert_eq!(refusal("uniform", &shard), "parameter shard is 2; it must be 0 to 1");
}
