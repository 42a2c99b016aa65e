//! The methods that the proxy knows, in one table: which capability and era each belongs to, which timeout of the
//! config bounds it, whether its answer may ask the client for input or be cached, and whether it may be repeated.

use super::{Era, SKILLS_EXTENSION};
use crate::protocol::capability;

/// A JSON-RPC method of MCP, or one of the two that this proxy adds (`tools/describe`, `tools/describe_batch`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Runs a tool. It is the first, because it is sent most often and names are looked for in this order.
    ToolsCall,
    /// Exchanges the revision and the capabilities; the first request of the handshake era.
    Initialize,
    /// Asks whether the other side still answers; either side sends it.
    Ping,
    /// Reads a server's revisions and capabilities in the stateless era.
    ServerDiscover,
    /// Reads one page of the tools.
    ToolsList,
    /// Reads the definition of one tool of a group. An addition of this proxy.
    ToolsDescribe,
    /// Reads the definitions of several tools. An addition of this proxy.
    ToolsDescribeBatch,
    /// Reads one page of the resources.
    ResourcesList,
    /// Reads one page of the resource templates.
    ResourceTemplatesList,
    /// Reads the content of a resource.
    ResourcesRead,
    /// Asks for `notifications/resources/updated` of one resource.
    ResourcesSubscribe,
    /// Ends a `resources/subscribe`.
    ResourcesUnsubscribe,
    /// Reads the children of a directory (an option of the skills extension).
    ResourcesDirectoryRead,
    /// Reads one page of the skills (the skills extension).
    SkillsList,
    /// Reads the entry of one skill (the skills extension).
    SkillsGet,
    /// Asks for notifications in the stateless era. It stays open until one side ends it.
    SubscriptionsListen,
    /// Reads one page of the prompts.
    PromptsList,
    /// Fills a prompt with arguments and reads its messages.
    PromptsGet,
    /// Asks for completions of an argument of a prompt or a resource template.
    CompletionComplete,
    /// Sets the least severe log messages that the client wants.
    LoggingSetLevel,
    /// Reads one page of the tasks.
    TasksList,
    /// Reads the status of a task.
    TasksGet,
    /// Waits for the end of a task and reads its result.
    TasksResult,
    /// Sends a task the input that it asked for.
    TasksUpdate,
    /// Cancels a task.
    TasksCancel,
    /// Reads the directories that a client lets its servers use. A server sends it to its client.
    RootsList,
    /// Asks the client's model for a message. A server sends it to its client.
    SamplingCreateMessage,
    /// Asks the client's user for input. A server sends it to its client.
    ElicitationCreate,
}

/// The eras that have a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eras {
    /// Revisions up to 2025-11-25.
    Handshake,
    /// Revisions from 2026-07-28 on.
    Stateless,
    /// All revisions.
    Both,
    /// A request of a server to its client, which no client sends.
    ToClient,
}

/// The limit for a request that shows no progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutClass {
    /// The proxy answers it itself, or the sender sets the limit.
    None,
    /// `timeout.tools` of the config.
    Tools,
    /// `timeout.resources`.
    Resources,
    /// `timeout.prompts`.
    Prompts,
    /// It waits for the end of something and is bounded only by the longest time that any call may take.
    Longest,
}

/// The properties that all requests of one method share.
#[derive(Debug)]
pub struct MethodInfo {
    /// The method itself, so that a test can compare the order of the table.
    method: Method,
    /// The name on the wire.
    pub name: &'static str,
    /// The capability that a server (or, for `Eras::ToClient`, a client) declares for it. `None`: no capability is
    /// needed.
    pub capability: Option<&'static str>,
    /// The eras that have it.
    pub eras: Eras,
    /// The limit without progress.
    pub timeout: TimeoutClass,
    /// Whether the answer may be `input_required` (2026-07-28), and a server may ask its client something meanwhile
    /// on behalf of a user who waits.
    pub may_request_input: bool,
    /// Whether sending it again after a broken connection does no harm. For `tools/call` the tool's annotations decide.
    pub repeatable: bool,
    /// Whether results say how long they may be cached (2026-07-28).
    pub has_cache_hints: bool,
}

