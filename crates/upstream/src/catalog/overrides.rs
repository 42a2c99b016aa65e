//! What clients see of a tool: the definition of the server with an override of the config applied. Pure.

use config::tool_rules::ToolOverride;
use wire::{Raw, raw};

/// An argument that clients neither see nor pass.
#[derive(Debug, PartialEq, Eq)]
pub struct HiddenArg {
    /// Its name.
    pub name: String,
    /// The value that the server gets, if the tool requires the argument.
    pub value: Option<Raw>,
}

/// Returns the arguments that an override hides. A required argument is hidden only if its schema has a value to pass:
/// its `const`, else its `default`.
pub fn hidden_args(definition: &Raw, tool: &ToolOverride) -> Vec<HiddenArg> {
    if tool.hidden_args.is_empty() {
        return Vec::new();
    }
    let schema = raw::get(definition, "inputSchema");
    let properties = schema.as_ref().and_then(|schema| raw::get(schema, "properties"));
    let required = schema.as_ref().map(required).unwrap_or_default();
    let hide = |name: &String| {
        let own = properties.as_ref().and_then(|properties| raw::get(properties, name));
        let constant =
            || own.as_ref().and_then(|own| raw::get(own, "const").or_else(|| raw::get(own, "default")));
        let value = required.contains(name).then(|| constant().ok_or(())).transpose().ok()?;
        Some(HiddenArg { name: name.clone(), value })
    };
    tool.hidden_args.iter().filter_map(hide).collect()
}

/// Applies an override to a definition. Members without an override keep their bytes.
pub fn apply(definition: &Raw, tool: &ToolOverride) -> Raw {
    let mut shown = definition.clone();
    for (member, text) in [("name", &tool.name), ("description", &tool.description)] {
        if let Some(text) = text {
            shown = raw::set_str(&shown, member, text);
        }
    }
    let hidden = hidden_args(definition, tool);
    match raw::get(definition, "inputSchema").filter(|_| !hidden.is_empty()) {
        Some(schema) => raw::set(&shown, "inputSchema", &without(&schema, &hidden)),
        None => shown,
    }
}

/// Removes arguments from a schema.
fn without(schema: &Raw, hidden: &[HiddenArg]) -> Raw {
    let mut left = schema.clone();
    if let Some(properties) = raw::get(schema, "properties") {
        let properties = hidden.iter().fold(properties, |left, arg| raw::remove(&left, &arg.name));
        left = raw::set(&left, "properties", &properties);
    }
    let all = required(schema);
    let shown: Vec<_> = all.iter().filter(|name| !hidden.iter().any(|arg| arg.name == **name)).collect();
    match shown.len() {
        count if count == all.len() => left,
        0 => raw::remove(&left, "required"),
        _ => raw::set(&left, "required", serde_json::json!(shown).to_string().as_bytes()),
    }
}

fn required(schema: &Raw) -> Vec<String> {
    let required = raw::get(schema, "required");
    required.and_then(|required| serde_json::from_slice(&required).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hiding(args: &[&str]) -> ToolOverride {
        let hidden_args = args.iter().map(ToString::to_string).collect();
        ToolOverride { hidden_args, ..ToolOverride::default() }
    }

    const DEFINITION: &str = r#"{"name" : "t","x":1e400,"inputSchema":{"type":"object","properties":{"a":{"big":1.50},"b":{"default":1e400},"c":{"const":{"k":1.0}},"d":{}},"required":["a","b","c"],"$defs":{}}}"#;

    #[test]
    fn a_definition_keeps_the_bytes_of_what_is_not_overridden() {
        let tool = ToolOverride {
            name: Some("new".into()),
            description: Some("Says \"so\".".into()),
            ..hiding(&["b", "d", "unknown"])
        };
        assert_eq!(
            apply(&Raw::from(DEFINITION), &tool),
            r#"{"name" : "new","x":1e400,"inputSchema":{"type":"object","properties":{"a":{"big":1.50},"c":{"const":{"k":1.0}}},"required":["a","c"],"$defs":{}},"description":"Says \"so\"."}"#
        );
        assert_eq!(apply(&Raw::from(DEFINITION), &ToolOverride::default()), DEFINITION);
    }

    #[test]
    fn a_required_argument_is_hidden_only_if_its_value_is_known() {
        let hidden = hidden_args(&Raw::from(DEFINITION), &hiding(&["a", "b", "c", "d"]));
        let hidden: Vec<_> = hidden.iter().map(|arg| (arg.name.as_str(), arg.value.as_deref())).collect();
        let value = |text: &'static str| Some(text.as_bytes());
        assert_eq!(hidden, [("b", value("1e400")), ("c", value(r#"{"k":1.0}"#)), ("d", None)]);
        let shown = apply(&Raw::from(DEFINITION), &hiding(&["a", "b", "c"]));
        let schema = raw::get(&shown, "inputSchema").unwrap();
        assert_eq!(required(&schema), ["a"]);
        let none = r#"{"name":"t","inputSchema":{"properties":{"b":{"default":1}},"required":["b"]}}"#;
        let shown = apply(&Raw::from(none), &hiding(&["b"]));
        assert_eq!(shown, r#"{"name":"t","inputSchema":{"properties":{}}}"#);
    }
}
