//! Hazard: a mix does not keep its shares and counts of faults.
//!
//! Good fixes are never altered or lost, and shards do not change the faults of a fix.

use std::collections::HashSet;

use shoal_workload::{Event, Fix, Mix, MixShares, Params, START_MS, Workload, open};

const SEED: u64 = 99;

fn params() -> Params {
    Params { objects: 1_000, seed: SEED, ..Params::default() }
}

fn uniform(params: &Params) -> Box<dyn Workload> {
    open("uniform", params).unwrap()
}

fn mixed(shares: MixShares) -> Mix {
    Mix::new(uniform(&params()), shares, SEED).unwrap()
}

fn near(count: u64, expected: f64) -> bool {
    (count as f64 - expected).abs() < 5.0 * expected.sqrt()
}

fn is_good(fix: &Fix) -> bool {
    let range = 0.0..=100_000.0;
    let times = START_MS..4_102_444_800_000;
    range.contains(&fix.x)
        && range.contains(&fix.y)
        && times.contains(&fix.time_ms)
        && fix.object < 1_000
}

#[test]
fn without_shares_nothing_changes() {
    let mut clean = Vec::new();
    uniform(&params()).fill(10_000, &mut clean);
    let events: Vec<Event> = mixed(MixShares::default()).take(10_000).collect();
    let expected: Vec<Event> = clean.into_iter().map(Event::Fix).collect();
    assert_eq!(events, expected);
}

#[test]
fn late_fixes_arrive_after_their_delay_and_none_is_lost() {
    let shares = MixShares { late: 0.1, late_delay_ms: 2_500, ..MixShares::default() };
    let mut mix = mixed(shares);
    let mut now_ms = START_MS;
    let mut seen = HashSet::new();
    let mut late = 0;
    for event in mix.by_ref().take(100_000) {
        let Event::Fix(fix) = event else { panic!("{event:?}") };
        assert!(seen.insert((fix.object, fix.time_ms)), "twice: {fix:?}");
        if fix.time_ms < now_ms {
            late += 1;
            let delay_ms = now_ms - fix.time_ms;
            assert!((2_490..=2_510).contains(&delay_ms), "{delay_ms} ms, seed {SEED}");
        }
        now_ms = now_ms.max(fix.time_ms);
    }
    assert!(near(late, 10_000.0), "{late}, seed {SEED}");
    // 2.5 s of 1,000 rows a second with a tenth held back.
    assert!(near(mix.counts().late - late, 250.0), "{:?}, seed {SEED}", mix.counts());
}

#[test]
fn duplicates_repeat_the_same_fix() {
    let shares = MixShares { duplicate: 0.05, ..MixShares::default() };
    let mut mix = mixed(shares);
    let mut seen: HashSet<(u64, i64)> = HashSet::new();
    let twice = mix.by_ref().take(100_000).filter(|event| match event {
        Event::Fix(fix) => !seen.insert((fix.object, fix.time_ms)),
        Event::Remove(_) => false,
    });
    let twice = twice.count() as u64;
    assert!(near(twice, 100_000.0 * 0.05 / 1.05), "{twice}, seed {SEED}");
    assert!(mix.counts().duplicates - twice <= 1);
}

#[test]
fn bad_rows_are_invalid_counted_and_additional() {
    let mut mix = mixed(MixShares { bad: 0.02, ..MixShares::default() });
    let mut clean = Vec::new();
    uniform(&params()).fill(100_000, &mut clean);
    let mut good = Vec::new();
    let mut bad = 0;
    while good.len() < clean.len() {
        match mix.next().unwrap() {
            Event::Fix(fix) if is_good(&fix) => good.push(fix),
            Event::Fix(_) => bad += 1,
            Event::Remove(object) => panic!("object {object} is removed"),
        }
    }
    assert_eq!(good, clean);
    assert!(near(bad, 2_000.0), "{bad}, seed {SEED}");
    assert!(mix.counts().bad - bad <= 1);
}

#[test]
fn removed_objects_are_silent_and_report_again() {
    let shares = MixShares { removal: 0.01, absence_ms: 5_500, ..MixShares::default() };
    let mut removed_ms = vec![None; 1_000];
    let mut last_ms = vec![0; 1_000];
    let (mut removals, mut returns) = (0, 0);
    for event in mixed(shares).take(200_000) {
        match event {
            Event::Remove(object) => {
                removals += 1;
                removed_ms[object as usize] = Some(last_ms[object as usize]);
            }
            Event::Fix(fix) => {
                if let Some(removed_ms) = removed_ms[fix.object as usize].take() {
                    returns += 1;
                    assert_eq!(fix.time_ms - removed_ms, 6_000, "{fix:?}, seed {SEED}");
                }
                last_ms[fix.object as usize] = fix.time_ms;
            }
        }
    }
    assert!(near(removals, 2_000.0), "{removals}, seed {SEED}");
    assert!(removals - returns < 100, "{removals} removals, {returns} returns");
}

#[test]
fn shards_do_not_change_events() {
    let shares = MixShares {
        late: 0.1,
        late_delay_ms: 1_000,
        duplicate: 0.1,
        duplicate_delay_ms: 3_000,
        bad: 0.1,
        removal: 0.05,
        absence_ms: 2_000,
    };
    let text = |event: Event| format!("{event:?}");
    let mix = |shard, shards| {
        let params = Params { shard, shards, ..params() };
        Mix::new(uniform(&params), shares, SEED).unwrap()
    };
    let mut whole = Vec::new();
    let mut parts = Vec::new();
    let span_ms = START_MS..START_MS + 20_000;
    let early = |event: &Event| matches!(event, Event::Fix(fix) if span_ms.contains(&fix.time_ms));
    whole.extend(mix(0, 1).take(60_000).filter(early).map(text));
    for shard in 0..4 {
        parts.extend(mix(shard, 4).take(20_000).filter(early).map(text));
    }
    whole.sort_unstable();
    parts.sort_unstable();
    assert_eq!(whole, parts, "seed {SEED}");
}

#[test]
fn a_finite_workload_delivers_all_fixes_and_ends() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/bus_austin.csv.gz");
    let shares = MixShares {
        late: 0.2,
        late_delay_ms: 86_400_000,
        duplicate: 1.0,
        duplicate_delay_ms: 3_600_000,
        ..MixShares::default()
    };
    let replay = open(&format!("replay:{sample}"), &Params::default()).unwrap();
    let mut mix = Mix::new(replay, shares, SEED).unwrap();
    assert_eq!(mix.by_ref().count(), 2 * 33_140);
    assert_eq!(mix.counts().fixes, 2 * 33_140);
    assert_eq!(mix.next(), None);
}

#[test]
fn shares_and_delays_outside_their_range_are_refused() {
    let refusal = |shares| Mix::new(uniform(&params()), shares, SEED).err().unwrap().to_string();
    let shares = MixShares { late: 1.5, ..MixShares::default() };
    assert_eq!(refusal(shares), "parameter late is 1.5; it must be a share, 0 to 1");
    let shares = MixShares { bad: f64::NAN, ..MixShares::default() };
    assert!(refusal(shares).starts_with("parameter bad is NaN"));
    let shares = MixShares { absence_ms: -1, ..MixShares::default() };
    assert_eq!(refusal(shares), "parameter absence_ms is -1; it must be 0 to 86400000");
}
