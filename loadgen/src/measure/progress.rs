//! The progress line, once per second on standard error: redrawn on a terminal, plain lines
//! elsewhere. It ends when its task is dropped.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::counters::Counters;

/// Shows progress until cancelled; `is_verified` adds the oracle's counts.
pub async fn show_progress(counters: Arc<Counters>, is_verified: bool) {
    let bar = ProgressBar::new_spinner();
    bar.set_style(
        ProgressStyle::with_template("{spinner} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    let is_terminal = !bar.is_hidden();
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let (start, mut last) = (Instant::now(), Instant::now());
    let (mut rows, mut queries, mut events) = (0, 0, 0);
    loop {
        ticks.tick().await;
        let (now, seconds) = (Instant::now(), last.elapsed().as_secs_f64());
        let (rows_now, queries_now) =
            (counters.rows.get() + counters.preloaded.get(), counters.queries.get());
        let rate = |count: u64| thousands((count as f64 / seconds).round() as u64);
        let mut line = format!(
            "{:>4.0} s  {:>12} rows/s  {:>11} queries/s  {} rows, {} refused",
            start.elapsed().as_secs_f64(),
            rate(rows_now - rows),
            rate(queries_now - queries),
            thousands(rows_now),
            thousands(counters.refused.get()),
        );
        let events_now = counters.events.get();
        if events_now > 0 {
            line += &format!("  {} events/s", rate(events_now - events));
        }
        if is_verified {
            let (verified, wrong) = (counters.verified.get(), counters.mismatches.get());
            line += &format!("  {} verified, {wrong} wrong", thousands(verified));
        }
        if is_terminal {
            bar.set_message(line);
            bar.tick();
        } else {
            eprintln!("{line}");
        }
        (last, rows, queries, events) = (now, rows_now, queries_now, events_now);
    }
}

/// A number with commas between thousands.
#[must_use]
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_parted() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(number), text);
        }
    }
}
