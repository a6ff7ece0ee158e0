//! The coordinate space of a block's quanta.
//!
//! Tags are equal only bit for bit: spaces that differ in the last bit of an origin are different.
//! The engine converts coordinates.

use std::fmt;

use crate::error::BlockError;

/// Kind of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum SpaceKind {
    /// WGS 84, x = longitude, y = latitude, quantum in degrees.
    Geographic = 1,
    /// Plane, quantum in metres.
    Planar = 2,
}

impl SpaceKind {
    /// The kind with this wire code, if there is one.
    pub fn from_code(code: u16) -> Option<Self> {
        match code {
            1 => Some(Self::Geographic),
            2 => Some(Self::Planar),
            _ => None,
        }
    }

    /// Its code on the wire.
    pub const fn code(self) -> u16 {
        self as u16
    }
}

/// The space whose quanta a block holds: coordinate = origin + value * quantum.
#[derive(Clone, Copy, Debug)]
pub struct SpaceTag {
    /// Kind of space.
    pub kind: SpaceKind,
    /// Coordinate of quantum 0 on x, degrees or metres, finite.
    pub origin_x: f64,
    /// Coordinate of quantum 0 on y, degrees or metres, finite.
    pub origin_y: f64,
    /// Size of one quantum, degrees or metres, finite and above 0.
    pub quantum: f64,
}

impl SpaceTag {
    /// Checks for finite origins and a finite quantum above 0.
    ///
    /// # Errors
    /// [`BlockError::Space`] names the field and its value.
    pub fn check(&self) -> Result<(), BlockError> {
        for (field, value) in [("origin_x", self.origin_x), ("origin_y", self.origin_y)] {
            if !value.is_finite() {
                return Err(BlockError::Space { field, value });
            }
        }
        if !(self.quantum.is_finite() && self.quantum > 0.0) {
            return Err(BlockError::Space { field: "quantum", value: self.quantum });
        }
        Ok(())
    }

    /// The bits that decide equality.
    fn bits(&self) -> (u16, u64, u64, u64) {
        let [x, y, quantum] = [self.origin_x, self.origin_y, self.quantum].map(f64::to_bits);
        (self.kind.code(), x, y, quantum)
    }
}

impl PartialEq for SpaceTag {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for SpaceTag {}

impl fmt::Display for SpaceTag {
    /// Different tags have different texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, origin_x, origin_y, quantum } = self;
        let (kind, unit) = match kind {
            SpaceKind::Geographic => ("geographic", "degrees"),
            SpaceKind::Planar => ("planar", "m"),
        };
        write!(f, "{kind}, quantum {quantum:?} {unit}, origin ({origin_x}, {origin_y})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_bit_for_bit() {
        let plane =
            SpaceTag { kind: SpaceKind::Planar, origin_x: 0.0, origin_y: 0.0, quantum: 0.01 };
        assert_eq!(plane, plane);
        assert_ne!(plane, SpaceTag { origin_x: -0.0, ..plane });
        assert_ne!(plane, SpaceTag { kind: SpaceKind::Geographic, ..plane });
        assert_eq!(plane.to_string(), "planar, quantum 0.01 m, origin (0, 0)");
        let world = SpaceTag { kind: SpaceKind::Geographic, quantum: 1e-7, ..plane };
        assert_eq!(world.to_string(), "geographic, quantum 1e-7 degrees, origin (0, 0)");
        plane.check().unwrap();
        for quantum in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(SpaceTag { quantum, ..plane }.check().is_err());
        }
        assert!(SpaceTag { origin_y: f64::NAN, ..plane }.check().is_err());
    }
}
