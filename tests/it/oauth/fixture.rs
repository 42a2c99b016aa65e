//! A server to log in to, a user's home directory and config, the program, and the user's browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::auth_server::{MockAuthServer, parse_form};
use crate::remote::tls;
use crate::scripted::example;
use crate::support::{
    PipeReader, Proxy, ProxyCommand, TEST_TIMEOUT, base_env, merged, output_of, pure_config, wait_for_child,
};

/// Everything that a login needs. The config has one server, `g`.
pub(crate) struct Fixture {
    pub(crate) auth_server: MockAuthServer,
    /// The home directory; logins are stored in it too.
    pub(crate) home: TempDir,
    config: Value,
    /// Environment variables of each process that is started.
    pub(crate) env: Vec<(&'static str, String)>,
    /// The certificates that the browser trusts.
    trusted: rustls::RootCertStore,
}

/// How a command ended, and what it wrote to stdout and stderr.
pub(crate) struct CommandOutput {
    pub(crate) exit_code: i32,
    pub(crate) text: String,
}

/// A running `dynamic-mcp login` that waits for the browser.
pub(crate) struct LoginCommand {
    child: Child,
    stdout: PipeReader<ChildStdout>,
    /// The URL to open. Empty if the command has ended without one.
    pub(crate) url: String,
    text: String,
    trusted: rustls::RootCertStore,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with_oauth(json!({}))
    }

    /// With this as the server's `oauth`.
    pub(crate) fn with_oauth(oauth: Value) -> Self {
        let auth_server = MockAuthServer::start();
        let server = json!({"url": auth_server.url(), "oauth": oauth});
        Self::build(auth_server, TempDir::new().unwrap(), server, rustls::RootCertStore::empty())
    }

    /// With a server that uses TLS and has a certificate that `ca_file` and the browser trust.
    pub(crate) fn with_tls() -> Self {
        let (certificate, pem) = tls::private_ca();
        let auth_server = MockAuthServer::start_with_tls(Some(Arc::new(certificate)));
        let home = TempDir::new().unwrap();
        let file = home.path().join("ca.pem");
        std::fs::write(&file, &pem).unwrap();
        let mut trusted = rustls::RootCertStore::empty();
        trusted.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
        let server = json!({"url": auth_server.url(), "ca_file": file});
        Self::build(auth_server, home, server, trusted)
    }

    fn build(
        auth_server: MockAuthServer,
        home: TempDir,
        server: Value,
        trusted: rustls::RootCertStore,
    ) -> Self {
        let config = pure_config([("g", server)]);
        let mut fixture = Self { auth_server, home, config, env: Vec::new(), trusted };
        // Linux has no keyring without a bus. Elsewhere every user has one, which must not be used.
        fixture.set_settings(json!({"keyring": cfg!(not(any(target_os = "macos", windows)))}));
        fixture
    }

    /// Adds members to the server's config.
    pub(crate) fn set_server(&mut self, members: Value) {
        let server = self.config["mcpServers"]["g"].take();
        self.config["mcpServers"]["g"] = merged(server, members);
    }

    /// Adds members to the settings.
    pub(crate) fn set_settings(&mut self, members: Value) {
        let settings = self.config["settings"].take();
        self.config["settings"] = merged(settings, members);
    }

    pub(crate) fn config(&self) -> &Value {
        &self.config
    }

    fn proxy_command(&self) -> ProxyCommand {
        let home = self.home.path().to_str().unwrap();
        let command =
            self.env.iter().fold(ProxyCommand::new(), |command, (name, value)| command.env(name, value));
        command.env("XDG_DATA_HOME", home).args(&["--log-level", "trace"]).config(&self.config)
    }

    /// Starts the proxy for a client without capabilities.
    pub(crate) fn proxy(&self) -> Proxy {
        self.proxy_command().start_initialized()
    }

    /// Starts the proxy for a client that makes no handshake.
    pub(crate) fn stateless_proxy(&self) -> Proxy {
        self.proxy_command().start()
    }

    /// Starts the proxy for a client with this `elicitation` capability.
    pub(crate) fn eliciting_proxy(&self, elicitation: Value) -> Proxy {
        let mut proxy = self.proxy_command().start();
        proxy.handshake_with(json!({"elicitation": elicitation}));
        proxy
    }

