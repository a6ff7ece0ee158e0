//! Performs one attack in a process of its own and prints a report.
//!
//! The counterpart is [`Attacker`](crate::hostile::attacker::Attacker).

use std::future::Future;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::{Duration, Instant, timeout};

use super::target::Target;
use super::{connections, http, messages, overload, queries, reports, sessions, strangers, unread};
use crate::error::LoadError;
use crate::hostile::args::{Attack, AttackArgs};
use crate::hostile::attacker::{AttackReport, READY};
use crate::hostile::process_stats::cpu_s;

/// An attack that is ready to start.
type Prepared = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Prepares an attack, prints `ready`, waits for a line on standard input, attacks, and prints an
/// [`AttackReport`]. If standard input ends without a line, it does not attack.
///
/// # Errors
/// [`LoadError::Task`] if standard input or output fail.
pub async fn attack(args: AttackArgs) -> Result<(), LoadError> {
    args.check()?;
    let target = Arc::new(Target::new(args.target.clone(), args.fleet.clone()));
    let prepared = prepare(&args, &target)?;
    print_line(READY)?;
    let read = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
    let read = read.await.map_err(|error| LoadError::Task(error.to_string()))?;
    if read.map_err(|error| LoadError::Task(error.to_string()))? == 0 {
        return Ok(());
    }
    let (started, cpu_before_s) = (Instant::now(), cpu_s());
    // Attacks do not end by themselves.
    let _ = timeout(Duration::from_secs_f64(args.seconds), prepared).await;
    let seconds = started.elapsed().as_secs_f64();
    let cpu_per_s = cpu_before_s.zip(cpu_s()).map(|(before, after)| (after - before) / seconds);
    let report = AttackReport { cpu_per_s, ..target.report() };
    let line = serde_json::to_string(&report);
    print_line(&line.map_err(|error| LoadError::Task(error.to_string()))?)
}

fn prepare(args: &AttackArgs, target: &Arc<Target>) -> Result<Prepared, LoadError> {
    let (fleet, target) = (args.fleet.as_str(), Arc::clone(target));
    Ok(match args.attack {
        Attack::Rectangles => Box::pin(queries::back_to_back(target, messages::rectangles(fleet))),
        Attack::Circles => Box::pin(queries::back_to_back(target, messages::circles(fleet))),
        Attack::Stars => Box::pin(queries::back_to_back(target, messages::stars(fleet, 120))),
        Attack::Nearest => Box::pin(queries::back_to_back(target, messages::nearest(fleet))),
        Attack::Deadlines => Box::pin(queries::deadlines(target, messages::stars(fleet, 16))),
        Attack::MixedQueries => {
            Box::pin(queries::back_to_back(target, messages::mixed_queries(fleet)))
        }
        Attack::CountRectangles => {
            let message = messages::count_rectangles(fleet);
            Box::pin(queries::calls(target, vec![(queries::COUNT_REGIONS_PATH, message)], None))
        }
        Attack::CountTriangles => {
            let message = messages::count_triangles(fleet);
            let calls = vec![(queries::COUNT_REGIONS_PATH, message)];
            Box::pin(queries::calls(target, calls, Some(queries::COUNT_DEADLINE)))
        }
        Attack::ConstantBlocks => {
            let message = messages::constant_block(fleet, now_ms());
            Box::pin(reports::back_to_back(target, message))
        }
        Attack::ChosenIds => {
            Box::pin(reports::back_to_back(target, messages::chosen_ids(fleet, now_ms())))
        }
        Attack::EmptyFixes => Box::pin(reports::back_to_back(target, messages::empty_fixes(fleet))),
        Attack::EmptyQueries => Box::pin(queries::back_to_back(target, messages::empty_parts())),
        Attack::EmptyRegions => {
            let calls = vec![(queries::SUBSCRIBE_PATH, messages::empty_parts())];
            Box::pin(queries::calls(target, calls, None))
        }
        Attack::EmptyRings => {
            let calls = vec![(queries::COUNT_REGIONS_PATH, messages::empty_rings())];
            Box::pin(queries::calls(target, calls, None))
        }
        Attack::Overload => Box::pin(overload::overload(target, fleet.to_owned(), now_ms())),
        Attack::RowsAhead => {
            Box::pin(reports::back_to_back(target, messages::rows_ahead(fleet, now_ms())))
        }
        Attack::HeldMessages => Box::pin(reports::held_messages(target)),
        Attack::DeclaredMessages => Box::pin(reports::declared_messages(target)),
        Attack::SlowMessages => Box::pin(reports::slow_messages(target)),
        Attack::OpenStreams => Box::pin(reports::open_streams(target)),
        Attack::WaitingReports => Box::pin(reports::waiting_reports(target)),
        Attack::FilledWindows => Box::pin(reports::filled_windows(target)),
        Attack::HeaderOnly => Box::pin(reports::header_only(target)),
        Attack::UnreadAnswers => Box::pin(unread::unread_answers(target)),
        Attack::ZeroWindows => Box::pin(unread::zero_windows(target)),
        Attack::WideRegions => {
            let regions = messages::world_regions(args.regions);
            Box::pin(sessions::wide_regions(target, fleet.to_owned(), regions))
        }
        Attack::Connections => {
            let address = target.authority().to_owned();
            Box::pin(connections::open_and_close(target, address))
        }
        Attack::OpenConnections => Box::pin(connections::keep_open(target)),
        Attack::Monitoring => match args.monitoring {
            Some(address) => Box::pin(connections::monitoring(target, address)),
            None => return Err(LoadError::Usage("the attack needs --monitoring".to_owned())),
        },
        Attack::HttpHeaders => Box::pin(http::slow_headers(target, http_address(args)?)),
        Attack::HttpBodies => Box::pin(http::slow_bodies(target, http_address(args)?)),
        Attack::HttpGiantHeaders => Box::pin(http::giant_headers(target, http_address(args)?)),
        Attack::HttpConnections => {
            let address = http_address(args)?.to_string();
            Box::pin(connections::open_and_close(target, address))
        }
        Attack::HttpUnread => Box::pin(http::unread(target, http_address(args)?)),
        Attack::Handshakes => Box::pin(strangers::handshakes(target)),
        Attack::HalfHandshakes => Box::pin(strangers::half_handshakes(target)),
        Attack::WrongTokens => Box::pin(strangers::wrong_tokens(target)),
        Attack::ForgedTokens => Box::pin(strangers::forged_tokens(target)),
        Attack::Past => {
            let (passed, density) = messages::past_of_the_world(fleet, now_ms());
            let calls = vec![(queries::PASSED_PATH, passed), (queries::DENSITY_PATH, density)];
            Box::pin(queries::calls(target, calls, None))
        }
    })
}

fn http_address(args: &AttackArgs) -> Result<SocketAddr, LoadError> {
    args.http.ok_or_else(|| LoadError::Usage("the attack needs --http".to_owned()))
}

/// The time of this machine; assumes that the server's clock is close to it.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}

/// Prints a line for the process that waits for it.
fn print_line(line: &str) -> Result<(), LoadError> {
    let mut output = std::io::stdout().lock();
    let printed = writeln!(output, "{line}").and_then(|()| output.flush());
    printed.map_err(|error| LoadError::Task(error.to_string()))
}
