//! The table of event kinds: number, name and meaning of each, and which of them end a membership.
//!
//! `layout.rs` includes this file by path and renders it for the kernels; it has no dependencies.

macro_rules! event_kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident = $number:literal $name:literal $ends:ident,)+) => {
        /// What happened to an object in a region. The discriminant is the number on a device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum EventKind { $($(#[doc = $doc])+ $variant = $number,)+ }

        impl EventKind {
            /// All kinds, in the order of their numbers.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$variant),+];

            /// Name in reports: the name in the protocol's `EventKind` without its prefix. The
            /// kernels use it in upper case with the prefix `EVENT_`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The documentation of the kind, as a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_start(),)+ }
            }
        }

        constants! { EVENT_CONSTANTS:
            /// The kinds that end a membership, as bits.
            EVENTS_ENDING: u32 = $(event_kinds!(@bit $ends $number))|+;
        }
    };
    (@bit ends $number:literal) => { 1 << $number };
    (@bit keeps $number:literal) => { 0 };
}

event_kinds! {
    /// A member at the epoch of a snapshot.
    Present = 0 "present" keeps,
    /// The object became a member.
    Enter = 1 "enter" keeps,
    /// A member before and after, and its record was written.
    Move = 2 "move" keeps,
    /// The object passed through between two fixes.
    Cross = 3 "cross" keeps,
    /// Membership ended: the position is outside.
    Left = 4 "left" ends,
    /// Membership ended: the object was removed.
    Removed = 5 "removed" ends,
    /// Membership ended: the record exceeded the fleet's TTL.
    Expired = 6 "expired" ends,
    /// Membership ended: inside, but the filter no longer passes the record.
    Filtered = 7 "filtered" ends,
    /// Membership ended: the object exists, and the region was changed in this cycle.
    RegionChanged = 8 "region_changed" ends,
    /// Membership ended: all objects were cleared.
    Cleared = 9 "cleared" ends,
}

impl EventKind {
    /// The kind with this number, if there is one.
    #[inline]
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// True for the kinds that end a membership.
    #[inline]
    #[must_use]
    pub const fn ends_membership(self) -> bool {
        EVENTS_ENDING >> self as u8 & 1 == 1
    }
}
