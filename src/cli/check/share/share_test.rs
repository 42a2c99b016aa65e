//! What every step of the test does: it starts processes, asks requests, compares the answers, and looks for what is left.

use super::requests::{TestAnswer, TestRequest, difference};
use super::tested_server::{TestedProcess, TestedServer};
use super::traces::{DirectoryFiles, look, written};
use base::text::quoted;
use serde_json::Value;
use std::time::Duration;
use terminal::ProgressLine;
use tokio::time::{Instant, sleep};
use wire::peer::CallError;

/// How long a server may take to ask its client something after a call, or after the handshake.
const SILENCE: Duration = Duration::from_millis(300);

/// Why the test ends early.
pub(super) enum TestEnd {
    /// The server cannot be shared, for this reason.
    Found(String),
    /// The test cannot go on, for this reason.
    Unfinished(String),
}

/// The test of one server.
pub(super) struct ShareTest<'a> {
    pub(super) server: &'a TestedServer,
    /// Shows the step.
    progress: ProgressLine,
    /// What the first process listed.
    pub(super) lists: Value,
    /// The files below the working directory, as the first process left them.
    pub(super) files: DirectoryFiles,
    pub(super) requests: Vec<TestRequest>,
    /// The answer to each request as the first of a fresh process, once it is known.
    pub(super) known: Vec<Option<String>>,
    /// The answers that came before, with their requests and circumstances.
    pub(super) unknown: Vec<(usize, String, String)>,
    /// The shortest time that each request took.
    pub(super) took: Vec<Duration>,
    pub(super) order: RandomOrder,
    /// How many processes were started.
    pub(super) starts: usize,
    /// How many requests were answered.
    pub(super) answers: usize,
}

impl<'a> ShareTest<'a> {
    /// Starts the server for the first time, and reads its lists.
    ///
    /// # Errors
    ///
    /// It does not start, or asks its client something.
    pub(super) async fn begin(server: &'a TestedServer) -> Result<Self, TestEnd> {
        let mut test = Self {
            server,
            progress: ProgressLine::on_stderr(),
            lists: Value::Null,
            files: None,
            requests: Vec::new(),
            known: Vec::new(),
            unknown: Vec::new(),
            took: Vec::new(),
            order: RandomOrder(14),
            starts: 0,
            answers: 0,
        };
        test.show("handshake");
        let process = test.start().await?;
        test.finish(process).await?;
        Ok(test)
    }

    /// Sets the requests.
    pub(super) fn set_requests(&mut self, requests: Vec<TestRequest>) {
        self.known = requests.iter().map(|_| None).collect();
        self.took = vec![Duration::MAX; requests.len()];
        self.requests = requests;
    }

    /// Starts a process, whose lists must be those of the first one.
    pub(super) async fn start(&mut self) -> Result<TestedProcess, TestEnd> {
        let failed = |why: String| TestEnd::Unfinished(format!("the server {why}"));
        let mut process = self.server.start(self.starts, None).await.map_err(failed)?;
        self.starts += 1;
        let lists = process.lists(self.server.config.common.features).await.map_err(failed)?;
        let (traces, files) =
            look(process.pid(), &self.server.launch.cwd).await.map_err(TestEnd::Unfinished)?;
        process.traces = traces;
        if self.lists.is_null() {
            (self.lists, self.files) = (lists, files);
        } else if lists != self.lists {
            let differs = difference(&lists.to_string(), &self.lists.to_string());
            let client = quoted(process.client);
            let text =
                format!("it shows other lists to the client {client}, or in another process: {differs}");
            return Err(TestEnd::Found(text));
        }
        Ok(process)
    }

    /// Looks for what requests have left, and ends the process.
    pub(super) async fn finish(&mut self, mut process: TestedProcess) -> Result<(), TestEnd> {
        sleep(SILENCE).await;
        self.check_traces(&mut process).await?;
        let lists = process.lists(self.server.config.common.features).await;
        if !lists.is_ok_and(|lists| lists == self.lists) {
            return Err(TestEnd::Found("its lists differ after calls".to_owned()));
        }
        process.close().await;
        Ok(())
    }

    pub(super) async fn check_traces(&self, process: &mut TestedProcess) -> Result<(), TestEnd> {
        let (traces, files) =
            look(process.pid(), &self.server.launch.cwd).await.map_err(TestEnd::Unfinished)?;
        let written = || {
            let files = written(&self.files, &files)?;
            Some(format!("it, or another program, writes files below its working directory: {files}"))
        };
        match process.heard().or_else(|| process.traces.left(&traces)).or_else(written) {
            Some(found) => Err(TestEnd::Found(found)),
            None => Ok(()),
        }
    }

    pub(super) async fn ask(
        &mut self,
        process: &TestedProcess,
        index: usize,
        when: &str,
    ) -> Result<TestAnswer, TestEnd> {
        let (request, began) = (&self.requests[index], Instant::now());
        let reply = process.ask(request.method, &request.params).await;
        let was_answered = self.took[index] != Duration::MAX;
        let reply = reply.map_err(|error| match error {
            CallError::TimedOut(_) if !was_answered => TestEnd::Unfinished(format!("{request}: {error}")),
            error => no_answer(request, when, &error),
        })?;
        self.answers += 1;
        self.took[index] = self.took[index].min(began.elapsed());
        Ok(request.answer(&reply))
    }

    /// Asks a request again. The answer must be that of a fresh process, once that is known.
    pub(super) async fn compare(
        &mut self,
        process: &TestedProcess,
        index: usize,
        when: &str,
    ) -> Result<(), TestEnd> {
        let answer = self.ask(process, index, when).await?;
        match self.known[index] {
            Some(_) => self.compare_known(index, &answer, when),
            None => {
                self.unknown.push((index, answer.text, when.to_owned()));
                Ok(())
            }
        }
    }

    pub(super) async fn compare_all(&mut self, process: &TestedProcess, when: &str) -> Result<(), TestEnd> {
        for index in 0..self.requests.len() {
            self.compare(process, index, when).await?;
        }
        Ok(())
    }

    pub(super) fn compare_known(&self, index: usize, answer: &TestAnswer, when: &str) -> Result<(), TestEnd> {
        let known = self.known[index].as_deref().unwrap_or_default();
        self.same(index, known, &answer.text, when)
    }

    pub(super) fn same(&self, index: usize, known: &str, answer: &str, when: &str) -> Result<(), TestEnd> {
        if known == answer {
            return Ok(());
        }
        let (request, differs) = (&self.requests[index], difference(answer, known));
        Err(TestEnd::Found(format!("{request} has another result {when}: {differs}")))
    }

    pub(super) fn show(&mut self, step: &str) {
        let name = base::text::name(self.server.name.as_str());
        self.progress.show(&format!("{name}: {step}"));
    }
}

/// Returns the finding for a request that is not answered, although it was answered in another process.
pub(super) fn no_answer(request: &TestRequest, when: &str, error: &CallError) -> TestEnd {
    TestEnd::Found(match error {
        CallError::Closed { .. } => format!("its process ends {when}, or with {request}"),
        error => format!("{request} has no answer {when}: {error}"),
    })
}

/// Random numbers that are the same at each run (xorshift64).
pub(super) struct RandomOrder(u64);

impl RandomOrder {
    pub(super) fn next(&mut self) -> u64 {
        for shift in [13, -7, 17_i32] {
            self.0 ^= if shift > 0 { self.0 << shift } else { self.0 >> -shift };
        }
        self.0
    }

    /// Returns a number below `count`, which is not 0.
    pub(super) fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count as u64).unwrap_or_default()
    }
}
