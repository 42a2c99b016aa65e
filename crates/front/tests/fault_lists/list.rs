//! What happens in one session, as a value: which servers there are, and every step of the client, of the servers and of
//! the user. proptest makes lists and shrinks them; serde keeps those that failed.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// One list of faults.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FaultList {
    /// The servers of the config. They are called `s0`, `s1`, ….
    pub(crate) servers: Vec<ServerPlan>,
    /// The client.
    pub(crate) client: ClientPlan,
    /// Whether `tools/list` has all tools of all servers.
    pub(crate) is_flat: bool,
    /// What happens, in this order.
    pub(crate) steps: Vec<Step>,
    /// How it ends.
    pub(crate) ending: Ending,
}

/// How a server behaves as long as nothing else happens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ServerPlan {
    pub(crate) mode: ServerMode,
    pub(crate) era: ServerEra,
    /// Whether the config has an address and not a program.
    pub(crate) is_remote: bool,
    pub(crate) is_stateful: bool,
    /// In seconds.
    pub(crate) idle_timeout: u16,
    /// Whether `tools/list` has its tools.
    pub(crate) is_exposed: bool,
    /// How many entries a page of a list has; 0: all.
    pub(crate) page: u8,
    /// Whether it has tools, resources and prompts or tools alone.
    pub(crate) has_all_lists: bool,
    /// Whether it refuses a revision before it asks for a login.
    #[serde(default)]
    pub(crate) refuses_before_login: bool,
    /// How long a start takes, in milliseconds.
    #[serde(default)]
    pub(crate) start: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ServerMode {
    Eager,
    Pure,
    Hybrid,
}

