//! dynamic-mcp inside dynamic-mcp.
//!
//! Each instance tells its servers, in a variable, which configs the instances around them have. An instance whose own
//! client is dynamic-mcp, and whose config is one of these, is a server of its own config: it would start itself again
//! without end. Other nesting is meant, such as an agent in a terminal server, which starts its own dynamic-mcp with the
//! same config; it is limited in depth only.

use base::digest;
use base::text;
use bytes::Bytes;
use process::launch::ANCESTORS_VAR;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;
use wire::lines::LineReader;
use wire::output::Output;
use wire::protocol::methods::Method;
use wire::protocol::{CLIENT_NAME, code, meta};
use wire::{Frame, Message, MessageError, error_object, raw};

/// How many instances may be around one.
const MAX_DEPTH: usize = 3;
/// How long a refused instance waits for `initialize`, to answer it with the reason.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// The place of this instance among others.
pub(crate) struct Nesting {
    /// The hash of this instance's config files.
    own: String,
    /// The hashes of the instances around it, the outermost first.
    ancestors: Vec<String>,
    /// The names of the config files, for messages.
    files: String,
}

impl Nesting {
    /// Reads the variable. `cwd` is the directory where relative paths start.
    pub(crate) fn new(ancestors: Option<&OsStr>, files: &[PathBuf], cwd: &Path) -> Self {
        let ancestors = ancestors.unwrap_or_default().to_string_lossy();
        let ancestors = ancestors.split(':').filter(|hash| !hash.is_empty()).map(str::to_owned).collect();
        let paths = files.iter().map(|file| {
            let path = cwd.join(file);
            path.canonicalize().unwrap_or(path).into_os_string().into_encoded_bytes()
        });
        let own = digest::of_parts(paths, 8);
        Self { own, ancestors, files: text::joined(files.iter().map(|file| text::path(file))) }
    }

    /// Returns the name and the value of the variable for the servers of this instance.
    pub(crate) fn var_for_servers(&self) -> (OsString, OsString) {
        let all: Vec<_> = self.ancestors.iter().chain([&self.own]).map(String::as_str).collect();
        (ANCESTORS_VAR.into(), all.join(":").into())
    }

    /// Returns why this instance must not run, if there are too many around it.
    pub(crate) fn too_deep(&self) -> Option<String> {
        (self.ancestors.len() > MAX_DEPTH).then(|| {
            format!(
                "it is nested too deep: there are {} instances of dynamic-mcp around it, and {MAX_DEPTH} are allowed; \
                 remove dynamic-mcp from the config of one of them",
                self.ancestors.len()
            )
        })
    }

    /// Returns why this instance must not run, if that is so. Waits, without a limit, for the client's first message
    /// where the answer depends on the client, and puts it back. Cancel-safe before that message.
    pub(crate) async fn refusal(&self, lines: &mut LineReader) -> Option<String> {
        if let Some(reason) = self.too_deep() {
            return Some(reason);
        }
        if !self.ancestors.contains(&self.own) {
            return None;
        }
        let first = lines.next().await?;
        let is_own_server = is_from_dynamic_mcp(&first);
        lines.put_back(first);
        is_own_server.then(|| {
            format!(
                "it is a server of its own config ({}), so it would start itself without end; remove this server from \
                 the config, or give it another config with --config",
                self.files
            )
        })
    }
}

/// Returns whether a request names dynamic-mcp as its client, in the manner of either era.
fn is_from_dynamic_mcp(line: &Result<Bytes, MessageError>) -> bool {
    let Ok(Ok(Message::Request(request))) = line.as_ref().map(Message::parse) else { return false };
    let Some(params) = request.params else { return false };
    let in_meta = || raw::get(&raw::get(&params, "_meta")?, meta::CLIENT);
    let client = raw::get(&params, "clientInfo").or_else(in_meta);
    client.and_then(|client| raw::get_str(&client, "name")).is_some_and(|name| name == CLIENT_NAME)
}

/// Answers requests with `reason` until `initialize` is answered, the client has gone, or `REFUSAL_TIMEOUT` is over.
pub(crate) async fn refuse(reason: &str, lines: &mut LineReader, output: &Output) {
    // dynamic-mcp does not try again after an error with this code.
    let error = error_object(code::INVALID_PARAMS, &format!("dynamic-mcp does not run: {reason}"), None);
    let answering = async {
        while let Some(line) = lines.next().await {
            let Ok(Ok(Message::Request(request))) = line.as_ref().map(Message::parse) else { continue };
            output.ready().await;
            output.send(Frame::response(&request.id, Err(error.clone())));
            if let Some(Method::Initialize | Method::ServerDiscover) = request.method.known() {
                break;
            }
        }
    };
    // A client that sends nothing reads the reason on stderr.
    drop(timeout(REFUSAL_TIMEOUT, answering).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &'static str) -> LineReader {
        LineReader::new(Box::new(text.as_bytes()), 1000)
    }

    fn nested(config: &str, around: &[&str]) -> Nesting {
        let mut value: Option<OsString> = None;
        for outer in around {
            let outer = Nesting::new(value.as_deref(), &[PathBuf::from(outer)], Path::new("/nowhere"));
            value = Some(outer.var_for_servers().1);
        }
        Nesting::new(value.as_deref(), &[config.into()], Path::new("/nowhere"))
    }

    #[tokio::test]
    async fn only_a_server_of_its_own_config_is_refused() {
        const OURS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":"dynamic-mcp"}}}"#;
        const STATELESS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"dynamic-mcp"}}}}"#;
        const AGENT: &str =
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":"agent"}}}"#;
        for (config, around, first, refused) in [
            ("a", &[][..], OURS, false),
            ("a", &["a"], OURS, true),
            ("a", &["a"], STATELESS, true),
            ("a", &["a", "b"], OURS, true),
            ("a", &["a"], AGENT, false),
            ("a", &["b"], OURS, false),
            ("a", &["a", "a", "a"], AGENT, false),
            ("a", &["b", "c", "d", "e"], OURS, true),
        ] {
            let mut lines = lines(first);
            let refusal = nested(config, around).refusal(&mut lines).await;
            assert_eq!(refusal.is_some(), refused, "{config} in {around:?}: {refusal:?}");
            // The first message is still there.
            assert_eq!(lines.next().await.unwrap().unwrap(), first);
        }
    }
}