const fn row(
    method: Method,
    name: &'static str,
    capability: Option<&'static str>,
    eras: Eras,
    timeout: TimeoutClass,
) -> MethodInfo {
    let (may_request_input, repeatable, has_cache_hints) = (false, true, false);
    MethodInfo { method, name, capability, eras, timeout, may_request_input, repeatable, has_cache_hints }
}

impl MethodInfo {
    /// Marks a method whose answer may ask the client for input.
    const fn with_input(self) -> Self {
        Self { may_request_input: true, ..self }
    }

    /// Marks a method that must not be sent twice.
    const fn not_repeatable(self) -> Self {
        Self { repeatable: false, ..self }
    }

    /// Marks a method whose results say how long they may be cached.
    const fn cacheable(self) -> Self {
        Self { has_cache_hints: true, ..self }
    }
}

/// The rows of all methods, in the order of the enum.
static METHODS: [MethodInfo; 28] = {
    use Eras::{Both, Handshake, Stateless, ToClient};
    use Method as M;
    use TimeoutClass::{Longest, None as Own, Prompts, Resources, Tools};
    const TOOLS: Option<&str> = Some(capability::TOOLS);
    const RESOURCES: Option<&str> = Some(capability::RESOURCES);
    const PROMPTS: Option<&str> = Some(capability::PROMPTS);
    const TASKS: Option<&str> = Some(capability::TASKS);
    [
        row(M::ToolsCall, "tools/call", TOOLS, Both, Tools).with_input().not_repeatable(),
        row(M::Initialize, "initialize", None, Handshake, Own),
        row(M::Ping, "ping", None, Handshake, Own),
        row(M::ServerDiscover, "server/discover", None, Stateless, Own).cacheable(),
        row(M::ToolsList, "tools/list", TOOLS, Both, Own).cacheable(),
        row(M::ToolsDescribe, "tools/describe", TOOLS, Both, Own),
        row(M::ToolsDescribeBatch, "tools/describe_batch", TOOLS, Both, Own),
        row(M::ResourcesList, "resources/list", RESOURCES, Both, Resources).cacheable(),
        row(M::ResourceTemplatesList, "resources/templates/list", RESOURCES, Both, Resources).cacheable(),
        row(M::ResourcesRead, "resources/read", RESOURCES, Both, Resources).with_input().cacheable(),
        row(M::ResourcesSubscribe, "resources/subscribe", RESOURCES, Handshake, Resources),
        row(M::ResourcesUnsubscribe, "resources/unsubscribe", RESOURCES, Handshake, Resources),
        row(M::ResourcesDirectoryRead, "resources/directory/read", RESOURCES, Both, Resources),
        row(M::SkillsList, "skills/list", RESOURCES, Both, Resources).cacheable(),
        row(M::SkillsGet, "skills/get", RESOURCES, Both, Resources).cacheable(),
        row(M::SubscriptionsListen, "subscriptions/listen", None, Stateless, Own),
        row(M::PromptsList, "prompts/list", PROMPTS, Both, Prompts).cacheable(),
        row(M::PromptsGet, "prompts/get", PROMPTS, Both, Prompts).with_input(),
        row(M::CompletionComplete, "completion/complete", Some(capability::COMPLETIONS), Both, Resources),
        row(M::LoggingSetLevel, "logging/setLevel", Some(capability::LOGGING), Handshake, Own),
        row(M::TasksList, "tasks/list", TASKS, Handshake, Tools),
        row(M::TasksGet, "tasks/get", TASKS, Both, Tools),
        row(M::TasksResult, "tasks/result", TASKS, Handshake, Longest),
        row(M::TasksUpdate, "tasks/update", TASKS, Stateless, Tools).not_repeatable(),
        row(M::TasksCancel, "tasks/cancel", TASKS, Both, Tools).not_repeatable(),
        row(M::RootsList, "roots/list", Some(capability::ROOTS), ToClient, Own),
        row(M::SamplingCreateMessage, "sampling/createMessage", Some(capability::SAMPLING), ToClient, Own),
        row(M::ElicitationCreate, "elicitation/create", Some(capability::ELICITATION), ToClient, Own),
    ]
};

