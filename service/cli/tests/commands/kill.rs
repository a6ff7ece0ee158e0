//! Hazard: a server that is killed at a random moment loses an acknowledged report, or applies one
//! twice after the sender's retry.
//!
//! `SHOAL_TEST_KILLS` sets the number of kills; 1,000 is a manual run.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::shoal::{Served, shoal};
use shoal_proto::v1;
use shoal_proto::v1::position_service_client::PositionServiceClient;
use shoal_proto::v1::query_service_client::QueryServiceClient;
use shoal_testkit::server::PATIENCE;
use tonic::transport::{Channel, Endpoint};

/// 2020-01-01T00:00:00Z.
const START_MS: i64 = 1_577_836_800_000;
const SENDERS: u64 = 3;
/// Objects of a sender; each message has a row of every fourth one.
const OBJECTS: u64 = 40;
const ROWS: u64 = 10;

/// Numbers of the last acknowledged message of each object.
type Acknowledged = Arc<Mutex<BTreeMap<u64, u64>>>;

/// The objects of a message.
fn objects(sender: u64, number: u64) -> impl Iterator<Item = u64> {
    (0..ROWS).map(move |row| sender * OBJECTS + (4 * row + number) % OBJECTS)
}

fn message(sender: u64, number: u64) -> v1::ReportOnceRequest {
    let fix = |object| v1::Fix {
        object,
        time_ms: START_MS + number as i64,
        x: (number % 90) as f64,
        y: 1.0,
        ..v1::Fix::default()
    };
    let fixes = objects(sender, number).map(fix).collect();
    v1::ReportOnceRequest {
        producer: format!("sender{sender}"),
        batch_seq: number,
        payload: Some(v1::report_once_request::Payload::Rows(v1::Rows { fixes })),
        durability: v1::Durability::Logged.into(),
        ..v1::ReportOnceRequest::default()
    }
}

async fn connect(address: &str) -> Option<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let endpoint = endpoint.connect_timeout(Duration::from_secs(2)).timeout(PATIENCE);
    endpoint.connect().await.ok()
}

/// Sends messages until told to stop, each until it is acknowledged; returns the last number.
async fn send(
    sender: u64,
    address: String,
    acknowledged: Acknowledged,
    stop: Arc<AtomicBool>,
) -> u64 {
    let mut number = 0;
    let mut client = None;
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        loop {
            if client.is_none() {
                client = connect(&address).await.map(PositionServiceClient::new);
            }
            let Some(positions) = &mut client else {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            };
            match positions.report_once(message(sender, number)).await {
                Ok(response) => {
                    let ack = response.into_inner().ack.unwrap();
                    assert_eq!(ack.durability(), v1::Durability::Logged);
                    // Its rows are new: applied twice, they would be late or duplicates.
                    let applied = ack.rows.unwrap_or_default().applied;
                    let is_once = ack.duplicate_messages == 1 || applied == ROWS;
                    assert!(is_once, "sender {sender}, number {number}: {ack:?}");
                    break;
                }
                Err(status) => {
                    // The connection broke, or the server is recovering.
                    let broken =
                        [tonic::Code::Unavailable, tonic::Code::Unknown, tonic::Code::Cancelled];
                    assert!(broken.contains(&status.code()), "{status:?}");
                    assert!(!status.message().contains("Timeout"), "no answer: {status:?}");
                    client = None;
                }
            }
        }
        let mut acknowledged = acknowledged.lock().unwrap();
        for object in objects(sender, number) {
            acknowledged.insert(object, number);
        }
    }
    number
}

/// The times of all objects.
async fn times(address: &str) -> BTreeMap<u64, i64> {
    let options =
        v1::QueryOptions { projection: v1::Projection::Fixes.into(), ..Default::default() };
    let request = v1::GetRequest {
        options: Some(options),
        objects: (0..SENDERS * OBJECTS).collect(),
        ..Default::default()
    };
    loop {
        let Some(channel) = connect(address).await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let Ok(answer) = QueryServiceClient::new(channel).get(request.clone()).await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let (mut stream, mut times) = (answer.into_inner(), BTreeMap::new());
        while let Some(chunk) = stream.message().await.unwrap() {
            times.extend(chunk.objects.iter().copied().zip(chunk.fixes.iter().map(|f| f.time_ms)));
        }
        return times;
    }
}

/// Waits until a server has ended, or is silent for a minute.
async fn ended(served: &mut Served) {
    for _ in 0..600 {
        if served.has_ended() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_nothing_acknowledged_and_repeat_nothing() {
    let kills = std::env::var("SHOAL_TEST_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let mut folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("stderr");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (address, data) = (format!("127.0.0.1:{port}"), folder.path().join("data"));
    let serve = || {
        let mut command = shoal();
        command.args(["serve", "--engine", "cpu", "--clock", "event", "--listen", &address]);
        command.args(["--limit", "log_segment_bytes=262144,checkpoint_log_bytes=100000"]);
        command.arg("--data").arg(&data).stderr(File::create(&log).unwrap());
        Served::spawn(&mut command)
    };
    let mut served = serve();
    let (acknowledged, stop) = (Acknowledged::default(), Arc::new(AtomicBool::new(false)));
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let (acknowledged, stop) = (acknowledged.clone(), stop.clone());
            tokio::spawn(send(sender, address.clone(), acknowledged, stop))
        })
        .collect();
    let mut delay_ms = 17;
    for kill in 0..kills {
        delay_ms = (delay_ms * 31 + 7) % 211;
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        // Dropping it sends SIGKILL and waits for the end.
        drop(served);
        let before = acknowledged.lock().unwrap().clone();
        served = serve();
        let answered = tokio::select! {
            after = times(&address) => Some(after),
            () = ended(&mut served) => None,
        };
        let Some(after) = answered else {
            folder.disable_cleanup(true);
            let said = std::fs::read_to_string(&log).unwrap();
            panic!("kill {kill}: the server does not serve its folder {data:?}: {said}");
        };
        for (object, number) in before {
            let time_ms = after.get(&object).copied().unwrap_or(0);
            assert!(
                time_ms >= START_MS + number as i64,
                "kill {kill}: object {object} lost its report {number}, it has {time_ms}"
            );
        }
    }
    stop.store(true, Ordering::SeqCst);
    for sender in senders {
        assert!(sender.await.unwrap() > 0);
    }
    let last = times(&address).await;
    for (object, number) in acknowledged.lock().unwrap().iter() {
        assert_eq!(last[object], START_MS + *number as i64, "object {object}");
    }
}
