//! What we and the warden say to each other: frames on a stream socket.
//!
//! A frame is its length (`u32`), a kind (`u8`) and fields; numbers are little endian, strings are bytes
//! behind their length. Both ends are the same program, so there is no compatibility to keep, only a
//! version to compare: an upgrade may have put a newer file where ours was.
//! The three descriptors of a `Spawn` come as `SCM_RIGHTS` with its first bytes.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use super::{Grace, Launch, Step};

/// Changes with every change of a frame. The first field of the first message, so that it can always be read.
pub(super) const VERSION: u32 = 1;

/// Far above what exec accepts (6 MB on Linux), far below what would hurt.
pub(super) const FRAME_LIMIT: usize = 16 << 20;

/// To the warden.
pub(super) enum Request<'a> {
    /// First, once.
    Hello {
        version: u32,
        /// The process that the upstreams belong to: ours.
        owner: u32,
        /// The soft RLIMIT_NOFILE that upstreams get; ours was raised.
        nofile: u64,
        /// What bears a smaller id of ours was left by a warden that was killed.
        first: u64,
        /// Pids of upstreams that it left, for systems where marks cannot be read.
        left: Vec<u32>,
    },
    Spawn {
        id: u64,
        launch: Cow<'a, Launch>,
    },
    /// Ends one upstream; answered by `Gone`.
    Stop {
        id: u64,
        grace: Grace,
    },
    /// Ends everything and the warden.
    End {
        grace: Grace,
    },
}

/// From the warden.
pub(super) enum Notice {
    Welcome {
        version: u32,
    },
    Started {
        id: u64,
        pid: u32,
    },
    Failed {
        id: u64,
        step: Step,
        errno: i32,
    },
    /// `status` as waitpid gave it.
    Exited {
        id: u64,
        status: i32,
    },
    /// A stop is over; `left` processes withstood it.
    Gone {
        id: u64,
        left: u32,
    },
}

/// A frame that cannot be understood: the other side is not who we think.
#[derive(Debug, thiserror::Error)]
#[error("malformed frame")]
pub(super) struct Malformed;

/// Takes the first whole frame off `input`.
pub(super) fn next_frame(input: &mut BytesMut) -> Result<Option<Bytes>, Malformed> {
    let Some(head) = input.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(u32::from_le_bytes(*head)).map_err(|_| Malformed)?;
    if length > FRAME_LIMIT {
        return Err(Malformed);
    }
    if input.len() < 4 + length {
        return Ok(None);
    }
    input.advance(4);
    Ok(Some(input.split_to(length).freeze()))
}

impl Request<'_> {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello { version, owner, nofile, first, left } => {
                let frame = Frame::new(0).u32(*version).u32(*owner).u64(*nofile).u64(*first);
                left.iter().fold(frame.length(left.len()), |frame, pid| frame.u32(*pid))
            }
            Self::Spawn { id, launch } => {
                let frame = Frame::new(1).u64(*id).text(launch.program.as_os_str());
                let frame = frame.text(launch.cwd.as_os_str()).length(launch.args.len());
                let frame = launch.args.iter().fold(frame, |frame, arg| frame.text(arg));
                let pairs = launch.env.iter();
                pairs
                    .fold(frame.length(launch.env.len()), |frame, (name, value)| frame.text(name).text(value))
            }
            Self::Stop { id, grace } => Frame::new(2).u64(*id).grace(*grace),
            Self::End { grace } => Frame::new(3).grace(*grace),
        }
        .finish()
    }

    pub(super) fn decode(frame: Bytes) -> Result<Request<'static>, Malformed> {
        let mut fields = Fields(frame);
        let request = match fields.u8()? {
            0 => Request::Hello {
                version: fields.u32()?,
                owner: fields.u32()?,
                nofile: fields.u64()?,
                first: fields.u64()?,
                left: fields.list(Fields::u32)?,
            },
            1 => {
                let id = fields.u64()?;
                let (program, cwd) = (fields.text()?.into(), fields.text()?.into());
                let args = fields.list(Fields::text)?;
                let env = fields.list(|fields| Ok((fields.text()?, fields.text()?)))?;
                Request::Spawn { id, launch: Cow::Owned(Launch { program, args, env, cwd }) }
            }
            2 => Request::Stop { id: fields.u64()?, grace: fields.grace()? },
            3 => Request::End { grace: fields.grace()? },
            _ => return Err(Malformed),
        };
        fields.end().map(|()| request)
    }
}

