//! Quantiles of the standard normal distribution, for the ring radii and distances of `gauss`.
//!
//! Wichura's algorithm AS 241 (Applied Statistics 37, 1988), routine PPND16, relative accuracy
//! about 1e-16.

/// The half-normal variable |N(0, 1)| of a uniform number in `[0, 1)`.
pub(crate) fn half_normal(uniform: f64) -> f64 {
    quantile_above_median(uniform * 0.5)
}

/// The quantile of 0.5 + `excess`, for `excess` in `[0, 0.5)`.
pub(crate) fn quantile_above_median(excess: f64) -> f64 {
    if excess <= 0.425 {
        let rest = 0.180_625 - excess * excess;
        return excess * ratio(rest, &CENTRE);
    }
    let tail = (-libm::log(0.5 - excess)).sqrt();
    if tail <= 5.0 { ratio(tail - 1.6, &MIDDLE) } else { ratio(tail - 5.0, &FAR) }
}

/// Numerator and denominator, highest power first.
type Ratio = ([f64; 8], [f64; 8]);

fn ratio(x: f64, (numerator, denominator): &Ratio) -> f64 {
    let polynomial = |terms: &[f64; 8]| terms.iter().fold(0.0, |sum, term| sum * x + term);
    polynomial(numerator) / polynomial(denominator)
}

const CENTRE: Ratio = (
    [
        2_509.080_928_730_122_7,
        33_430.575_583_588_13,
        67_265.770_927_008_7,
        45_921.953_931_549_87,
        13_731.693_765_509_46,
        1_971.590_950_306_551_3,
        133.141_667_891_784_38,
        3.387_132_872_796_366_5,
    ],
    [
        5_226.495_278_852_854,
        28_729.085_735_721_943,
        39_307.895_800_092_71,
        21_213.794_301_586_597,
        5_394.196_021_424_751,
        687.187_007_492_057_9,
        42.313_330_701_600_91,
        1.0,
    ],
);

const MIDDLE: Ratio = (
    [
        7.745_450_142_783_414e-4,
        0.022_723_844_989_269_184,
        0.241_780_725_177_450_6,
        1.270_458_252_452_368_4,
        3.647_848_324_763_204_5,
        5.769_497_221_460_691,
        4.630_337_846_156_545,
        1.423_437_110_749_683_5,
    ],
    [
        1.050_750_071_644_416_9e-9,
        5.475_938_084_995_345e-4,
        0.015_198_666_563_616_457,
        0.148_103_976_427_480_08,
        0.689_767_334_985_1,
        1.676_384_830_183_803_8,
        2.053_191_626_637_759,
        1.0,
    ],
);

const FAR: Ratio = (
    [
        2.010_334_399_292_288_1e-7,
        2.711_555_568_743_487_6e-5,
        0.001_242_660_947_388_078_4,
        0.026_532_189_526_576_124,
        0.296_560_571_828_504_87,
        1.784_826_539_917_291_3,
        5.463_784_911_164_114,
        6.657_904_643_501_103,
    ],
    [
        2.044_263_103_389_939_8e-15,
        1.421_511_758_316_446e-7,
        1.846_318_317_510_054_8e-5,
        7.868_691_311_456_133e-4,
        0.014_875_361_290_850_615,
        0.136_929_880_922_735_8,
        0.599_832_206_555_888,
        1.0,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_published_values() {
        for (probability, expected) in [
            (0.5, 0.0),
            (0.75, 0.674_489_750_196_081_7),
            (0.9, 1.281_551_565_544_600_4),
            (0.975, 1.959_963_984_540_054),
            (0.999, 3.090_232_306_167_813_5),
            (0.999_999, 4.753_424_308_822_899),
        ] {
            let quantile = quantile_above_median(probability - 0.5);
            assert!((quantile - expected).abs() < 1e-9, "{probability}: {quantile}");
        }
    }

    #[test]
    fn the_pieces_meet() {
        let tail = |excess: f64| (-libm::log(0.5 - excess)).sqrt();
        let centre = 0.425 * ratio(0.0, &CENTRE);
        assert!((centre - ratio(tail(0.425) - 1.6, &MIDDLE)).abs() < 1e-14);
        assert!((ratio(3.4, &MIDDLE) - ratio(0.0, &FAR)).abs() < 1e-13);
    }

    #[test]
    fn half_normal_is_finite_on_its_whole_range_and_ascends() {
        let mut last = -1.0;
        for step in 0..1_000_000 {
            let value = half_normal(f64::from(step) / 1e6);
            assert!(value > last);
            last = value;
        }
        assert!(half_normal(1.0 - f64::EPSILON / 2.0) < 9.0);
    }
}
