//! The protocol between us and the warden process: frames on a stream socket.
//!
//! A frame is its length (`u32`, little endian) and a message in the format of `postcard`. The descriptors of a message
//! accompany its first bytes (`SCM_RIGHTS`).
//!
//! Both ends are the same program, so no other version has to be supported. Each end only compares the versions,
//! because an upgrade may have replaced our executable before the warden process was started.

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::descriptors::MAX_DESCRIPTORS;
use crate::launch::Launch;
use crate::server_id::ServerId;
use crate::stop_timeouts::StopTimeouts;

/// Changes with every change of a message. The first message in each direction is a `Hello`, which begins with a zero byte
/// and four bytes of this number in every version.
pub(super) const VERSION: u32 = 4;

/// Far above what exec accepts (6 MB on Linux), and small enough to keep in memory.
pub(super) const MAX_FRAME_BYTES: usize = 16 << 20;

/// The descriptors of a `Spawn`: the upstream's stdin, stdout and stderr, and our ends of the last two.
pub(super) const SPAWN_DESCRIPTORS: usize = MAX_DESCRIPTORS;

/// The step of a spawn that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SpawnStep {
    /// chdir to the working directory.
    Chdir,
    /// fork and exec.
    Exec,
}

/// The upstreams of our warden processes that were killed.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LostUpstreams {
    /// Their ids are smaller than this one.
    pub(super) below: u64,
    /// Ids that belong to warden processes that live.
    pub(super) spared: Vec<Range<u64>>,
    /// The pids of the last ones, for systems where owner marks cannot be read.
    pub(super) pids: Vec<u32>,
}

impl LostUpstreams {
    /// Returns whether the upstream with this id was lost. Elsewhere, processes do not show to which one they belong.
    #[cfg(any(target_os = "linux", test))]
    pub(super) fn contains(&self, id: u64) -> bool {
        id < self.below && !self.spared.iter().any(|ids| ids.contains(&id))
    }
}

