//! The protocol between us and the warden process: frames on a stream socket.
//!
//! A frame is its length (`u32`), a kind (`u8`) and fields. Numbers are little endian; a string is its length and its
//! bytes. The three descriptors of a [`WardenRequest::Spawn`] accompany its first bytes (`SCM_RIGHTS`).
//!
//! Both ends are the same program, so no other version has to be supported. Each end only compares the versions,
//! because an upgrade may have replaced our executable between our start and that of the warden process.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use crate::transport::launch::Launch;
use crate::transport::stop_timeouts::StopTimeouts;

/// Changes with every change of a frame. It is the first field of the first message in each direction, so that every
/// version can read it.
pub(super) const VERSION: u32 = 2;

/// Far above what exec accepts (6 MB on Linux), and small enough to keep in memory.
pub(super) const MAX_FRAME_BYTES: usize = 16 << 20;

/// The step of a spawn that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpawnStep {
    /// chdir to the working directory.
    Chdir,
    /// fork and exec.
    Exec,
}

/// The upstreams of our warden processes that were killed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LostUpstreams {
    /// Their ids are smaller than this one.
    pub(super) below: u64,
    /// First and end of ids that belong to warden processes that live.
    pub(super) spared: Vec<(u64, u64)>,
    /// The pids of the last ones, for systems where owner marks cannot be read.
    pub(super) pids: Vec<u32>,
}

impl LostUpstreams {
    /// Whether the upstream with this id was lost. Elsewhere, processes do not show to which one they belong.
    #[cfg(any(target_os = "linux", test))]
    pub(super) fn contains(&self, id: u64) -> bool {
        id < self.below && !self.spared.iter().any(|(first, end)| (*first..*end).contains(&id))
    }
}

/// A message to the warden process.
pub(super) enum WardenRequest<'a> {
    /// The first message, sent once.
    Hello {
        /// Our [`VERSION`].
        version: u32,
        /// Our pid. The upstreams belong to this process.
        owner_pid: u32,
        /// The soft RLIMIT_NOFILE that upstreams get. Our own was raised.
        nofile: u64,
        /// The pids of our other warden processes. They were silent for too long, but keep their upstreams.
        older_wardens: Vec<u32>,
    },
    /// Ends what dead dynamic-mcp processes and killed warden processes of ours left behind. Not answered.
    EndOrphans(LostUpstreams),
    /// Starts an upstream; answered by `Forked` at once, then by `Spawned` or `SpawnFailed`; or by `SpawnFailed` alone.
    Spawn {
        /// The id of the upstream.
        id: u64,
        /// What to execute.
        launch: Cow<'a, Launch>,
    },
    /// Ends one upstream; answered by `Stopped`.
    Stop {
        /// The id of the upstream.
        id: u64,
        /// When to send signals.
        timeouts: StopTimeouts,
    },
    /// Ends every upstream and the warden process.
    Shutdown {
        /// When to send signals.
        timeouts: StopTimeouts,
    },
}

/// A message from the warden process.
pub(super) enum WardenEvent {
    /// The answer to `Hello`.
    Hello {
        /// The [`VERSION`] of the warden process.
        version: u32,
    },
    /// The first process of an upstream exists, and has not executed its program yet.
    Forked {
        /// The id of the upstream.
        id: u64,
        /// The pid of its first process.
        pid: u32,
    },
    /// An upstream runs.
    Spawned {
        /// The id of the upstream.
        id: u64,
    },
    /// An upstream does not run.
    SpawnFailed {
        /// The id of the upstream.
        id: u64,
        /// The system call that failed.
        step: SpawnStep,
        /// Why it failed.
        errno: i32,
    },
    /// The first process of an upstream exited.
    Exited {
        /// The id of the upstream.
        id: u64,
        /// The status as waitpid(2) returned it.
        status: i32,
    },
    /// A stop has finished.
    Stopped {
        /// The id of the upstream.
        id: u64,
        /// The number of processes that survived SIGKILL.
        survivors: u32,
    },
}

/// A frame that cannot be decoded: the other end is not the program that we expect.
#[derive(Debug, thiserror::Error)]
#[error("malformed frame")]
pub(super) struct MalformedFrame;

/// Removes the first whole frame from `input` and returns it.
pub(super) fn next_frame(input: &mut BytesMut) -> Result<Option<Bytes>, MalformedFrame> {
    let Some(head) = input.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(u32::from_le_bytes(*head)).map_err(|_| MalformedFrame)?;
    if length > MAX_FRAME_BYTES {
        return Err(MalformedFrame);
    }
    if input.len() < 4 + length {
        return Ok(None);
    }
    input.advance(4);
    Ok(Some(input.split_to(length).freeze()))
}

