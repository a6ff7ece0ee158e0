//! A checker of JSON Schema, as far as the OpenAPI document uses it; an unknown word is an error.

use serde_json::Value;

/// Words without a condition, or whose condition the type already implies.
const NO_CONDITION: [&str; 7] =
    ["title", "description", "default", "format", "examples", "$schema", "deprecated"];

/// Lists where a value does not fit a schema of a document.
pub(crate) fn faults(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    Checker { document }.check(schema, value, "$", &mut found);
    found
}

struct Checker<'a> {
    document: &'a Value,
}

impl Checker<'_> {
    fn fits(&self, schema: &Value, value: &Value) -> bool {
        let mut found = Vec::new();
        self.check(schema, value, "$", &mut found);
        found.is_empty()
    }

    fn check(&self, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
        let Value::Object(words) = schema else {
            if *schema == Value::Bool(false) {
                found.push(format!("{at}: nothing fits"));
            }
            return;
        };
        for (word, condition) in words {
            let holds = match word.as_str() {
                "$ref" => {
                    let place = condition.as_str().unwrap().strip_prefix('#').unwrap();
                    let target = self.document.pointer(place).expect("the reference leads there");
                    self.check(target, value, at, found);
                    true
                }
                "type" => has_type(condition, value),
                "enum" => condition.as_array().unwrap().contains(value),
                "const" => condition == value,
                "anyOf" => condition.as_array().unwrap().iter().any(|one| self.fits(one, value)),
                "oneOf" => {
                    let all = condition.as_array().unwrap().iter();
                    all.filter(|one| self.fits(one, value)).count() == 1
                }
                "allOf" => condition.as_array().unwrap().iter().all(|one| self.fits(one, value)),
                "required" => {
                    let names = condition.as_array().unwrap().iter();
                    let Value::Object(members) = value else { continue };
                    names.into_iter().all(|name| members.contains_key(name.as_str().unwrap()))
                }
                "properties" => {
                    self.properties(condition, value, at, found);
                    true
                }
                "additionalProperties" => self.additional(words, condition, value, at, found),
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(condition, item, &format!("{at}[{index}]"), found);
                    }
                    true
                }
                "minItems" => value.as_array().is_none_or(|it| it.len() >= size(condition)),
                "maxItems" => value.as_array().is_none_or(|it| it.len() <= size(condition)),
                "minimum" => value.as_f64().is_none_or(|it| it >= condition.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|it| it <= condition.as_f64().unwrap()),
                // Patterns are those of input.
                "pattern" | "maxLength" => true,
                known if NO_CONDITION.contains(&known) => true,
                unknown => panic!("the checker does not know {unknown}"),
            };
            if !holds {
                found.push(format!("{at}: {value} breaks {word} {condition}"));
            }
        }
    }

    fn properties(&self, schemas: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
        for (name, schema) in schemas.as_object().unwrap() {
            if let Some(member) = value.get(name) {
                self.check(schema, member, &format!("{at}.{name}"), found);
            }
        }
    }

    fn additional(
        &self,
        words: &serde_json::Map<String, Value>,
        condition: &Value,
        value: &Value,
        at: &str,
        found: &mut Vec<String>,
    ) -> bool {
        let known = words.get("properties").and_then(Value::as_object);
        for (name, member) in value.as_object().into_iter().flatten() {
            if known.is_none_or(|known| !known.contains_key(name)) {
                self.check(condition, member, &format!("{at}.{name}"), found);
            }
        }
        true
    }
}

fn size(condition: &Value) -> usize {
    usize::try_from(condition.as_u64().unwrap()).unwrap()
}

fn has_type(condition: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        unknown => panic!("no type {unknown}"),
    };
    match condition {
        Value::String(name) => is(name),
        names => names.as_array().unwrap().iter().any(|name| is(name.as_str().unwrap())),
    }
}

#[test]
fn the_checker_finds_what_does_not_fit() {
    let document = serde_json::json!({ "a": {
        "type": "object",
        "properties": {
            "n": { "type": "integer", "minimum": 1 },
            "l": { "items": { "$ref": "#/b" } },
        },
        "required": ["n"],
        "additionalProperties": false,
    }, "b": { "oneOf": [{ "const": "x" }, { "type": ["null", "boolean"] }] } });
    let fits = |text: &str| {
        let value = serde_json::from_str(text).unwrap();
        faults(&document, &document["a"], &value).is_empty()
    };
    assert!(fits(r#"{"n":1,"l":["x",null,true]}"#));
    for wrong in
        ["[]", "{}", r#"{"n":0}"#, r#"{"n":1.5}"#, r#"{"n":1,"m":1}"#, r#"{"n":1,"l":[1]}"#]
    {
        assert!(!fits(wrong), "{wrong}");
    }
}