/// A message to the warden process.
#[derive(Serialize, Deserialize)]
pub(super) enum WardenRequest<'a> {
    /// The first message, sent once.
    Hello {
        /// Our [`VERSION`].
        #[serde(with = "postcard::fixint::le")]
        version: u32,
        /// Our pid. The upstreams belong to this process.
        owner_pid: u32,
        /// The soft RLIMIT_NOFILE that upstreams get. Our own was raised.
        nofile: u64,
        /// The pid of our other warden process. It was silent for too long, but keeps its upstreams.
        retired_warden: Option<u32>,
        /// Whether the file of [`EndingServers`](crate::ending_servers::EndingServers) comes with it.
        has_ending_file: bool,
    },
    /// Ends what dead dynamic-mcp processes and killed warden processes of ours left behind. Not answered.
    EndOrphans(LostUpstreams),
    /// Starts an upstream; answered by `Forked` at once, then by `Spawned` or `SpawnFailed`; or by `SpawnFailed` alone.
    /// [`SPAWN_DESCRIPTORS`] come with it.
    Spawn {
        /// The id of the upstream.
        id: u64,
        /// The server whose end it is when this one is ended. `None`: it is no server.
        server: Option<ServerId>,
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
#[derive(Serialize, Deserialize)]
pub(super) enum WardenEvent {
    /// The answer to `Hello`.
    Hello {
        /// The [`VERSION`] of the warden process.
        #[serde(with = "postcard::fixint::le")]
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

/// A frame that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    /// The other end is not the program that we expect.
    #[error("malformed frame")]
    Malformed,
    /// The other end is another version of it.
    #[error("a Hello of another version")]
    OtherVersion,
}

/// Removes the first whole frame from `input` and returns it without its length; `None` if there is none yet.
///
/// # Errors
///
/// Fails if its length exceeds [`MAX_FRAME_BYTES`].
pub(super) fn next_frame(input: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
    let Some(head) = input.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(u32::from_le_bytes(*head)).map_err(|_| FrameError::Malformed)?;
    if length > MAX_FRAME_BYTES {
        return Err(FrameError::Malformed);
    }
    if input.len() < 4 + length {
        return Ok(None);
    }
    input.advance(4);
    Ok(Some(input.split_to(length).freeze()))
}

/// Returns the whole frame of a message. Only that of a `Spawn` can be longer than [`MAX_FRAME_BYTES`]; its sender checks
/// that.
pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    // Every message can be encoded. A frame without a message would be malformed.
    let mut frame = postcard::to_extend(message, vec![0; 4]).unwrap_or_else(|_| vec![0; 4]);
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame
}

/// Decodes a frame without its length.
///
/// # Errors
///
/// Fails if the frame is a `Hello` of another version, is no message of this direction, or has more than one.
pub(super) fn decode<M: DeserializeOwned>(frame: &[u8]) -> Result<M, FrameError> {
    if let [0, a, b, c, d, ..] = *frame
        && u32::from_le_bytes([a, b, c, d]) != VERSION
    {
        return Err(FrameError::OtherVersion);
    }
    match postcard::take_from_bytes(frame) {
        Ok((message, [])) => Ok(message),
        _ => Err(FrameError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn launch() -> Launch {
        Launch {
            program: OsString::from_vec(b"/bin/\xff".to_vec()).into(),
            args: vec!["a b".into(), "".into(), OsString::from_vec(vec![0xff, 0xfe])],
            env: vec![("NAME".into(), "v=1".into())],
            cwd: "/tmp".into(),
        }
    }

    #[test]
    fn a_spawn_request_is_decoded_however_its_bytes_are_split() {
        let frame = encode(&WardenRequest::Spawn {
            id: 7,
            server: Some(launch().server_id()),
            launch: Cow::Owned(launch()),
        });
        let mut input = BytesMut::new();
        for byte in &frame[..frame.len() - 1] {
            input.extend_from_slice(&[*byte]);
            assert!(next_frame(&mut input).unwrap().is_none());
        }
        input.extend_from_slice(&frame[frame.len() - 1..]);
        let WardenRequest::Spawn { id: 7, server, launch: decoded } =
            decode(&next_frame(&mut input).unwrap().unwrap()).unwrap()
        else {
            panic!("not the Spawn that was sent")
        };
        let expected = launch();
        assert_eq!(server, Some(expected.server_id()));
        assert_eq!(
            (&decoded.program, &decoded.args, &decoded.env, &decoded.cwd),
            (&expected.program, &expected.args, &expected.env, &expected.cwd)
        );
        assert!(input.is_empty());
    }

    #[test]
    fn lost_upstreams_are_those_of_no_living_warden_process() {
        let lost = LostUpstreams { below: 10, spared: vec![2..4, 8..u64::MAX], pids: vec![7, 9] };
        let ids: Vec<u64> = (0..12).filter(|id| lost.contains(*id)).collect();
        assert_eq!(ids, [0, 1, 4, 5, 6, 7]);
        let frame = WardenRequest::EndOrphans(LostUpstreams {
            spared: lost.spared.clone(),
            pids: vec![7, 9],
            below: 10,
        });
        let mut input = BytesMut::from(&encode(&frame)[..]);
        let WardenRequest::EndOrphans(decoded) = decode(&next_frame(&mut input).unwrap().unwrap()).unwrap()
        else {
            panic!("not the EndOrphans that was sent")
        };
        assert_eq!(decoded, lost);
    }

    #[test]
    fn the_hello_of_another_version_is_recognized_whatever_follows_the_version() {
        let newer = [&[0][..], &99_u32.to_le_bytes(), b"anything"].concat();
        assert_eq!(decode::<WardenRequest<'_>>(&newer).err(), Some(FrameError::OtherVersion));
        assert_eq!(decode::<WardenEvent>(&newer).err(), Some(FrameError::OtherVersion));
        let own = encode(&WardenEvent::Hello { version: VERSION });
        assert_eq!(own, [&[5, 0, 0, 0, 0][..], &VERSION.to_le_bytes()].concat());
    }

    #[test]
    fn malformed_frames_are_errors() {
        let frame = encode(&WardenRequest::Spawn {
            id: 7,
            server: Some(launch().server_id()),
            launch: Cow::Owned(launch()),
        });
        for end in 4..frame.len() {
            assert!(decode::<WardenRequest<'_>>(&frame[4..end]).is_err());
        }
        let huge_count = [&[0][..], &VERSION.to_le_bytes(), &[0; 2], &[0xff; 4], &[0xf]].concat();
        assert!(decode::<WardenRequest<'_>>(&huge_count).is_err());
        assert!(next_frame(&mut BytesMut::from(&[0xff; 8][..])).is_err());
        assert_eq!(decode::<WardenEvent>(&[9]).err(), Some(FrameError::Malformed));
    }
}
