//! The OpenAPI document as a page to read, without scripts and without other servers.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use serde_json::{Map, Value};

use super::open_api::open_api;

/// The page as text.
static PAGE: LazyLock<Bytes> = LazyLock::new(|| page(&open_api()).into());

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Shoal: HTTP API</title>
<style>
body { font-family: sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; line-height: 1.4 }
h2 { margin-top: 2em; border-top: 1px solid #ccc; padding-top: 1em; font-size: 1.1em }
table { border-collapse: collapse; width: 100%; margin: .5em 0 }
td, th { border-bottom: 1px solid #ddd; padding: .25em .5em; text-align: left; vertical-align: top }
code { font-size: .95em } .path { font-weight: bold } .method { color: #06c; margin-right: .5em }
</style>
"#;

/// `GET /reference`.
pub(in crate::http) async fn reference() -> Response {
    let mut response = Response::new(Body::from(PAGE.clone()));
    let fixed = HeaderValue::from_static;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, fixed("text/html; charset=utf-8"));
    let policy = fixed("default-src 'none'; style-src 'unsafe-inline'");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

fn page(document: &Value) -> String {
    let mut out = HEAD.to_owned();
    let info = &document["info"];
    let _ = write!(
        out,
        "<h1>{} {}: HTTP API</h1>\n<p>{}</p>\n<p><a href=\"/openapi.json\">openapi.json</a> has the \
         same for programs.</p>\n<ul>\n",
        text(&info["title"]),
        text(&info["version"]),
        text(&info["description"])
    );
    for_operations(document, |method, path, operation| {
        let (id, about) = (text(&operation["operationId"]), text(&operation["summary"]));
        let _ = writeln!(
            out,
            "<li><a href=\"#{id}\"><code>{method} {}</code></a>: {about}</li>",
            escaped(path)
        );
    });
    out.push_str("</ul>\n");
    for_operations(document, |method, path, operation| {
        write_operation(&mut out, method, path, operation);
    });
    let schemas = document["components"]["schemas"].as_object();
    for (name, schema) in schemas.into_iter().flatten() {
        let _ = writeln!(out, "<h2 id=\"schema-{0}\"><code>{0}</code></h2>", escaped(name));
        write_schema(&mut out, schema);
    }
    out
}

fn for_operations(document: &Value, mut each: impl FnMut(&str, &str, &Value)) {
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            each(&method.to_uppercase(), path, operation);
        }
    }
}

fn write_operation(out: &mut String, method: &str, path: &str, operation: &Value) {
    let (id, about) = (text(&operation["operationId"]), text(&operation["summary"]));
    let _ = writeln!(
        out,
        "<h2 id=\"{id}\"><code><span class=\"method\">{method}</span><span class=\"path\">{}</span>\
         </code></h2>\n<p>{about}</p>",
        escaped(path)
    );
    let parameters = operation["parameters"].as_array();
    let rows = parameters.into_iter().flatten().map(|parameter| Row {
        name: text(&parameter["name"]),
        place: text(&parameter["in"]),
        kind: kind(&parameter["schema"]),
        is_required: parameter["required"] == true,
        about: text(&parameter["description"]),
    });
    write_rows(out, ["Parameter", "in"], rows);
    let body = operation["requestBody"]["content"].as_object();
    if let Some(content) = body {
        out.push_str("<p>Body:</p>\n");
        write_content(out, content);
    }
    out.push_str("<table>\n<tr><th>Status<th>Answer</tr>\n");
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let _ = write!(out, "<tr><td>{status}<td>{}", text(&response["description"]));
        let content = response["content"].as_object().into_iter().flatten();
        for (media, of) in content {
            let _ = write!(out, "; <code>{}</code> {}", escaped(media), kind(&of["schema"]));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

fn write_content(out: &mut String, content: &Map<String, Value>) {
    out.push_str("<ul>\n");
    for (media, of) in content {
        let about = text(&of["schema"]["description"]);
        let kind = kind(&of["schema"]);
        let _ = writeln!(out, "<li><code>{}</code>: {kind} {about}</li>", escaped(media));
    }
    out.push_str("</ul>\n");
}

fn write_schema(out: &mut String, schema: &Value) {
    let _ = writeln!(out, "<p>{}</p>", text(&schema["description"]));
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
    let properties = schema["properties"].as_object();
    let rows = properties.into_iter().flatten().map(|(name, property)| Row {
        name: escaped(name),
        place: String::new(),
        kind: kind(property),
        is_required: is_required(name),
        about: text(&property["description"]),
    });
    write_rows(out, ["Member", ""], rows);
    for word in ["anyOf", "oneOf", "allOf"] {
        if let Some(kinds) = schema[word].as_array() {
            let kinds: Vec<_> = kinds.iter().map(kind).filter(|kind| !kind.is_empty()).collect();
            let _ = writeln!(
                out,
                "<p>{}</p>",
                kinds.join(if word == "allOf" { " and " } else { " or " })
            );
        }
    }
    if properties.is_none() {
        let _ = writeln!(out, "<p>{}</p>", kind(schema));
    }
}

/// A parameter or a member.
struct Row {
    name: String,
    place: String,
    kind: String,
    is_required: bool,
    about: String,
}

fn write_rows(out: &mut String, [name, place]: [&str; 2], rows: impl Iterator<Item = Row>) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let place = if place.is_empty() { String::new() } else { format!("<th>{place}") };
    let _ = writeln!(out, "<table>\n<tr><th>{name}{place}<th>Type<th>Meaning</tr>");
    for Row { name, place: of, kind, is_required, about } in rows {
        let required = if is_required { " (required)" } else { "" };
        let of = if of.is_empty() { of } else { format!("<td>{of}") };
        let _ =
            writeln!(out, "<tr><td><code>{name}</code>{required}{of}<td>{kind}<td>{about}</tr>");
    }
    out.push_str("</table>\n");
}

/// The type of a schema in words, with links to the schemas that it names.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escaped(reference.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    for word in ["anyOf", "oneOf"] {
        if let Some(kinds) = schema[word].as_array() {
            return kinds.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> =
            values.iter().map(|value| format!("<code>{}</code>", text(value))).collect();
        return values.join(", ");
    }
    if !schema["const"].is_null() {
        return format!("<code>{}</code>", text(&schema["const"]));
    }
    let name = match &schema["type"] {
        Value::Array(names) => names.iter().map(text).collect::<Vec<_>>().join(" or "),
        name => text(name),
    };
    match schema.get("items") {
        Some(items) => format!("{name} of {}", kind(items)),
        None => name + &bounds(schema),
    }
}

/// The range or the form of a value.
fn bounds(schema: &Value) -> String {
    let bound = |name: &str| schema.get(name).filter(|bound| bound.is_number()).map(text);
    match (bound("minimum"), bound("maximum"), schema["pattern"].as_str()) {
        (Some(least), Some(most), _) => format!(", {least} to {most}"),
        (Some(least), None, _) => format!(", at least {least}"),
        (None, Some(most), _) => format!(", at most {most}"),
        (None, None, Some(pattern)) => format!(", <code>{}</code>", escaped(pattern)),
        (None, None, None) => String::new(),
    }
}

/// A text or a number of the document; empty if there is none.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => escaped(text),
        Value::Null => String::new(),
        other => escaped(&other.to_string()),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_each_call_and_leads_to_each_schema() {
        let document = open_api();
        let page = page(&document);
        for_operations(&document, |_, _, operation| {
            let id = operation["operationId"].as_str().unwrap();
            assert!(page.contains(&format!("<h2 id=\"{id}\">")), "{id}");
            assert!(page.contains(&format!("<a href=\"#{id}\">")), "{id}");
        });
        let places = page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap());
        for place in places {
            assert!(page.contains(&format!("id=\"{place}\"")), "{place}");
        }
    }

    #[test]
    fn texts_are_escaped() {
        assert_eq!(escaped("<a href=\"&\">"), "&lt;a href=&quot;&amp;&quot;&gt;");
        assert_eq!(
            kind(&serde_json::json!({ "type": "integer", "minimum": 1 })),
            "integer, at least 1"
        );
    }
}
