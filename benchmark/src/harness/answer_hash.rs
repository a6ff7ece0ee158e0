//! A hash of answers: FNV-1a, 64 bits over 64-bit words.

use shoal_engine::AnswerSet;

/// Folds answers in the order of the queries.
pub(crate) struct AnswerHash(u64);

impl AnswerHash {
    pub(crate) fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    pub(crate) fn add(&mut self, answers: &AnswerSet) {
        for answer in answers.iter() {
            self.add_answer(answer.total, answer.objects);
        }
    }

    /// Adds one answer: the number of matching objects, and the objects returned.
    pub(crate) fn add_answer(&mut self, total: u64, objects: &[u64]) {
        self.add_word(total);
        objects.iter().for_each(|object| self.add_word(*object));
    }

    pub(crate) fn finish(&self) -> String {
        format!("{:016x}", self.0)
    }

    pub(crate) fn add_word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01B3);
    }
}