/// The revisions that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ServerEra {
    Handshake,
    Stateless,
    Both,
    /// Both, and its answer to `initialize` names the stateless revision.
    BothByName,
    /// It names the stateless revision and does not speak it.
    HandshakeByName,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClientPlan {
    /// An index into the revisions of the handshake era; `None`: the client is stateless.
    pub(crate) handshake: Option<u8>,
    pub(crate) can_answer: bool,
    /// How many bytes the pipes to and from the client hold.
    pub(crate) pipe: u32,
    /// How long after the answer to `initialize` it sends `notifications/initialized`, in milliseconds; `None`: never.
    pub(crate) initialized_after: Option<u32>,
    /// Whether it asks before that.
    pub(crate) is_early: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    /// The client sends a request. `server` and `pick` choose what it is about.
    Request { kind: RequestKind, server: u8, pick: u8 },
    /// The client sends several requests at once.
    Burst { kind: RequestKind, server: u8, count: u8 },
    /// The client cancels one of its open requests.
    Cancel(u8),
    /// The client reads nothing any more, or goes on.
    Read(bool),
    /// How the client answers questions from now on.
    Answer(AnswerPlan),
    /// The client sends a notification, or something that is no message.
    Send(ClientNoise),
    /// Something happens to a server.
    Server { server: u8, fault: Fault },
    /// The user edits the config.
    Edit { server: u8, edit: Edit },
    /// The user reconnects a group.
    Reconnect(u8),
    /// Time passes, in milliseconds.
    Wait(u32),
    /// The session ends, and another one begins, with the same cache or with an empty one.
    Restart { keeps_cache: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RequestKind {
    ToolsList,
    GetTools,
    Search,
    Status,
    /// `call_dynamic_tool` with the group and the tool.
    Call,
    /// With the tool alone.
    CallWithoutGroup,
    /// Under the tool's exposed name.
    CallDirectly,
    CallReadOnly,
    CallAsTask,
    ResourcesList,
    TemplatesList,
    Read,
    /// A resource that no server lists.
    ReadUnknown,
    Subscribe,
    Unsubscribe,
    PromptsList,
    PromptGet,
    Complete,
    SetLevel,
    Ping,
    TaskGet,
    TaskResult,
    TaskCancel,
    TasksList,
    Listen,
    Discover,
    Unknown,
}

/// What a client does with a question of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AnswerPlan {
    Accept,
    Decline,
    /// The user closes the question.
    Dismiss,
    Error,
    /// After two seconds.
    Late,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClientNoise {
    RootsChanged,
    UnknownNotification,
    CancelUnknown,
    NoJson,
    NoMessage,
    Batch,
    UnknownAnswer,
}

/// What goes wrong at a server, or changes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fault {
    /// Nothing is wrong any more.
    Heal,
    /// It takes this long for each answer, in milliseconds.
    Delay(u16),
    /// It answers nothing.
    Hang,
    /// It reads nothing.
    StopReading,
    /// Its process or connection ends.
    End,
    /// It ends after so many more bytes of output.
    EndAfter(u16),
    /// It writes something that is no message.
    Garbage(Garbage),
    /// It sends so many notifications at once.
    Flood(u16),
    /// Its lists change, and it says so.
    ChangeLists,
    /// Its lists change while no connection is open, or silently.
    ChangeListsSilently,
    /// It lists nothing any more, or lists again.
    ToggleEmpty,
    /// It asks the client something during each call from now on, or stops that.
    Ask(Question),
    /// A resource changes.
    UpdateResource,
    /// The next calls fail with an error.
    AnswerErrors,
    /// It wants a login.
    ExpireLogin,
    /// The next starts fail.
    RefuseStarts(u8),
    /// A start takes this long, in milliseconds.
    SlowStart(u16),
    /// It ends its subscriptions: by an answer, or by a cancellation.
    EndSubscriptions(bool),
    /// It does not answer the methods of the other era any more: a new version.
    ChangeEra(ServerEra),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Garbage {
    NoJson,
    HalfMessage,
    NoUtf8,
    UnknownAnswer,
    SecondAnswer,
    NullId,
    EmptyLines,
    TooLong,
    UnknownRequest,
    Cancel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    None,
    Elicitation,
    Sampling,
    Roots,
    Ping,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Edit {
    /// Another idle timeout.
    Settings,
    /// Another program.
    Program,
    Mode(ServerMode),
    /// Denies a tool, or allows it again.
    Deny,
    /// Removes the server, or adds it again.
    Remove,
    /// Removes the server, and adds it again at once.
    RemoveAndAdd,
    /// The entry is invalid, or valid again.
    Invalid,
    /// The file is broken, or whole again.
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    /// Every server works again. After two minutes everything must work as if nothing had happened.
    Recover,
    /// The client closes its end.
    Eof,
    /// A signal.
    Stop,
    /// The client goes without a word.
    Gone,
}

/// The strategy for lists.
pub(crate) fn lists() -> impl Strategy<Value = FaultList> {
    (
        prop::collection::vec(server(), 1..4),
        client(),
        prop::bool::weighted(0.2),
        prop::collection::vec(step(), 8..48),
        prop_oneof![6 => Just(Ending::Recover), 1 => Just(Ending::Eof), 1 => Just(Ending::Stop), 1 => Just(Ending::Gone)],
    )
        .prop_map(|(servers, client, is_flat, steps, ending)| FaultList { servers, client, is_flat, steps, ending })
}

fn mode() -> impl Strategy<Value = ServerMode> {
    prop::sample::select(vec![ServerMode::Hybrid, ServerMode::Eager, ServerMode::Pure])
}

fn era() -> impl Strategy<Value = ServerEra> {
    prop_oneof![
        4 => Just(ServerEra::Handshake),
        3 => Just(ServerEra::Stateless),
        1 => Just(ServerEra::Both),
        1 => Just(ServerEra::BothByName),
        1 => Just(ServerEra::HandshakeByName),
    ]
}

fn server() -> impl Strategy<Value = ServerPlan> {
    let flags = (
        prop::bool::weighted(0.4),
        prop::bool::weighted(0.2),
        any::<bool>(),
        prop::bool::weighted(0.7),
        any::<bool>(),
    );
    let start = prop_oneof![2 => Just(0_u16), 1 => 0..900_u16];
    (mode(), era(), flags, prop::sample::select(vec![0_u16, 2, 10, 60, 300]), 0_u8..3, start).prop_map(
        |(mode, era, flags, idle_timeout, page, start)| {
            let (is_remote, is_stateful, is_exposed, has_all_lists, refuses_before_login) = flags;
            ServerPlan {
                mode,
                era,
                is_remote,
                is_stateful,
                idle_timeout,
                is_exposed,
                page,
                has_all_lists,
                refuses_before_login,
                start,
            }
        },
    )
}

fn client() -> impl Strategy<Value = ClientPlan> {
    let handshake = prop_oneof![3 => (0_u8..4).prop_map(Some), 1 => Just(None)];
    let pipe = prop::sample::select(vec![256_u32, 4 << 10, 64 << 10, 1 << 20]);
    let after = prop_oneof![6 => Just(Some(0_u32)), 2 => (0..5000_u32).prop_map(Some), 1 => Just(None)];
    (handshake, prop::bool::weighted(0.8), pipe, after, prop::bool::weighted(0.3)).prop_map(
        |(handshake, can_answer, pipe, initialized_after, is_early)| ClientPlan {
            handshake,
            can_answer,
            pipe,
            initialized_after,
            is_early,
        },
    )
}

fn kind() -> impl Strategy<Value = RequestKind> {
    use RequestKind as K;
    prop_oneof![
        6 => Just(K::Call),
        2 => Just(K::CallWithoutGroup),
        3 => Just(K::CallDirectly),
        1 => Just(K::CallReadOnly),
        2 => Just(K::CallAsTask),
        2 => Just(K::ToolsList),
        2 => Just(K::GetTools),
        9 => prop::sample::select(vec![
            K::Search, K::Status, K::ResourcesList, K::TemplatesList, K::PromptsList, K::PromptGet, K::Complete,
            K::SetLevel, K::Ping, K::TasksList, K::Discover, K::Unknown,
        ]),
        2 => Just(K::Read),
        1 => Just(K::ReadUnknown),
        2 => Just(K::Subscribe),
        1 => Just(K::Unsubscribe),
        2 => Just(K::Listen),
        3 => prop::sample::select(vec![K::TaskGet, K::TaskResult, K::TaskCancel]),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let garbage = prop::sample::select(vec![
        Garbage::NoJson,
        Garbage::HalfMessage,
        Garbage::NoUtf8,
        Garbage::UnknownAnswer,
        Garbage::SecondAnswer,
        Garbage::NullId,
        Garbage::EmptyLines,
        Garbage::TooLong,
        Garbage::UnknownRequest,
        Garbage::Cancel,
    ]);
    let question = prop::sample::select(vec![
        Question::None,
        Question::Elicitation,
        Question::Sampling,
        Question::Roots,
        Question::Ping,
    ]);
    prop_oneof![
        6 => Just(Fault::Heal),
        2 => (0..20_000_u16).prop_map(Fault::Delay),
        1 => Just(Fault::Hang),
        1 => Just(Fault::StopReading),
        3 => Just(Fault::End),
        1 => (0..3000_u16).prop_map(Fault::EndAfter),
        2 => garbage.prop_map(Fault::Garbage),
        1 => (1..2000_u16).prop_map(Fault::Flood),
        3 => Just(Fault::ChangeLists),
        1 => Just(Fault::ChangeListsSilently),
        1 => Just(Fault::ToggleEmpty),
        2 => question.prop_map(Fault::Ask),
        2 => Just(Fault::UpdateResource),
        1 => Just(Fault::AnswerErrors),
        4 => Just(Fault::ExpireLogin),
        1 => (1..8_u8).prop_map(Fault::RefuseStarts),
        1 => (0..20_000_u16).prop_map(Fault::SlowStart),
        1 => any::<bool>().prop_map(Fault::EndSubscriptions),
        1 => era().prop_map(Fault::ChangeEra),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        2 => Just(Edit::Settings),
        2 => Just(Edit::Program),
        1 => mode().prop_map(Edit::Mode),
        2 => Just(Edit::Deny),
        2 => Just(Edit::Remove),
        2 => Just(Edit::RemoveAndAdd),
        1 => Just(Edit::Invalid),
        1 => Just(Edit::Broken),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let noise = prop::sample::select(vec![
        ClientNoise::RootsChanged,
        ClientNoise::UnknownNotification,
        ClientNoise::CancelUnknown,
        ClientNoise::NoJson,
        ClientNoise::NoMessage,
        ClientNoise::Batch,
        ClientNoise::UnknownAnswer,
    ]);
    let answer = prop::sample::select(vec![
        AnswerPlan::Accept,
        AnswerPlan::Decline,
        AnswerPlan::Dismiss,
        AnswerPlan::Error,
        AnswerPlan::Late,
        AnswerPlan::Never,
    ]);
    let wait = prop_oneof![0..100_u32, 100..3000_u32, 3000..30_000_u32, 30_000..700_000_u32];
    prop_oneof![
        20 => (kind(), any::<u8>(), any::<u8>())
            .prop_map(|(kind, server, pick)| Step::Request { kind, server, pick }),
        2 => (kind(), any::<u8>(), 2..20_u8).prop_map(|(kind, server, count)| Step::Burst { kind, server, count }),
        2 => any::<u8>().prop_map(Step::Cancel),
        1 => any::<bool>().prop_map(Step::Read),
        1 => answer.prop_map(Step::Answer),
        1 => noise.prop_map(Step::Send),
        12 => (any::<u8>(), fault()).prop_map(|(server, fault)| Step::Server { server, fault }),
        3 => (any::<u8>(), edit()).prop_map(|(server, edit)| Step::Edit { server, edit }),
        1 => any::<u8>().prop_map(Step::Reconnect),
        10 => wait.prop_map(Step::Wait),
        2 => any::<bool>().prop_map(|keeps_cache| Step::Restart { keeps_cache }),
    ]
}
