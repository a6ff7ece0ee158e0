//! NMEA 0183: positions of satellite receivers, and AIS messages of ships (AIVDM, AIVDO).

mod ais_message;
mod fixes;
mod fragments;
mod receiver;
mod sentence;

pub(super) use fixes::NmeaFixes;
pub(super) use sentence::looks_like_sentence;
