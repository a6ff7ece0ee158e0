//! An array in segments of a fixed size behind a directory: it grows and shrinks without copying.
//!
//! Element `i` is `directory[i / S].element[i mod S]`.

/// An array of segments.
#[derive(Clone, Debug)]
pub struct Segmented<T> {
    directory: Vec<Vec<T>>,
    length: usize,
}

impl<T> Default for Segmented<T> {
    fn default() -> Self {
        Self { directory: Vec::new(), length: 0 }
    }
}

impl<T: Clone> Segmented<T> {
    /// Elements of a segment: large enough that the directory stays in the cache (500 M keys have
    /// 477 segments of leaves).
    pub const SEGMENT: usize = 1 << 16;

    /// An array of `length` equal elements.
    #[must_use]
    pub fn filled(value: &T, length: usize) -> Self {
        let mut array = Self::default();
        array.resize(length, value);
        array
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The element at a place.
    ///
    /// # Panics
    /// When the place is not below the length.
    #[must_use]
    #[inline]
    pub fn at(&self, place: usize) -> &T {
        &self.directory[place / Self::SEGMENT][place % Self::SEGMENT]
    }

    /// As [`Segmented::at`].
    ///
    /// # Panics
    /// When the place is not below the length.
    #[inline]
    pub fn at_mut(&mut self, place: usize) -> &mut T {
        &mut self.directory[place / Self::SEGMENT][place % Self::SEGMENT]
    }

    /// Appends an element.
    pub fn push(&mut self, value: T) {
        if self.length.is_multiple_of(Self::SEGMENT) {
            // The first segment grows as a list does, so that a small array stays small.
            let capacity = if self.length == 0 { 0 } else { Self::SEGMENT };
            self.directory.push(Vec::with_capacity(capacity));
        }
        self.directory[self.length / Self::SEGMENT].push(value);
        self.length += 1;
    }

    /// Appends copies of `value` or drops elements at the end.
    pub fn resize(&mut self, length: usize, value: &T) {
        let segments = length.div_ceil(Self::SEGMENT);
        self.directory.truncate(segments);
        self.directory.resize_with(segments, Vec::new);
        let first = (self.length.min(length) / Self::SEGMENT).min(segments);
        for (number, segment) in self.directory.iter_mut().enumerate().skip(first) {
            segment.resize((length - number * Self::SEGMENT).min(Self::SEGMENT), value.clone());
        }
        self.length = length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_shrinks_across_segments() {
        let segment = Segmented::<usize>::SEGMENT;
        let mut array = Segmented::filled(&7, 2);
        let mut model = vec![7; 2];
        for length in [0, 1, segment - 1, segment, segment + 1, 3 * segment + 5, segment, 3] {
            array.resize(length, &length);
            model.resize(length, length);
            array.push(9);
            model.push(9);
            assert_eq!(array.len(), model.len());
            assert!((0..model.len()).all(|place| *array.at(place) == model[place]), "{length}");
        }
        *array.at_mut(1) = 11;
        assert_eq!(*array.at(1), 11);
        assert!(!array.is_empty());
    }
}
