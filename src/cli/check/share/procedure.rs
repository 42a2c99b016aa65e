//! The steps of the test. The first finding ends it: later ones would only repeat it.

use super::requests::MAX_REQUESTS;
use super::share_test::{ShareTest, TestEnd, no_answer};
use super::tested_server::{REQUEST_TIMEOUT, TestedProcess, raw};
use super::traces::{look, written};
use base::random::hex_id;
use base::text::{quoted, shorten};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use wire::peer::CallOptions;

/// How many requests one process gets in random order, and how long that may take.
const MANY_CALLS: usize = 1000;
const MANY_TIME: Duration = Duration::from_secs(10);
/// How many rounds of requests are made at the same time, and how many requests a round has at most and at least.
const ROUNDS: usize = 4;
const ROUND_CALLS: (u128, u128) = (8, 60);
/// How long the requests of a round may take one after the other.
const ROUND_TIME: Duration = Duration::from_secs(5);
/// A request that takes this long must not delay others.
const SLOW: Duration = Duration::from_millis(400);
/// How much later the others are sent.
const HEAD_START: Duration = Duration::from_millis(50);
/// How many characters of a failed answer are shown.
const MAX_ANSWER: usize = 160;

impl ShareTest<'_> {
    /// Makes the test. Returns the value of `share` to propose, and adds to `missing` what was not tested.
    ///
    /// # Errors
    ///
    /// It ends early.
    pub(super) async fn run(&mut self, missing: &mut Vec<String>) -> Result<&'static str, TestEnd> {
        if self.requests.len() > MAX_REQUESTS {
            let text =
                format!("it has {} requests, and at most {MAX_REQUESTS} are tested", self.requests.len());
            return Err(TestEnd::Unfinished(text));
        }
        if self.requests.is_empty() {
            return Err(TestEnd::Unfinished("there is nothing to call".to_owned()));
        }
        let oldest = self.once(missing).await?;
        let since = Instant::now();
        self.pairs().await?;
        self.many().await?;
        self.at_once().await?;
        self.slow().await?;
        self.show("after idling");
        let when = format!("{} s after the last request", since.elapsed().as_secs());
        for index in (0..self.requests.len()).rev() {
            self.compare(&oldest, index, &when).await?;
        }
        self.finish(oldest).await?;
        let last = self.start().await?;
        self.compare_all(&last, "in a process that starts after all others").await?;
        self.finish(last).await?;
        if self.files.is_none() {
            missing.push(
                "its working directory has too many files to see which it writes; try it in a smaller one"
                    .to_owned(),
            );
        }
        Ok(if self.server.stdio.cwd.is_some() || self.depends_on_directory().await? {
            "directory"
        } else {
            "user"
        })
    }

    /// Asks each request once in one process. Adds the tools without two successful calls, or one if they take no
    /// arguments, to `missing`. Returns the process.
    async fn once(&mut self, missing: &mut Vec<String>) -> Result<TestedProcess, TestEnd> {
        let mut process = self.start().await?;
        let mut tools: BTreeMap<String, (usize, String)> = BTreeMap::new();
        for index in 0..self.requests.len() {
            self.show(&format!("request {} of {}", index + 1, self.requests.len()));
            let answer = self.ask(&process, index, "after the others").await?;
            let request = &self.requests[index];
            self.check_traces(&mut process).await.map_err(|end| match end {
                TestEnd::Found(what) => TestEnd::Found(format!("after {request}: {what}")),
                end => end,
            })?;
            if let Some(tool) = request.tool() {
                let (successes, failure) = tools.entry(tool.to_owned()).or_default();
                match answer.is_success {
                    true => *successes += 1,
                    false => *failure = format!("{request} gets {}", shorten(&answer.text, MAX_ANSWER)),
                }
            }
            self.unknown.push((index, answer.text, "after others".to_owned()));
        }
        for tool in self.lists["tools"].as_array().into_iter().flatten() {
            let name = tool["name"].as_str().unwrap_or_default();
            let takes_arguments =
                tool["inputSchema"]["properties"].as_object().is_some_and(|all| !all.is_empty());
            let (name, found) = (quoted(name), tools.get(name));
            match found {
                Some((0, failure)) => missing.push(format!("no call of {name} succeeded: {failure}")),
                Some((1, _)) if takes_arguments => {
                    missing.push(format!("{name} was called with one set of arguments only"));
                }
                _ => {}
            }
        }
        Ok(process)
    }

    /// For each request a fresh process. The answer to its first request is the one that every session must get. Then
    /// the request comes again, and before and after each other one.
    async fn pairs(&mut self) -> Result<(), TestEnd> {
        let count = self.requests.len();
        for first in 0..count {
            self.show(&format!("pairs {} of {count}", first + 1));
            let process = self.start().await?;
            let text = self.ask(&process, first, "in a fresh process").await?.text;
            for (index, earlier, when) in std::mem::take(&mut self.unknown) {
                match index == first {
                    true => self.same(first, &text, &earlier, &when)?,
                    false => self.unknown.push((index, earlier, when)),
                }
            }
            self.known[first] = Some(text);
            self.compare(&process, first, "when it is repeated").await?;
            let mut others: Vec<usize> = (0..count).filter(|other| *other != first).collect();
            others.sort_by_cached_key(|_| self.order.next());
            for other in others {
                let (after_first, after_other) =
                    (format!("after {}", self.requests[first]), format!("after {}", self.requests[other]));
                self.compare(&process, other, &after_first).await?;
                self.compare(&process, first, &after_other).await?;
            }
            self.finish(process).await?;
        }
        Ok(())
    }

    /// Many requests in random order in one process, without those that take long.
    async fn many(&mut self) -> Result<(), TestEnd> {
        self.show("many requests");
        let least = self.took.iter().min().copied().unwrap_or_default();
        let limit = Duration::from_millis(50).max(least * 4);
        let quick: Vec<usize> = (0..self.requests.len()).filter(|index| self.took[*index] <= limit).collect();
        let (process, began) = (self.start().await?, Instant::now());
        for count in 0..MANY_CALLS {
            if began.elapsed() > MANY_TIME {
                break;
            }
            let index = quick[self.order.below(quick.len())];
            self.compare(&process, index, &format!("after {count} others")).await?;
        }
        self.finish(process).await
    }

    /// Requests at the same time. In the second half of the rounds some are cancelled.
    async fn at_once(&mut self) -> Result<(), TestEnd> {
        self.show("requests at the same time");
        let process = self.start().await?;
        let mean = self.took.iter().sum::<Duration>().as_micros() / self.took.len() as u128;
        let count = (ROUND_TIME.as_micros() / mean.max(1)).clamp(ROUND_CALLS.0, ROUND_CALLS.1);
        for round in 0..ROUNDS {
            let cancels = round >= ROUNDS / 2;
            let when = if cancels {
                "beside other calls, some of which are cancelled"
            } else {
                "beside other calls"
            };
            let mut calls = JoinSet::new();
            for number in 0..count {
                let index = self.order.below(self.requests.len());
                let (peer, method) = (process.peer.clone(), self.requests[index].method.name());
                let (params, options) =
                    (raw(&self.requests[index].params), CallOptions::within(REQUEST_TIMEOUT));
                if cancels && number % 10 == 7 {
                    // Dropping a call cancels it.
                    drop(peer.send_call(method, Some(&params), &options).await);
                } else {
                    calls.spawn(async move { (index, peer.call(method, Some(params), options).await) });
                }
            }
            while let Some(called) = calls.join_next().await {
                let Ok((index, reply)) = called else { continue };
                self.answers += 1;
                let request = &self.requests[index];
                let reply = reply.map_err(|error| no_answer(request, when, &error))?;
                self.compare_known(index, &request.answer(&reply), when)?;
            }
        }
        self.compare_all(&process, "after calls at the same time").await?;
        self.finish(process).await
    }

    /// The slowest request, and soon after it the quickest one, which must not wait for it.
    async fn slow(&mut self) -> Result<(), TestEnd> {
        let by_time = |index: &usize| self.took[*index];
        let all = 0..self.requests.len();
        let (Some(quick), Some(slow)) = (all.clone().min_by_key(by_time), all.max_by_key(by_time)) else {
            return Ok(());
        };
        if self.took[slow] < SLOW.max(self.took[quick] * 3) {
            return Ok(());
        }
        self.show("a slow request");
        let process = self.start().await?;
        let ask = |index: usize| process.ask(self.requests[index].method, &self.requests[index].params);
        let delayed = async {
            sleep(HEAD_START).await;
            drop(ask(quick).await);
            Instant::now()
        };
        let slow_one = async {
            drop(ask(slow).await);
            Instant::now()
        };
        let (quick_end, slow_end) = tokio::join!(delayed, slow_one);
        if quick_end > slow_end {
            let (slow, quick) = (&self.requests[slow], &self.requests[quick]);
            return Err(TestEnd::Found(format!("{slow} holds up other calls, such as {quick}")));
        }
        self.finish(process).await
    }

    /// Starts the server in an empty directory. Returns whether it needs its own one, or has other lists or answers.
    async fn depends_on_directory(&mut self) -> Result<bool, TestEnd> {
        self.show("another directory");
        let temporary = self.server.env.var("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        let dir = EmptyDir(temporary.join(format!("dynamic-mcp-{}", hex_id())));
        fs::create_dir(&dir.0)
            .map_err(|error| TestEnd::Unfinished(format!("no directory can be made: {error}")))?;
        self.starts += 1;
        let Ok(process) = self.server.start(self.starts, Some(&dir.0)).await else { return Ok(true) };
        let lists = process.lists(self.server.config.common.features).await;
        let mut differs = !lists.is_ok_and(|lists| lists == self.lists);
        for index in 0..self.requests.len() {
            let request = &self.requests[index];
            let reply = process.ask(request.method, &request.params).await;
            let text = reply.ok().map(|reply| request.answer(&reply).text);
            differs |= text != self.known[index];
        }
        let (_, files) = look(process.pid(), &dir.0).await.map_err(TestEnd::Unfinished)?;
        process.close().await;
        match written(&Some(BTreeMap::new()), &files) {
            Some(files) => {
                Err(TestEnd::Found(format!("it writes files into its working directory: {files}")))
            }
            None => Ok(differs),
        }
    }
}

/// A directory of ours. It is removed with everything in it.
struct EmptyDir(PathBuf);

impl Drop for EmptyDir {
    fn drop(&mut self) {
        fs::remove_dir_all(Path::new(&self.0)).ok();
    }
}
