//! Runs against a named fleet: answers, events and the past in names equal those of the oracle, and
//! a wrong name or number is detected.

use std::sync::Arc;

use shoal_client::{Client, ConnectOptions};
use shoal_loadgen::Summary;
use shoal_loadgen::names::{Names, name_of};
use shoal_loadgen::subscription::Follower;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_proto::v1::{
    EventBatch, EventKind, RegionEvents, RegionMembers, SnapshotChunk, SubscribeResponse,
};

use crate::in_process::{InProcess, assert_verified, verified_run};
use crate::past::with_history;
use crate::replica;

const FAULTS: &str = "--late 0.03 --duplicate 0.03 --bad 0.03 --remove 0.02 --rename 0.5 \
                      --absence-ms 1500 --step-ms 200";

fn assert_renamed(summary: &Summary) {
    let renamed = summary.renamed_objects;
    assert!(renamed > 0 && renamed < summary.removed_objects, "{renamed} renamed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_in_names_equal_those_of_the_oracle() {
    let mix = "range:2,circle:1,polygon:1,nearest:2,get:4";
    for flags in [
        "--encoding rows",
        "--encoding block --ttl-ms 4000",
        "--encoding block --block-plan planned --workload network --ask single",
    ] {
        let flags = format!(
            "--named --objects 500 --seconds 0.8 --window 0.2 --rate 40000 --query-mix {mix} \
             {FAULTS} {flags}"
        );
        assert_renamed(&verified_run(&flags, 200).await);
    }
    let flags = "--named --prepared --encoding block --objects 800 --seconds 0.5 --window 0.2 \
                 --query-mix get:1,range:1";
    verified_run(flags, 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_and_members_have_the_names_of_their_objects() {
    let flags = format!(
        "--named --objects 400 --seconds 1 --rate 20000 --subscriptions 60 --session-regions 20 \
         --radius 9000 --churn 0.2 --kill-subscribers 4 --delivered-events with-move {FAULTS}"
    );
    let summary = verified_run(&flags, 100).await;
    assert_renamed(&summary);
    assert!(summary.followed.events > 1_000, "{:?}", summary.followed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_past_in_names_equals_that_of_the_oracle() {
    let folder = tempfile::tempdir().unwrap();
    let server = with_history(&folder).await;
    for encoding in ["rows", "block"] {
        let flags = format!(
            "--named --verify --history-queries 200 --objects 300 --seconds 1.5 --rate 20000 \
             --window 0.2 --encoding {encoding} {FAULTS}"
        );
        let summary = server.run(&flags).await;
        assert!(summary.is_good(), "{:?}", summary.problems);
        let (asked, verified) = (summary.past.past_queries, summary.past.verified_past_queries);
        assert!(asked >= 1_000 && verified > asked / 2, "{verified} of {asked} verified");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_answers_in_the_names_of_its_leader() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let leader = replica::start(first.path(), None).await;
    let follower = replica::start(second.path(), Some(leader.address.to_string())).await;
    for encoding in ["rows", "block"] {
        let flags = format!(
            "--named --verify --follower {} --objects 500 --seconds 0.8 --window 0.2 --rate 40000 \
             --queries 300 --query-mix range:1,nearest:1,get:4 --encoding {encoding} {FAULTS}",
            follower.address
        );
        let summary = leader.run(&flags).await;
        assert_verified(&summary, 300);
        assert_renamed(&summary);
    }
    follower.end().await;
    leader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kind_of_a_kept_fleet_must_fit() {
    let server = InProcess::start().await;
    let run = "--objects 50 --seconds 0.1 --rate 1000";
    server.run(&format!("--named --fleet named {run}")).await;
    server.run(&format!("--fleet numeric {run}")).await;
    for (flags, words) in
        [("--fleet named", "needs --named"), ("--named --fleet numeric", "is numeric")]
    {
        let error = server.try_run(&format!("{flags} {run}")).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    // A later run continues with the names of the fleet.
    let client = Client::connect(&server.url(), ConnectOptions::default()).await.unwrap();
    let names: Vec<String> = (0..50).map(name_of).collect();
    let numbers = client.resolve("named", &names).await.unwrap();
    server.run(&format!("--named --fleet named {run}")).await;
    assert_eq!(client.resolve("named", &names).await.unwrap(), numbers);
    server.end().await;
}

/// The faults of a stream of one snapshot and one batch of events.
fn faults(members: &[(u64, &str)], events: &[(u64, &str)]) -> u64 {
    let columns = |pairs: &[(u64, &str)]| -> (Vec<u64>, Vec<String>) {
        pairs.iter().map(|(object, name)| (*object, (*name).to_owned())).unzip()
    };
    let message = |sequence: u64, kind: Kind| SubscribeResponse {
        first_sequence: sequence,
        last_sequence: sequence,
        epoch_done: true,
        kind: Some(kind),
        ..Default::default()
    };
    let mut follower = Follower::new(Some(Arc::<Names>::default()));
    follower.add(1);
    let (objects, names) = columns(members);
    let total = objects.len() as u64;
    let region_id = 1;
    let piece = RegionMembers {
        region_id,
        total,
        first: true,
        last: true,
        objects,
        names,
        ..Default::default()
    };
    let chunk = SnapshotChunk { epoch: 1, clock_ms: 1, regions: vec![piece] };
    follower.take(message(1, Kind::Snapshot(chunk)));
    let (objects, names) = columns(events);
    let kinds = vec![EventKind::Move.into(); objects.len()];
    let regions = vec![RegionEvents { region_id, objects, kinds, names, ..Default::default() }];
    follower.take(message(2, Kind::Events(EventBatch { epoch: 2, regions, ..Default::default() })));
    follower.counts.lost
}

#[test]
fn a_wrong_name_of_an_event_is_counted() {
    let members = [(1, "car-10"), (2, "car-11")];
    assert_eq!(faults(&members, &members), 0);
    for events in [
        &[(1, "car-11"), (2, "car-10")][..],
        &[(1, "car-10"), (2, "car-12")],
        &[(1, "")],
        &[(2, "truck")],
    ] {
        assert!(faults(&members, events) > 0, "{events:?}");
    }
}
