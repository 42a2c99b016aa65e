//! What `tools.override` makes of a server's tools, and which overrides have no effect.

use base::text::quoted;
use upstream::Upstream;
use upstream::catalog::overrides::hidden_args;
use wire::raw;

/// One line per override, and one per tool that is left out because its name is given to another one.
pub(super) fn of(group: &Upstream) -> Vec<String> {
    let snapshot = group.snapshot();
    let (Some(server), Some(catalog)) = (&snapshot.server, &snapshot.catalog) else { return Vec::new() };
    let (overrides, original) = (&server.tools.overrides, catalog.original());
    let mut lines = Vec::new();
    for (own, tool) in overrides.iter() {
        let Some(place) = original.tools.iter().position(|known| known.name == own) else {
            lines.push(format!("`tools.override` names {}, which the server does not have", quoted(own)));
            continue;
        };
        let Some(definition) = original.definition(place) else { continue };
        let hidden: Vec<_> = hidden_args(definition, tool).into_iter().map(|arg| arg.name).collect();
        let mut effects = Vec::new();
        effects.extend(tool.name.as_ref().map(|name| format!("listed as {}", quoted(name))));
        effects.extend(tool.description.as_ref().map(|_| "another description".to_owned()));
        effects.extend(hidden.iter().map(|arg| format!("without argument {}", quoted(arg))));
        if !effects.is_empty() {
            lines.push(format!("overridden: {}: {}", quoted(own), effects.join(", ")));
        }
        let schema = raw::get(definition, "inputSchema");
        let properties = schema.and_then(|schema| raw::get(&schema, "properties"));
        for arg in &tool.hidden_args {
            let is_known = properties.as_ref().is_some_and(|known| raw::get(known, arg).is_some());
            let why = match (is_known, hidden.contains(arg)) {
                (false, _) => "the tool has no such argument",
                (true, false) => {
                    "it stays visible: it is required, and its schema has neither `const` nor `default`"
                }
                (true, true) => continue,
            };
            lines.push(format!("`hidden_args` of {}: {}: {why}", quoted(own), quoted(arg)));
        }
    }
    let left_out = original.tools.iter().filter(|tool| overrides.shown_name(&tool.name).is_none());
    lines.extend(left_out.map(|tool| {
        let (name, other) = (quoted(&tool.name), quoted(overrides.own_name(&tool.name)));
        format!("left out: {name}, because `tools.override` gives its name to {other}; rename one of them")
    }));
    lines
}
