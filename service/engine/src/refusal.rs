//! The table of refusal reasons: number, name and meaning of each.
//!
//! `layout.rs` includes this file by path and renders it for the kernels; it has no dependencies.
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
            /// The [`Refusal::name`] of each element of `ALL`.
            pub const NAMES: [&str; Self::COUNT - 1] = [$($name),+];

            /// Name in metrics: the name in `RefusalReason` without its prefix. The kernels use it
            /// in upper case with the prefix `REFUSED_`.
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
    /// A coordinate was NaN or infinite; in a block `x` is [`crate::layout::NOT_FINITE_X`].
    NotFinite = 2 "not_finite" None,
    /// Outside the space.
    OutsideSpace = 3 "outside_space" None,
    /// Before 2000-01-01.
    TimeTooEarly = 4 "time_too_early" Some("time_ms"),
    /// Further beyond the server's clock than allowed.
    TimeTooLate = 5 "time_too_late" Some("time_ms"),
    /// Negative, not finite or too large.
    Speed = 6 "speed" Some("speed_mps"),
    /// Outside [0, 360).
    Heading = 7 "heading" Some("heading_deg"),
    /// Not finite, too small or too large.
    Altitude = 8 "altitude" Some("altitude_m"),
    /// Its object did not exist at the row's arrival, and the fleet was at its object limit.
    ObjectLimit = 9 "object_limit" Some("object"),
    /// Its name is absent, too long or has a control character. This and the next are found by a
    /// server, whose engines know numbers only.
    Name = 10 "name" Some("name"),
    /// It has an object id, and its fleet is named.
    NamedFleet = 11 "named_fleet" Some("object"),
    /// It has a name, and its fleet is numeric.
    NumericFleet = 12 "numeric_fleet" Some("name"),
    /// Its name is new, and its fleet is at the limit of names.
    NameLimit = 13 "name_limit" Some("name"),
    /// Negative, not finite or too large.
    Validity = 14 "validity" Some("valid_s"),
}
