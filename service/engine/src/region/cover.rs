//! The rectangles of quanta to search for a region.
//!
//! There are at most two. They are disjoint and inside the space, so nothing is visited twice. A
//! region has two only if it is split, as at the antimeridian, and none outside the space.

use crate::space::QuantaRect;

/// At most two disjoint rectangles whose union holds every point of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cover {
    rects: [QuantaRect; 2],
    len: Length,
}

/// Number of rectangles; an enumeration, whose niche holds the kind of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    None,
    One,
    Two,
}

impl Cover {
    /// The cover of a region without points.
    #[must_use]
    pub fn empty() -> Self {
        let nothing = QuantaRect { x_min: 0, y_min: 0, x_max: 0, y_max: 0 };
        Self { rects: [nothing; 2], len: Length::None }
    }

    /// The rectangles.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[QuantaRect] {
        &self.rects[..self.len as usize]
    }

    /// Whether a point lies in one of them.
    #[inline]
    #[must_use]
    pub fn contains(&self, x: i32, y: i32) -> bool {
        self.as_slice().iter().any(|rect| rect.contains(x, y))
    }

    /// Adds the part of a rectangle that lies in `bounds`; it must be disjoint from the other.
    pub(super) fn add(&mut self, rect: &QuantaRect, bounds: &QuantaRect) {
        let Some(rect) = rect.intersection(bounds) else {
            return;
        };
        debug_assert!(self.as_slice().iter().all(|other| other.intersection(&rect).is_none()));
        self.rects[self.len as usize] = rect;
        self.len = if self.len == Length::None { Length::One } else { Length::Two };
    }

    /// With the part of one rectangle that lies in `bounds`.
    pub(super) fn one(rect: &QuantaRect, bounds: &QuantaRect) -> Self {
        let mut cover = Self::empty();
        cover.add(rect, bounds);
        cover
    }
}