impl WardenRequest<'_> {
    /// Returns the whole frame.
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello { version, owner_pid, nofile, older_wardens } => {
                FrameWriter::new(0).u32(*version).u32(*owner_pid).u64(*nofile).pids(older_wardens)
            }
            Self::Spawn { id, launch } => {
                let frame = FrameWriter::new(1).u64(*id).string(launch.program.as_os_str());
                let frame = frame.string(launch.cwd.as_os_str()).length(launch.args.len());
                let frame = launch.args.iter().fold(frame, |frame, arg| frame.string(arg));
                let frame = frame.length(launch.env.len());
                launch.env.iter().fold(frame, |frame, (name, value)| frame.string(name).string(value))
            }
            Self::Stop { id, timeouts } => FrameWriter::new(2).u64(*id).timeouts(*timeouts),
            Self::Shutdown { timeouts } => FrameWriter::new(3).timeouts(*timeouts),
            Self::EndOrphans(LostUpstreams { below, spared, pids }) => {
                let frame = FrameWriter::new(4).u64(*below).pids(pids).length(spared.len());
                spared.iter().fold(frame, |frame, (first, end)| frame.u64(*first).u64(*end))
            }
        }
        .finish()
    }

    /// Decodes a frame without its length.
    pub(super) fn decode(frame: Bytes) -> Result<WardenRequest<'static>, MalformedFrame> {
        let mut fields = FrameReader(frame);
        let request = match fields.u8()? {
            0 => {
                let version = fields.u32()?;
                if version != VERSION {
                    return Ok(WardenRequest::Hello {
                        version,
                        owner_pid: 0,
                        nofile: 0,
                        older_wardens: Vec::new(),
                    });
                }
                let (owner_pid, nofile) = (fields.u32()?, fields.u64()?);
                WardenRequest::Hello {
                    version,
                    owner_pid,
                    nofile,
                    older_wardens: fields.list(FrameReader::u32)?,
                }
            }
            1 => {
                let id = fields.u64()?;
                let (program, cwd) = (fields.string()?.into(), fields.string()?.into());
                let args = fields.list(FrameReader::string)?;
                let env = fields.list(|fields| Ok((fields.string()?, fields.string()?)))?;
                WardenRequest::Spawn { id, launch: Cow::Owned(Launch { program, args, env, cwd }) }
            }
            2 => WardenRequest::Stop { id: fields.u64()?, timeouts: fields.timeouts()? },
            3 => WardenRequest::Shutdown { timeouts: fields.timeouts()? },
            4 => {
                let (below, pids) = (fields.u64()?, fields.list(FrameReader::u32)?);
                let spared = fields.list(|fields| Ok((fields.u64()?, fields.u64()?)))?;
                WardenRequest::EndOrphans(LostUpstreams { below, spared, pids })
            }
            _ => return Err(MalformedFrame),
        };
        fields.end().map(|()| request)
    }
}

impl WardenEvent {
    /// Returns the whole frame.
    pub(super) fn encode(&self) -> Vec<u8> {
        match *self {
            Self::Hello { version } => FrameWriter::new(0).u32(version),
            Self::Spawned { id } => FrameWriter::new(1).u64(id),
            Self::SpawnFailed { id, step, errno } => {
                FrameWriter::new(2).u64(id).u32(u32::from(step == SpawnStep::Exec)).i32(errno)
            }
            Self::Exited { id, status } => FrameWriter::new(3).u64(id).i32(status),
            Self::Stopped { id, survivors } => FrameWriter::new(4).u64(id).u32(survivors),
            Self::Forked { id, pid } => FrameWriter::new(5).u64(id).u32(pid),
        }
        .finish()
    }

    /// Decodes a frame without its length.
    pub(super) fn decode(frame: Bytes) -> Result<Self, MalformedFrame> {
        let mut fields = FrameReader(frame);
        let event = match fields.u8()? {
            0 => Self::Hello { version: fields.u32()? },
            1 => Self::Spawned { id: fields.u64()? },
            2 => {
                let (id, is_exec) = (fields.u64()?, fields.u32()? == 1);
                let step = if is_exec { SpawnStep::Exec } else { SpawnStep::Chdir };
                Self::SpawnFailed { id, step, errno: fields.i32()? }
            }
            3 => Self::Exited { id: fields.u64()?, status: fields.i32()? },
            4 => Self::Stopped { id: fields.u64()?, survivors: fields.u32()? },
            5 => Self::Forked { id: fields.u64()?, pid: fields.u32()? },
            _ => return Err(MalformedFrame),
        };
        fields.end().map(|()| event)
    }
}

/// Encodes a frame. Only a `Spawn` can be longer than [`MAX_FRAME_BYTES`]; its sender checks that.
struct FrameWriter(Vec<u8>);

