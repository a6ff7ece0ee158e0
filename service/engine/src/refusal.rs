//! The table of refusal reasons: number, name and meaning of each, and the poison values that mark
//! a refused value of a row.
//!
//! `layout.rs` includes this file by path and renders both for the kernels; it has no dependencies.
//! A new reason is one line here and one in `RefusalReason` of the protocol.

macro_rules! refusals {
    ($($(#[$doc:meta])* $variant:ident = $number:literal $name:literal $field:expr,)+) => {
        /// Why a row was refused. The discriminant is the number on the wire and on a device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Refusal { $($(#[$doc])* $variant = $number,)+ }

        impl Refusal {
            /// Number of reasons plus one: discriminants index arrays of this length.
            pub const COUNT: usize = [$($number),+].len() + 1;
            /// All reasons, in the order of their numbers.
            pub const ALL: [Self; Self::COUNT - 1] = [$(Self::$variant),+];
            /// Their names, see [`Refusal::name`].
            pub const NAMES: [&str; Self::COUNT - 1] = [$($name),+];

            /// Name in metrics, that of `RefusalReason` without its prefix. The kernels have it in
            /// upper case behind `REFUSED_`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The field of the protocol's `Fix` at fault; `None` for the position, whose
            /// coordinates are validated as a pair.
            #[must_use]
            pub const fn field(self) -> Option<&'static str> {
                match self { $(Self::$variant => $field,)+ }
            }
        }
    };
}

refusals! {
    /// The id is `u64::MAX`.
    Object = 1 "object" Some("object"),
    /// A coordinate was NaN or infinite: `x` is [`Refusal::POISON_NOT_FINITE`].
    NotFinite = 2 "not_finite" None,
    /// Outside the space; `x` is [`Refusal::POISON_OUTSIDE`] where the position does not fit
    /// quanta.
    OutsideSpace = 3 "outside_space" None,
    /// Before 2000-01-01.
    TimeTooEarly = 4 "time_too_early" Some("time_ms"),
    /// Further beyond the server's clock than allowed.
    TimeTooLate = 5 "time_too_late" Some("time_ms"),
    /// Negative, not finite or too large: speed is [`Refusal::POISON_SPEED`].
    Speed = 6 "speed" Some("speed_mps"),
    /// Outside [0, 360): stored heading of 36,000 or more that is not unknown.
    Heading = 7 "heading" Some("heading_deg"),
    /// Not finite or too large: altitude is [`Refusal::POISON_ALTITUDE`].
    Altitude = 8 "altitude" Some("altitude_m"),
    /// Its object did not exist at the row's arrival, and the fleet was at its object limit.
    ObjectLimit = 9 "object_limit" Some("object"),
}

constants! { REFUSAL_CONSTANTS:
    /// See [`Refusal::POISON_NOT_FINITE`].
    POISON_NOT_FINITE: i32 = i32::MIN;
    /// See [`Refusal::POISON_OUTSIDE`].
    POISON_OUTSIDE: i32 = i32::MIN + 1;
}

impl Refusal {
    /// The `x` of a row whose coordinates were not finite.
    pub const POISON_NOT_FINITE: i32 = POISON_NOT_FINITE;
    /// The `x` of a row whose coordinates do not fit quanta.
    pub const POISON_OUTSIDE: i32 = POISON_OUTSIDE;
    /// The speed of a row whose speed could not be stored.
    pub const POISON_SPEED: u32 = u32::MAX - 1;
    /// The heading of a row whose heading could not be stored.
    pub const POISON_HEADING: u16 = u16::MAX - 1;
    /// The altitude of a row whose altitude could not be stored.
    pub const POISON_ALTITUDE: i32 = i32::MIN + 1;

    /// The position of a row whose coordinates are refused when they are converted to quanta.
    #[must_use]
    pub const fn poison(self) -> (i32, i32) {
        match self {
            Self::NotFinite => (Self::POISON_NOT_FINITE, 0),
            _ => (Self::POISON_OUTSIDE, 0),
        }
    }
}
