//! Numbers and names of a named fleet are the same after a restart, after a crash, from a
//! checkpoint and on a follower.

use std::collections::BTreeMap;

use shoal_position_log::SimulatedDisk;
use shoal_proto::v1;
use shoal_service::ServerOptions;
use shoal_service::server::Environment;
use shoal_testkit::Random;

use crate::follower::{ANY, caught_up, following, leading, promote};
use crate::gated_engine::{Gate, Shortage};
use crate::names::{everything, named, named_options};
use crate::restart::{crashed, on, small};
use crate::running::{ReportsOnce as _, Running, START_MS, collect, report, rows, until, whole};

/// A server whose fleet `default` is named, with a checkpoint after each `checkpoint_log_bytes`
/// of the log.
async fn start(disk: &SimulatedDisk, checkpoint_log_bytes: u64) -> Running {
    let limits =
        shoal_service::ServerLimits { log_reserve_bytes: 0, ..small(checkpoint_log_bytes) };
    Running::start_in(on(disk), ServerOptions { limits, ..named_options() }).await
}

/// What is known of a fleet: x and number of each name that was reported.
#[derive(Default)]
struct Known {
    x: BTreeMap<String, f64>,
    numbers: BTreeMap<String, u64>,
}

impl Known {
    /// Reports and removes objects by name in some rounds.
    async fn drive(&mut self, server: &Running, random: &mut Random, rounds: std::ops::Range<i64>) {
        let (mut positions, mut queries) = (server.positions().await, server.queries().await);
        for round in rounds {
            let name =
                |random: &mut Random| format!("truck-{}", random.below(round as u64 * 40 + 40));
            let fixes: Vec<_> = (0..1 + random.below(60))
                .map(|row| {
                    let time_ms = START_MS + round * 1_000 + i64::from(row);
                    named(&name(random), time_ms, random.real(-90.0, 90.0).round(), 1.0)
                })
                .collect();
            let names: Vec<_> = fixes.iter().map(|fix| fix.name.clone()).collect();
            self.x.extend(fixes.iter().map(|fix| (fix.name.clone(), fix.x)));
            let acks = report(&mut positions, vec![rows(fixes)]).await;
            assert_eq!(acks[0].durability(), v1::Durability::Logged);
            let removed = name(random);
            self.x.remove(&removed);
            let request = v1::RemoveRequest { names: vec![removed], ..Default::default() };
            positions.remove(request).await.unwrap();
            let request = v1::ResolveRequest { fleet: String::new(), names: names.clone() };
            let numbers = queries.resolve(request).await.unwrap().into_inner().objects;
            for (name, number) in names.into_iter().zip(numbers) {
                let former = self.numbers.insert(name, number);
                assert!(number > 0 && former.is_none_or(|former| former == number));
            }
        }
    }