impl Method {
    /// Returns the method with this name on the wire, if the proxy knows it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::of_bytes(name.as_bytes())
    }

    /// Finds the method of a name in bytes.
    pub(crate) fn of_bytes(name: &[u8]) -> Option<Self> {
        METHODS.iter().find(|info| info.name.as_bytes() == name).map(|info| info.method)
    }

    /// Returns the method's row of the table.
    pub fn info(self) -> &'static MethodInfo {
        &METHODS[self as usize]
    }

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the extension that a server declares for it, in addition to the capability.
    pub fn extension(self) -> Option<&'static str> {
        match self {
            Self::ResourcesDirectoryRead | Self::SkillsList | Self::SkillsGet => Some(SKILLS_EXTENSION),
            _ => None,
        }
    }

    /// Returns whether clients of this era may send it.
    pub fn is_of(self, era: Era) -> bool {
        match self.info().eras {
            Eras::Both => true,
            Eras::Handshake => era == Era::Handshake,
            Eras::Stateless => era == Era::Stateless,
            Eras::ToClient => false,
        }
    }
}

/// Names of notifications.
pub mod notification {
    /// The client has read the answer to `initialize`.
    pub const INITIALIZED: &str = "notifications/initialized";
    /// A request is given up by its sender.
    pub const CANCELLED: &str = "notifications/cancelled";
    /// A request or a task makes progress.
    pub const PROGRESS: &str = "notifications/progress";
    /// A log message of a server.
    pub const MESSAGE: &str = "notifications/message";
    /// The client's roots changed.
    pub const ROOTS_LIST_CHANGED: &str = "notifications/roots/list_changed";
    /// The server's tools changed.
    pub const TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
    /// The server's resources changed.
    pub const RESOURCES_LIST_CHANGED: &str = "notifications/resources/list_changed";
    /// The server's prompts changed.
    pub const PROMPTS_LIST_CHANGED: &str = "notifications/prompts/list_changed";
    /// A resource that the client subscribed to changed.
    pub const RESOURCES_UPDATED: &str = "notifications/resources/updated";
    /// The page of a URL elicitation is done (2025-11-25).
    pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
    /// A task changed (2025-11-25).
    pub const TASKS_STATUS: &str = "notifications/tasks/status";
    /// A task changed (the tasks extension of 2026-07-28).
    pub const TASKS: &str = "notifications/tasks";
    /// A `subscriptions/listen` is in force (2026-07-28).
    pub const SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (index, info) in METHODS.iter().enumerate() {
            assert_eq!(info.method as usize, index, "{}", info.name);
            assert_eq!(Method::parse(info.name), Some(info.method));
            assert_eq!(info.method.name(), info.name);
        }
        assert_eq!(Method::parse("no/such"), None);
    }

    #[test]
    fn only_requests_that_a_user_waits_for_may_ask_for_input() {
        let asking: Vec<_> =
            METHODS.iter().filter(|info| info.may_request_input).map(|info| info.name).collect();
        assert_eq!(asking, ["tools/call", "resources/read", "prompts/get"]);
    }

    #[test]
    fn an_era_has_only_its_own_methods() {
        for (method, handshake, stateless) in [
            (Method::Initialize, true, false),
            (Method::ServerDiscover, false, true),
            (Method::ToolsCall, true, true),
            (Method::TasksResult, true, false),
            (Method::TasksUpdate, false, true),
            (Method::RootsList, false, false),
        ] {
            assert_eq!(method.is_of(Era::Handshake), handshake, "{method:?}");
            assert_eq!(method.is_of(Era::Stateless), stateless, "{method:?}");
        }
    }
}
