//! Times of repetitions of the same work.

use crate::error::BenchmarkError;

/// The median; for an even number, the slower of the middle two.
///
/// # Panics
/// If there are no times.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Runs `runs` times after one warm-up; returns the median time.
///
/// # Errors
/// The first error of a run.
pub(crate) fn median_of(
    runs: u32,
    mut run: impl FnMut() -> Result<f64, BenchmarkError>,
) -> Result<f64, BenchmarkError> {
    run()?;
    (0..runs).map(|_| run()).collect::<Result<_, _>>().map(median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_slower_one() {
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]).to_bits(), 3_f64.to_bits());
        assert_eq!(median(vec![2.0]).to_bits(), 2_f64.to_bits());
    }

    #[test]
    fn the_first_run_is_not_counted() {
        let mut times = [9.0, 1.0, 2.0, 3.0].into_iter();
        let median = median_of(3, || Ok(times.next().unwrap_or_default())).unwrap_or_default();
        assert_eq!(median.to_bits(), 2_f64.to_bits());
    }
}