impl FrameWriter {
    fn new(kind: u8) -> Self {
        Self(vec![0, 0, 0, 0, kind])
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    fn i32(self, value: i32) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    fn length(self, value: usize) -> Self {
        self.u32(u32::try_from(value).unwrap_or(u32::MAX))
    }

    fn pids(self, pids: &[u32]) -> Self {
        pids.iter().fold(self.length(pids.len()), |frame, pid| frame.u32(*pid))
    }

    fn string(self, value: &OsStr) -> Self {
        self.length(value.len()).bytes(value.as_bytes())
    }

    fn timeouts(self, timeouts: StopTimeouts) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.u64(millis(timeouts.sigterm_after)).u64(millis(timeouts.sigkill_after))
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// Decodes the fields of a frame.
struct FrameReader(Bytes);

impl FrameReader {
    fn u8(&mut self) -> Result<u8, MalformedFrame> {
        self.0.try_get_u8().map_err(|_| MalformedFrame)
    }

    fn u32(&mut self) -> Result<u32, MalformedFrame> {
        self.0.try_get_u32_le().map_err(|_| MalformedFrame)
    }

    fn i32(&mut self) -> Result<i32, MalformedFrame> {
        self.0.try_get_i32_le().map_err(|_| MalformedFrame)
    }

    fn u64(&mut self) -> Result<u64, MalformedFrame> {
        self.0.try_get_u64_le().map_err(|_| MalformedFrame)
    }

    fn string(&mut self) -> Result<OsString, MalformedFrame> {
        let length = usize::try_from(self.u32()?).map_err(|_| MalformedFrame)?;
        if length > self.0.len() {
            return Err(MalformedFrame);
        }
        Ok(OsString::from_vec(self.0.split_to(length).into()))
    }

    /// Every item takes bytes, so a count that is too large fails before it costs memory.
    fn list<T>(
        &mut self,
        item: impl Fn(&mut Self) -> Result<T, MalformedFrame>,
    ) -> Result<Vec<T>, MalformedFrame> {
        let count = self.u32()?;
        (0..count).map(|_| item(self)).collect()
    }

    fn timeouts(&mut self) -> Result<StopTimeouts, MalformedFrame> {
        Ok(StopTimeouts {
            sigterm_after: Duration::from_millis(self.u64()?),
            sigkill_after: Duration::from_millis(self.u64()?),
        })
    }

    fn end(self) -> Result<(), MalformedFrame> {
        if self.0.is_empty() { Ok(()) } else { Err(MalformedFrame) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> Launch {
        Launch {
            program: "/bin/x".into(),
            args: vec!["a b".into(), "".into(), OsString::from_vec(vec![0xff, 0xfe])],
            env: vec![("NAME".into(), "v=1".into())],
            cwd: "/tmp".into(),
        }
    }

    #[test]
    fn a_spawn_request_is_decoded_however_its_bytes_are_split() {
        let frame = WardenRequest::Spawn { id: 7, launch: Cow::Owned(launch()) }.encode();
        let mut input = BytesMut::new();
        for byte in &frame[..frame.len() - 1] {
            input.extend_from_slice(&[*byte]);
            assert!(next_frame(&mut input).unwrap().is_none());
        }
        input.extend_from_slice(&frame[frame.len() - 1..]);
        let WardenRequest::Spawn { id: 7, launch: decoded } =
            WardenRequest::decode(next_frame(&mut input).unwrap().unwrap()).unwrap()
        else {
            panic!("not the Spawn that was sent")
        };
        let expected = launch();
        assert_eq!(
            (&decoded.program, &decoded.args, &decoded.env, &decoded.cwd),
            (&expected.program, &expected.args, &expected.env, &expected.cwd)
        );
        assert!(input.is_empty());
    }

    #[test]
    fn lost_upstreams_are_those_of_no_living_warden_process() {
        let lost = LostUpstreams { below: 10, spared: vec![(2, 4), (8, u64::MAX)], pids: vec![7, 9] };
        let ids: Vec<u64> = (0..12).filter(|id| lost.contains(*id)).collect();
        assert_eq!(ids, [0, 1, 4, 5, 6, 7]);
        let frame = WardenRequest::EndOrphans(LostUpstreams {
            spared: lost.spared.clone(),
            pids: vec![7, 9],
            below: 10,
        });
        let mut input = BytesMut::from(&frame.encode()[..]);
        let WardenRequest::EndOrphans(decoded) =
            WardenRequest::decode(next_frame(&mut input).unwrap().unwrap()).unwrap()
        else {
            panic!("not the EndOrphans that was sent")
        };
        assert_eq!(decoded, lost);
    }

    #[test]
    fn the_hello_of_another_version_is_understood_whatever_follows_the_version() {
        let newer = [&[0][..], &99_u32.to_le_bytes(), b"anything"].concat();
        let hello = WardenRequest::decode(newer.into()).unwrap();
        assert!(matches!(hello, WardenRequest::Hello { version: 99, .. }));
    }

    #[test]
    fn malformed_frames_are_errors() {
        let frame = WardenRequest::Spawn { id: 7, launch: Cow::Owned(launch()) }.encode();
        for end in 4..frame.len() {
            assert!(WardenRequest::decode(Bytes::copy_from_slice(&frame[4..end])).is_err());
        }
        let huge_count = [&[0][..], &VERSION.to_le_bytes(), &[0; 12], &[0xff; 4]].concat();
        assert!(WardenRequest::decode(huge_count.into()).is_err());
        assert!(next_frame(&mut BytesMut::from(&[0xff; 8][..])).is_err());
        assert!(WardenEvent::decode(Bytes::from_static(&[9])).is_err());
    }
}