    /// Confirms that a server knows the same.
    async fn is_known_to(&self, server: &Running) {
        assert_eq!(everything(server, Vec::new()).await, self.x);
        let (names, numbers): (Vec<_>, Vec<_>) = self.numbers.clone().into_iter().unzip();
        let request = v1::ResolveRequest { fleet: String::new(), names: names.clone() };
        let mut queries = server.queries().await;
        let resolved = queries.resolve(request).await.unwrap().into_inner().objects;
        assert_eq!(resolved, numbers);
        let request = v1::NamesRequest { fleet: String::new(), objects: numbers };
        assert_eq!(queries.names(request).await.unwrap().into_inner().names, names);
        assert_eq!(server.fleet("").await.name_count, self.numbers.len() as u64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_and_crashes_keep_every_acknowledged_name_and_its_number() {
    for (seed, checkpoint_log_bytes) in [(1, 1 << 30), (2, 20_000), (3, 5_000)] {
        println!("seed {seed}");
        let (mut random, mut known) = (Random::new(seed), Known::default());
        let mut disk = SimulatedDisk::new(seed);
        for life in 0..4 {
            let server = start(&disk, checkpoint_log_bytes).await;
            known.is_known_to(&server).await;
            known.drive(&server, &mut random, life * 25..life * 25 + 25).await;
            if life % 2 == 0 {
                server.stop().await;
            } else {
                let fork = crashed(&disk, seed);
                server.abandon().await;
                disk = fork;
            }
        }
        let server = start(&disk, checkpoint_log_bytes).await;
        known.is_known_to(&server).await;
        let has_checkpoint = server.fleet("").await.log.unwrap().checkpoint_epoch > 0;
        assert_eq!(has_checkpoint, checkpoint_log_bytes < 1 << 30, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_has_the_names_of_its_leader_and_continues_their_numbers() {
    let (mut random, mut known) = (Random::new(9), Known::default());
    let (disk, copy) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let default_kind = named_options().default_kind;
    let options = ServerOptions { default_kind, ..leading(20_000) };
    let leader = Running::start_at(ANY, on(&disk), options).await;
    known.drive(&leader, &mut random, 0..60).await;
    // The copy begins with a checkpoint, and follows the log after it.
    until(async || leader.fleet("").await.log.unwrap().checkpoint_epoch > 0).await;
    let follower = Running::start_in(on(&copy), following(leader.address)).await;
    caught_up(&leader).await;
    known.is_known_to(&follower).await;
    known.drive(&leader, &mut random, 60..90).await;
    caught_up(&leader).await;
    known.is_known_to(&follower).await;
    assert_eq!(follower.fleet("").await.kind(), v1::FleetKind::Named);
    leader.stop().await;
    promote(&follower, true).await.unwrap();
    known.drive(&follower, &mut random, 90..120).await;
    known.is_known_to(&follower).await;
    follower.stop().await;
    let again = start(&copy, 1 << 30).await;
    known.is_known_to(&again).await;
}

/// A follower waits for the epoch of a token before it looks names up: the rows before the token
/// may have brought them.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_finds_names_that_were_reported_before_the_token() {
    let default_kind = named_options().default_kind;
    let options = ServerOptions { default_kind, ..leading(1 << 30) };
    let leader = Running::start_at(ANY, on(&SimulatedDisk::new(1)), options).await;
    let follower = Running::start_in(on(&SimulatedDisk::new(2)), following(leader.address)).await;
    caught_up(&leader).await;
    let (mut positions, mut queries) = (leader.positions().await, follower.queries().await);
    for round in 0..100 {
        let name = format!("truck-{round}");
        let fixes = vec![named(&name, START_MS, 1.0, 1.0)];
        let min_token = report(&mut positions, vec![rows(fixes)]).await[0].token.clone();
        let options = Some(v1::QueryOptions { min_token, ..Default::default() });
        let names = vec![name];
        if round % 3 == 0 {
            let request = v1::GetRequest { options, names: names.clone(), ..Default::default() };
            let answer = whole(queries.get(request).await.unwrap().into_inner()).await.unwrap();
            assert_eq!(answer.names, names);
        } else if round % 3 == 1 {
            // The name of an object is tested.
            let mut on_leader = leader.queries().await;
            let request = v1::ResolveRequest { names: names.clone(), ..Default::default() };
            let objects = on_leader.resolve(request).await.unwrap().into_inner().objects;
            let pattern = v1::Filter { name_pattern: "truck-*".into(), ..Default::default() };
            let options = options.map(|of| v1::QueryOptions { filter: Some(pattern), ..of });
            let request = v1::GetRequest { options, objects, ..Default::default() };
            let answer = whole(queries.get(request).await.unwrap().into_inner()).await.unwrap();
            assert_eq!(answer.names, names);
        } else {
            let get = v1::GetQuery { names: names.clone(), ..Default::default() };
            let query = v1::BatchQuery { kind: Some(v1::batch_query::Kind::Get(get)) };
            let request = v1::BatchRequest { options, queries: vec![query] };
            let answers = queries.batch(tokio_stream::once(request)).await.unwrap().into_inner();
            let answers = collect(answers).await.unwrap();
            assert_eq!(answers[0].results[0].names, names);
        }
    }
}

/// Reports new names, and returns every number that a client can see, logged or not.
async fn seen(server: &Running, life: u64, part: u64) -> BTreeMap<u64, String> {
    let (mut positions, mut queries) = (server.positions().await, server.queries().await);
    let mut seen = BTreeMap::new();
    for round in 0..20 {
        let names: Vec<String> = (0..5).map(|it| format!("{life}-{part}-{round}-{it}")).collect();
        let fixes = names.iter().map(|name| named(name, START_MS, 1.0, 1.0)).collect();
        let durability = v1::Durability::Applied.into();
        report(&mut positions, vec![v1::ReportRequest { durability, ..rows(fixes) }]).await;
        let request = v1::ResolveRequest { fleet: String::new(), names: names.clone() };
        let numbers = queries.resolve(request).await.unwrap().into_inner().objects;
        assert!(numbers.iter().all(|number| *number > 0), "{numbers:?} of {names:?}");
        seen.extend(numbers.into_iter().zip(names));
    }
    seen
}

/// Adds the numbers of a life, which were not given before.
fn add(all: &mut BTreeMap<u64, String>, seen: BTreeMap<u64, String>) {
    for (number, name) in seen {
        let former = all.insert(number, name.clone());
        assert!(former.is_none(), "{number} is {name}, and was {former:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_a_crash_loses_is_not_given_again() {
    for (seed, checkpoint_log_bytes) in [(1, 1 << 30), (2, 3_000)] {
        let (mut all, mut lost) = (BTreeMap::new(), 0);
        let mut disk = SimulatedDisk::new(seed);
        for life in 0..12 {
            let server = start(&disk, checkpoint_log_bytes).await;
            let known = server.fleet("").await.name_count;
            lost += all.len() as u64 - known - lost;
            if life % 4 < 2 {
                add(&mut all, seen(&server, life, 1).await);
            }
            // The crash is before the names of the second part. A life without names begins a term
            // too.
            let fork = crashed(&disk, seed + life);
            if life % 4 != 3 {
                add(&mut all, seen(&server, life, 2).await);
            }
            server.abandon().await;
            disk = fork;
        }
        assert!(lost > 0, "seed {seed}: nothing was lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_follower_does_not_give_the_numbers_of_its_leader_again() {
    let default_kind = named_options().default_kind;
    let options = ServerOptions { default_kind, ..leading(1 << 30) };
    let (disk, copy) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let leader = Running::start_at(ANY, on(&disk), options).await;
    let follower = Running::start_in(on(&copy), following(leader.address)).await;
    caught_up(&leader).await;
    follower.stop().await;
    // The follower does not receive these names, nor those of the term that the leader begins.
    let mut all = seen(&leader, 1, 1).await;
    let (address, fork) = (leader.address, crashed(&disk, 1));
    leader.abandon().await;
    let options = ServerOptions { default_kind, ..leading(1 << 30) };
    let leader = Running::start_at(ANY, on(&fork), options).await;
    let mut positions = leader.positions().await;
    until(async || positions.once(rows(Vec::new())).await.is_ok()).await;
    add(&mut all, seen(&leader, 2, 1).await);
    leader.stop().await;
    let follower = Running::start_in(on(&copy), following(address)).await;
    promote(&follower, true).await.unwrap();
    add(&mut all, seen(&follower, 3, 1).await);
    follower.stop().await;
    // Neither does it after a crash.
    let follower = start(&copy, 1 << 30).await;
    let fork = crashed(&copy, 2);
    follower.abandon().await;
    let again = start(&fork, 1 << 30).await;
    add(&mut all, seen(&again, 4, 1).await);
    assert_eq!(all.len(), 4 * 100);
}

/// Names of a message whose cycle fails are in no record of the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_a_stop_leaves_out_is_not_given_again() {
    let (disk, mut all) = (SimulatedDisk::new(3), BTreeMap::new());
    for life in 0..3 {
        let gate = Gate::default();
        let environment = Environment { engines: gate.environment().engines, ..on(&disk) };
        let server = Running::start_in(environment, named_options()).await;
        add(&mut all, seen(&server, life, 1).await);
        gate.set_shortage(Shortage::Changes);
        let name = format!("short-{life}");
        let message = rows(vec![named(&name, START_MS, 1.0, 1.0)]);
        server.positions().await.once(message).await.unwrap_err();
        let request = v1::ResolveRequest { names: vec![name.clone()], ..Default::default() };
        let mut queries = server.queries().await;
        let number = queries.resolve(request).await.unwrap().into_inner().objects[0];
        assert!(number > 0, "{name} has no number");
        add(&mut all, BTreeMap::from([(number, name)]));
        server.stop().await;
    }
}

/// Once half of `names_max` names are in use, a start forgets those of objects that are gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_forgets_the_names_of_objects_that_are_gone() {
    for (seed, checkpoint_log_bytes) in [(1, 1 << 30), (2, 2_000)] {
        println!("seed {seed}");
        let (mut random, mut all) = (Random::new(seed), BTreeMap::<u64, String>::new());
        let mut current = BTreeMap::<String, u64>::new();
        let (mut disk, mut forgotten) = (SimulatedDisk::new(seed), 0);
        let limits = shoal_service::ServerLimits {
            log_reserve_bytes: 0,
            names_max: 100,
            ..small(checkpoint_log_bytes)
        };
        for life in 0..12_i64 {
            let options = ServerOptions { limits: limits.clone(), ..named_options() };
            let server = Running::start_in(on(&disk), options).await;
            let held = everything(&server, Vec::new()).await;
            let fleet = server.fleet("").await;
            if current.len() >= 50 {
                forgotten += current.len() - held.len();
                current.retain(|name, _| held.contains_key(name));
            }
            assert_eq!(fleet.name_count, current.len() as u64, "life {life}");
            let (mut positions, mut queries) = (server.positions().await, server.queries().await);
            let names: Vec<String> =
                (0..20).map(|_| format!("truck-{}", random.below(60_u64))).collect();
            let time_ms = START_MS + life;
            let fixes = names.iter().map(|name| named(name, time_ms, 1.0, 1.0)).collect();
            let acks = report(&mut positions, vec![rows(fixes)]).await;
            assert_eq!(acks[0].rows.unwrap().refused, 0, "life {life}");
            // Names that were not forgotten have their numbers, the others new ones.
            let request = v1::ResolveRequest { fleet: String::new(), names: names.clone() };
            let numbers = queries.resolve(request).await.unwrap().into_inner().objects;
            for (name, number) in names.into_iter().zip(numbers) {
                if *current.entry(name.clone()).or_insert(number) != number {
                    panic!("life {life}: {name} has number {number}, not {}", current[&name]);
                }
                let former = all.insert(number, name.clone());
                assert!(former.is_none_or(|former| former == name), "{number} is used again");
            }
            let gone: Vec<String> = current.keys().filter(|_| random.once_in(2)).cloned().collect();
            let request = v1::RemoveRequest { names: gone, ..Default::default() };
            positions.remove(request).await.unwrap();
            if life % 3 == 0 {
                let fork = crashed(&disk, seed + life as u64);
                server.abandon().await;
                disk = fork;
            } else {
                server.stop().await;
            }
        }
        assert!(forgotten > 20 && all.len() > 60, "{forgotten} forgotten, {} given", all.len());
    }
}
