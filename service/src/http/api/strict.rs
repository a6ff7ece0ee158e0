//! Reads JSON as the OpenAPI document describes it: a structure from an object and a word from a
//! string.
//!
//! By itself serde also reads a structure from a list of its members, and a word from an object.

use serde::Deserializer;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

/// A reader, visitor, or part of one, within which the rule holds.
pub(super) struct Strict<T>(pub(super) T);

/// The visitor of a word.
struct Word<V>(V);

macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        fn $name<V: Visitor<'de>>(
            self,
            $($argument: $type,)*
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.0.$name($($argument,)* Strict(visitor))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Strict(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_str(Word(visitor))
    }

    forward! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(length: usize);
        deserialize_tuple_struct(name: &'static str, length: usize);
        deserialize_map();
        deserialize_identifier();
        deserialize_ignored_any();
    }
}

macro_rules! visit {
    ($($name:ident: $type:ty;)*) => {$(
        fn $name<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$name(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.expecting(f)
    }

    visit! {
        visit_bool: bool;
        visit_i64: i64;
        visit_i128: i128;
        visit_u64: u64;
        visit_u128: u128;
        visit_f64: f64;
        visit_str: &str;
        visit_borrowed_str: &'de str;
        visit_string: String;
        visit_bytes: &[u8];
        visit_borrowed_bytes: &'de [u8];
        visit_byte_buf: Vec<u8>;
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Strict(value))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Strict(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Strict(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(object))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(value))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Word<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        self.0.visit_enum(StrDeserializer::new(text))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Shade {
        Light,
        VeryDark,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Spot {
        at: [f64; 2],
        shade: Option<Shade>,
        #[serde(default)]
        spots: Vec<Spot>,
    }

    fn read(text: &str) -> Result<Spot, serde_json::Error> {
        Spot::deserialize(Strict(&mut serde_json::Deserializer::from_str(text)))
    }

    #[test]
    fn structures_are_objects_and_words_are_strings() {
        let spot = |shade, spots| Spot { at: [1.0, 2.5], shade, spots };
        assert_eq!(read(r#"{"at":[1,2.5],"shade":null}"#).unwrap(), spot(None, Vec::new()));
        let inner = r#"{"at":[1,2.5],"shade":"very_dark"}"#;
        let outer = format!(r#"{{"at":[1,2.5],"shade":"light","spots":[{inner}]}}"#);
        let dark = spot(Some(Shade::VeryDark), Vec::new());
        assert_eq!(read(&outer).unwrap(), spot(Some(Shade::Light), vec![dark]));
        for wrong in [
            "[[1,2.5],null]".to_owned(),
            r#"{"at":[1,2.5],"shade":{"light":null}}"#.to_owned(),
            r#"{"at":[1,2.5],"spots":[[[1,2.5],null]]}"#.to_owned(),
            outer.replace("light", "grey"),
        ] {
            read(&wrong).unwrap_err();
        }
    }
}
