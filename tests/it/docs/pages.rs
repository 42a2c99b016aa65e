//! The pages as texts: links lead somewhere, configs load.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use config::Overrides;
use config::env::Env;
use config::load::load;

use super::reference::messages;
use super::{fences, page_files, root};

/// A page without its fenced blocks.
fn prose(page: &Path) -> String {
    let text = fs::read_to_string(page).unwrap();
    text.split("```").step_by(2).collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = prose(page);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| -> String {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let mut broken = Vec::new();
    let mut count = 0;
    for page in page_files() {
        let text = prose(&page);
        for target in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if target.contains("://") {
                continue;
            }
            count += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let is_found = file.exists() && (anchor.is_empty() || anchors(&file).contains(anchor));
            if !is_found {
                broken.push(format!("{}: {target}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
    assert!(count > 100, "{count}");
}

#[test]
fn configs_in_the_pages_load_without_errors_and_warnings() {
    let dir = tempfile::tempdir().unwrap();
    let variables = ["DOCS_TOKEN", "WIKI_TOKEN", "GITHUB_TOKEN", "REPORTS_SECRET"].map(|name| (name, "t"));
    let env = Env::new(variables.into_iter().chain([("HOME", dir.path().to_str().unwrap())]), dir.path());
    // Only a config in this place may name secrets.
    let config_dir = dir.path().join(".config/dynamic-mcp");
    fs::create_dir_all(&config_dir).unwrap();
    let mut count = 0;
    for fence in fences() {
        let extension = match fence.language.as_str() {
            "json" | "jsonc" => "json",
            "toml" => "toml",
            _ => continue,
        };
        count += 1;
        let path = config_dir.join(format!("servers.{extension}"));
        fs::write(&path, &fence.text).unwrap();
        let config = load(&[path], &env, &Overrides::default());
        assert_eq!(messages(&config), Vec::<String>::new(), "{}:\n{}", fence.place, fence.text);
    }
    assert!(count > 12, "{count}");
}

#[test]
fn the_entry_of_each_client_is_one_that_can_be_read() {
    let page = fs::read_to_string(root().join("docs/clients.md")).unwrap();
    let (_, rest) = page.split_once("\n## One config per client\n").unwrap();
    let sections = rest.split("\n## ").next().unwrap().split("\n### ").skip(1);
    let clients: Vec<(&str, &str)> = sections.filter_map(|section| section.split_once('\n')).collect();
    let names = [
        "Claude Desktop",
        "Claude Code",
        "OpenCode",
        "Cursor",
        "VS Code",
        "Codex",
        "Gemini CLI",
        "Copilot CLI",
    ];
    let home = tempfile::tempdir().unwrap();
    for client in names {
        let (_, section) =
            clients.iter().find(|(name, _)| *name == client).unwrap_or_else(|| panic!("no {client}"));
        let (language, text) = section.split("```").nth(1).unwrap().split_once('\n').unwrap();
        let file = home.path().join(format!("config.{language}"));
        fs::write(&file, text).unwrap();
        let variables = [("HOME", "/home/you"), ("GITHUB_TOKEN", "t")];
        let config = load(&[file], &Env::new(variables, home.path()), &Overrides::default());
        assert!(config.errors.is_empty() && config.all_warnings().next().is_none(), "{client}: {config:?}");
        let names: Vec<String> = config.servers.iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names, ["dyn"], "{client}");
        assert!(config.servers[0].1.is_ok(), "{client}");
    }
}