impl Notice {
    pub(super) fn encode(&self) -> Vec<u8> {
        match *self {
            Self::Welcome { version } => Frame::new(0).u32(version),
            Self::Started { id, pid } => Frame::new(1).u64(id).u32(pid),
            Self::Failed { id, step, errno } => {
                Frame::new(2).u64(id).u32(u32::from(step == Step::Exec)).i32(errno)
            }
            Self::Exited { id, status } => Frame::new(3).u64(id).i32(status),
            Self::Gone { id, left } => Frame::new(4).u64(id).u32(left),
        }
        .finish()
    }

    pub(super) fn decode(frame: Bytes) -> Result<Self, Malformed> {
        let mut fields = Fields(frame);
        let notice = match fields.u8()? {
            0 => Self::Welcome { version: fields.u32()? },
            1 => Self::Started { id: fields.u64()?, pid: fields.u32()? },
            2 => {
                let (id, exec) = (fields.u64()?, fields.u32()? == 1);
                Self::Failed { id, step: if exec { Step::Exec } else { Step::Cwd }, errno: fields.i32()? }
            }
            3 => Self::Exited { id: fields.u64()?, status: fields.i32()? },
            4 => Self::Gone { id: fields.u64()?, left: fields.u32()? },
            _ => return Err(Malformed),
        };
        fields.end().map(|()| notice)
    }
}

/// A frame being written. Only a `Spawn` can be longer than `FRAME_LIMIT`; it is not sent then.
struct Frame(Vec<u8>);

impl Frame {
    fn new(kind: u8) -> Self {
        Self(vec![0, 0, 0, 0, kind])
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u32(self, value: u32) -> Self {
        self.put(&value.to_le_bytes())
    }

    fn i32(self, value: i32) -> Self {
        self.put(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.put(&value.to_le_bytes())
    }

    fn length(self, value: usize) -> Self {
        self.u32(u32::try_from(value).unwrap_or(u32::MAX))
    }

    fn text(self, value: &OsStr) -> Self {
        self.length(value.len()).put(value.as_bytes())
    }

    fn grace(self, grace: Grace) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.u64(millis(grace.term)).u64(millis(grace.kill))
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// A frame being read.
struct Fields(Bytes);

impl Fields {
    fn u8(&mut self) -> Result<u8, Malformed> {
        self.0.try_get_u8().map_err(|_| Malformed)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.0.try_get_u32_le().map_err(|_| Malformed)
    }

    fn i32(&mut self) -> Result<i32, Malformed> {
        self.0.try_get_i32_le().map_err(|_| Malformed)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.0.try_get_u64_le().map_err(|_| Malformed)
    }

    fn text(&mut self) -> Result<OsString, Malformed> {
        let length = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        if length > self.0.len() {
            return Err(Malformed);
        }
        Ok(OsString::from_vec(self.0.split_to(length).into()))
    }

    /// Each item takes bytes, so a made-up count ends in `Malformed` before it costs memory.
    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        let count = self.u32()?;
        (0..count).map(|_| item(self)).collect()
    }

    fn grace(&mut self) -> Result<Grace, Malformed> {
        let (term, kill) = (self.u64()?, self.u64()?);
        Ok(Grace { term: Duration::from_millis(term), kill: Duration::from_millis(kill) })
    }

    fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
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
    fn a_spawn_arrives_as_it_was_sent_however_it_is_cut() {
        let sent = Request::Spawn { id: 7, launch: Cow::Owned(launch()) }.encode();
        let mut input = BytesMut::new();
        for byte in &sent[..sent.len() - 1] {
            input.extend_from_slice(&[*byte]);
            assert!(next_frame(&mut input).unwrap().is_none());
        }
        input.extend_from_slice(&sent[sent.len() - 1..]);
        let Request::Spawn { id: 7, launch: got } =
            Request::decode(next_frame(&mut input).unwrap().unwrap()).unwrap()
        else {
            panic!("another request")
        };
        let want = launch();
        assert_eq!(
            (&got.program, &got.args, &got.env, &got.cwd),
            (&want.program, &want.args, &want.env, &want.cwd)
        );
        assert!(input.is_empty());
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        let whole = Request::Spawn { id: 7, launch: Cow::Owned(launch()) }.encode();
        for end in 4..whole.len() {
            assert!(Request::decode(Bytes::copy_from_slice(&whole[4..end])).is_err());
        }
        let absurd_count = [&[0][..], &[0; 24], &[0xff; 4]].concat();
        assert!(Request::decode(absurd_count.into()).is_err());
        assert!(next_frame(&mut BytesMut::from(&[0xff; 8][..])).is_err());
        assert!(Notice::decode(Bytes::from_static(&[9])).is_err());
    }
}
