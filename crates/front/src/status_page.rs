//! The page that draws the status: one file of HTML, which fetches nothing. As an MCP App it asks its host for the data;
//! `dynamic-mcp status --html` writes the data into it.

use futures_util::future::BoxFuture;
use serde_json::Value;
use std::sync::Arc;

/// Gives the page its data: the report of `dynamic-mcp status --json`, restricted to this client. It gets the status of
/// this instance, and whether other instances are in the report, as far as they use servers of this one.
pub type InstanceReports = Arc<dyn Fn(Value, bool) -> BoxFuture<'static, Value> + Send + Sync>;

/// The page without data.
pub const PAGE: &str = include_str!("status_page/page.html");

/// The URI of the page as an MCP App.
pub(crate) const URI: &str = "ui://dynamic-mcp/status";

/// The element for the data.
const DATA: &str = "<script type=\"application/json\" id=\"data\">";

/// Returns the page with a report of `dynamic-mcp status --json` in it.
pub fn with_data(report: &Value) -> String {
    PAGE.replacen(DATA, &format!("{DATA}{}", escape(&report.to_string())), 1)
}

/// Escapes JSON for a `script` element: no text in it ends the element or begins a comment, and no JavaScript parser
/// takes one of its characters for the end of a line.
fn escape(json: &str) -> String {
    let escapes = [
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u{2028}", "\\u2028"),
        ("\u{2029}", "\\u2029"),
    ];
    escapes.iter().fold(json.to_owned(), |json, (character, escape)| json.replace(character, escape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_page_is_small_and_fetches_nothing() {
        assert!(PAGE.len() <= 60 << 10, "{}", PAGE.len());
        assert_eq!(PAGE.matches(DATA).count(), 1);
        for fetches in ["src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "WebSocket"] {
            assert!(!PAGE.contains(fetches), "{fetches}");
        }
        for parses_markup in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!PAGE.contains(parses_markup), "{parses_markup}");
        }
    }

    #[test]
    fn data_stays_in_its_element() {
        let hostile = json!({"error": "</script><img onerror=alert(1)>\u{2028}<!--&quot;$&"});
        let page = with_data(&hostile);
        let (_, rest) = page.split_once(DATA).unwrap();
        let (data, _) = rest.split_once("</script>").unwrap();
        assert_eq!(serde_json::from_str::<Value>(data).unwrap(), hostile);
        assert!(!data.contains(['<', '>', '&', '\u{2028}']), "{data}");
        assert_eq!(page.matches("</script>").count(), PAGE.matches("</script>").count());
    }
}