    /// A command of the program with this config.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let config = self.home.path().join("servers.json");
        std::fs::write(&config, self.config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.env_clear().envs(base_env(self.home.path())).envs(self.env.iter().cloned());
        let data_dir = if cfg!(windows) { "LOCALAPPDATA" } else { "XDG_DATA_HOME" };
        command.env(data_dir, self.home.path()).env("BROWSER_ARGUMENTS", self.browser_arguments());
        command.env("DYNAMIC_MCP_LOG", "trace,rmcp=trace,rmcp::transport::auth=trace").args(args);
        command.arg("--config").arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A program for `$BROWSER`, and the file that it writes its arguments to: their number, then the first.
    pub(crate) fn fake_browser(&self) -> (PathBuf, PathBuf) {
        (example("browser"), self.browser_arguments())
    }

    fn browser_arguments(&self) -> PathBuf {
        self.home.path().join("arguments")
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        let output = output_of(&mut self.command(args));
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_no_secret(&text);
        CommandOutput { exit_code: output.status.code().unwrap(), text }
    }

    /// Starts a login without a browser, and waits for its URL.
    pub(crate) fn start_login(&self) -> LoginCommand {
        let mut child = self.command(&["login", "g", "--no-browser"]).spawn().unwrap();
        let mut stdout = PipeReader::new(child.stdout.take().unwrap());
        let (mut text, mut url) = (String::new(), String::new());
        while url.is_empty()
            && let Some(line) = stdout.read_line()
        {
            text.push_str(&line);
            text.push('\n');
            if line.starts_with("http") {
                url = line;
            }
        }
        LoginCommand { child, stdout, url, text, trusted: self.trusted.clone() }
    }

    /// Runs a login with a user who agrees in the browser.
    pub(crate) fn login(&self) -> CommandOutput {
        let login = self.start_login();
        if !login.url.is_empty() {
            login.complete_in_browser();
        }
        login.wait()
    }

    /// Logs in, and asserts that it succeeds.
    pub(crate) fn log_in(&self) {
        let output = self.login();
        assert_eq!(output.exit_code, 0, "{}", output.text);
    }

    /// Logs in, and makes the access token expire.
    pub(crate) fn log_in_with_expired_token(&self) {
        self.auth_server.state().token_response = json!({"expires_in": 3000});
        self.log_in();
        self.age_login();
    }

    /// The files of stored logins.
    pub(crate) fn login_files(&self) -> Vec<PathBuf> {
        let Ok(dir) = std::fs::read_dir(self.home.path().join("dynamic-mcp/logins")) else {
            return Vec::new();
        };
        let files = dir.map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect()
    }

    /// The content of the only login file.
    pub(crate) fn stored_login(&self) -> Value {
        let files = self.login_files();
        assert_eq!(files.len(), 1);
        serde_json::from_slice(&std::fs::read(&files[0]).unwrap()).unwrap()
    }

    /// Makes the stored login look an hour older.
    pub(crate) fn age_login(&self) {
        let mut login = self.stored_login();
        login["received_at"] = json!(login["received_at"].as_u64().unwrap() - 3600);
        if let Some(expires_at) = login["expires_at"].as_u64() {
            login["expires_at"] = json!(expires_at - 3600);
        }
        std::fs::write(&self.login_files()[0], login.to_string()).unwrap();
    }
}

impl LoginCommand {
    /// Opens the URL in the browser and follows the redirect back. Returns the page that is shown.
    pub(crate) fn complete_in_browser(&self) -> String {
        get(&self.callback_url()).1
    }

    /// The URL that the authorization server redirects the browser to.
    pub(crate) fn callback_url(&self) -> String {
        match self.url.strip_prefix("https://") {
            Some(url) => location(&get_with_tls(url, &self.trusted).0),
            None => callback_url(&self.url),
        }
    }

    /// A query parameter of the URL.
    pub(crate) fn url_parameter(&self, name: &str) -> Option<String> {
        parse_form(self.url.split_once('?')?.1).remove(name)
    }

    #[cfg(unix)]
    pub(crate) fn send_signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Waits for the end of the command.
    pub(crate) fn wait(mut self) -> CommandOutput {
        let stderr = PipeReader::new(self.child.stderr.take().unwrap()).read_to_end();
        let rest = [self.stdout.read_to_end(), stderr].concat();
        self.text.push_str(&String::from_utf8(rest).unwrap());
        let exit_code = wait_for_child(&mut self.child).code().unwrap();
        assert_no_secret(&self.text);
        CommandOutput { exit_code, text: self.text }
    }
}

/// The id of a client is not secret: it is in the URL of a login.
fn assert_no_secret(text: &str) {
    let secrets = ["access", "refresh", "code", "secret", "id", "word"].map(|kind| format!("s3cret-{kind}"));
    assert!(!secrets.iter().any(|secret| text.contains(secret)), "{text}");
}

/// Opens the URL of a login in the browser and follows the redirect back. Returns the page that is shown.
pub(crate) fn complete_in_browser(url: &str) -> String {
    get(&callback_url(url)).1
}

/// The URL that the authorization server redirects a browser to that opens `url`.
pub(crate) fn callback_url(url: &str) -> String {
    location(&get(url).0)
}

fn location(head: &str) -> String {
    let location = head.lines().find_map(|line| line.strip_prefix("Location: "));
    location.unwrap_or_else(|| panic!("no redirect: {head}")).to_owned()
}

/// Sends a GET request. Returns the head and the body of the response.
pub(crate) fn get(url: &str) -> (String, String) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    get_with_host(host, host, path)
}

/// The same with another `Host` header.
pub(crate) fn get_with_host(address: &str, host: &str, path: &str) -> (String, String) {
    exchange(connect(address), host, path)
}

fn get_with_tls(url: &str, trusted: &rustls::RootCertStore) -> (String, String) {
    let (address, path) = url.split_once('/').unwrap();
    let stream = connect(address);
    let host = stream.peer_addr().unwrap().ip().into();
    let config =
        rustls::ClientConfig::builder().with_root_certificates(trusted.clone()).with_no_client_auth();
    let connection = rustls::ClientConnection::new(Arc::new(config), host).unwrap();
    exchange(rustls::StreamOwned::new(connection, stream), address, path)
}

/// A connection of a browser, which waits for an answer only as long as a test may take.
fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

fn exchange(mut stream: impl Read + Write, host: &str, path: &str) -> (String, String) {
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while stream.read_line(&mut head).unwrap_or_default() > 2 {
        let line = head.lines().last().unwrap_or_default().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}
