//! Envelopes of messages, and the patterns of receives that they are matched against.

use std::fmt;

/// One of a communicator's message spaces (MPI 4.1 section 6.1: context). Not am-core's context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ContextId(pub u32);

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The envelope of a message (MPI 4.1 section 3.2.3), without the destination, which is this task.
///
/// Context id and source share one word: a comparison right after the store then reads exactly what one store wrote, which the processor
/// forwards. If two stores wrote what one load reads, the load would wait a dozen cycles until the stores reach the cache, longer than the
/// rest of a match takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// The context id in the high half, the source in the low one.
    sender: u64,
    tag: i32,
}

impl Envelope {
    /// An envelope from rank `source` of the communicator. Any tag is allowed: the library uses negative ones for its own traffic.
    #[inline]
    #[must_use]
    pub const fn new(context_id: ContextId, source: u32, tag: i32) -> Self {
        Self { sender: sender(context_id, source), tag }
    }

    /// The same envelope with another tag.
    #[inline]
    #[must_use]
    pub const fn with_tag(self, tag: i32) -> Self {
        Self { tag, ..self }
    }

    /// The communicator's context id.
    #[inline]
    #[must_use]
    pub const fn context_id(&self) -> ContextId {
        ContextId(high(self.sender))
    }

    /// The sender's rank in the communicator.
    #[inline]
    #[must_use]
    pub const fn source(&self) -> u32 {
        low(self.sender)
    }

    /// The tag.
    #[inline]
    #[must_use]
    pub const fn tag(&self) -> i32 {
        self.tag
    }

    /// Context id and source as one word.
    #[inline]
    pub(super) const fn sender_word(&self) -> u64 {
        self.sender
    }
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("context_id", &self.context_id())
            .field("source", &self.source())
            .field("tag", &self.tag)
            .finish()
    }
}

/// Which fields of a [`Pattern`] are wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Shape {
    /// Source and tag are given.
    Exact = 0,
    /// Any source, the tag is given.
    AnySource = 1,
    /// The source is given, any tag.
    AnyTag = 2,
    /// Any source and any tag.
    AnySourceAnyTag = 3,
}

impl Shape {
    /// All shapes; the index of each is its number.
    pub(super) const ALL: [Self; 4] = [Self::Exact, Self::AnySource, Self::AnyTag, Self::AnySourceAnyTag];

    /// The key under which patterns of this shape find `envelope`: wildcard fields are zero.
    #[inline]
    pub(super) const fn key_of(self, envelope: &Envelope) -> Envelope {
        let sender = match self {
            Self::Exact | Self::AnyTag => envelope.sender,
            Self::AnySource | Self::AnySourceAnyTag => sender(envelope.context_id(), 0),
        };
        let tag = match self {
            Self::Exact | Self::AnySource => envelope.tag,
            Self::AnyTag | Self::AnySourceAnyTag => 0,
        };
        Envelope { sender, tag }
    }
}

/// What a receive or a probe matches: a context id, and a source and a tag that may each be a wildcard.
///
/// The numbers of MPI's wildcards (`MPI_ANY_SOURCE`, `MPI_ANY_TAG`) do not occur here; a wildcard is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Wildcard fields are zero, so this is also the key of the pattern in the table of its shape.
    sender: u64,
    /// The tag, and above it the [`Shape`], whose bits, [`ANY_SOURCE`] and [`ANY_TAG`], mask the fields that are not compared. Both are in
    /// one word, so that a pattern is passed in two registers.
    tag_and_shape: u64,
}

/// The bits of a [`Shape`].
const ANY_SOURCE: u32 = Shape::AnySource as u32;
const ANY_TAG: u32 = Shape::AnyTag as u32;

impl Pattern {
    /// A receive from `source` (`None`: any) with `tag` (`None`: any) in one communicator.
    #[inline]
    #[must_use]
    pub const fn new(context_id: ContextId, source: Option<u32>, tag: Option<i32>) -> Self {
        let shape = match (source, tag) {
            (Some(_), Some(_)) => Shape::Exact,
            (None, Some(_)) => Shape::AnySource,
            (Some(_), None) => Shape::AnyTag,
            (None, None) => Shape::AnySourceAnyTag,
        };
        let source = match source {
            Some(source) => source,
            None => 0,
        };
        let tag = match tag {
            Some(tag) => tag,
            None => 0,
        };
        Self::of_parts(sender(context_id, source), tag, shape)
    }

    #[inline]
    const fn of_parts(sender: u64, tag: i32, shape: Shape) -> Self {
        Self { sender, tag_and_shape: (shape as u64) << u32::BITS | tag.cast_unsigned() as u64 }
    }

    /// A receive without wildcards.
    #[inline]
    #[must_use]
    pub const fn exact(context_id: ContextId, source: u32, tag: i32) -> Self {
        Self::of_parts(sender(context_id, source), tag, Shape::Exact)
    }

    /// The pattern without wildcards that matches messages with this envelope.
    #[inline]
    #[must_use]
    pub const fn of(envelope: &Envelope) -> Self {
        Self::of_parts(envelope.sender, envelope.tag, Shape::Exact)
    }

    /// Whether a message with this envelope satisfies the pattern.
    #[inline]
    #[must_use]
    pub const fn matches(&self, envelope: &Envelope) -> bool {
        if envelope.sender == self.sender && envelope.tag == self.tag_field() {
            return true;
        }
        high(self.tag_and_shape) != Shape::Exact as u32 && self.matches_by_wildcard(envelope)
    }

    #[inline]
    const fn matches_by_wildcard(&self, envelope: &Envelope) -> bool {
        let shape = high(self.tag_and_shape);
        let sender = (envelope.sender ^ self.sender) >> ((shape & ANY_SOURCE) * u32::BITS);
        let tag = (envelope.tag ^ self.tag_field()).cast_unsigned() as u64
            >> ((shape & ANY_TAG) * (u32::BITS / ANY_TAG));
        sender | tag == 0
    }

    /// Which fields are wildcards.
    #[inline]
    #[must_use]
    pub const fn shape(&self) -> Shape {
        Shape::ALL[(high(self.tag_and_shape) & (ANY_SOURCE | ANY_TAG)) as usize]
    }

    /// The tag, 0 for any.
    #[inline]
    const fn tag_field(&self) -> i32 {
        low(self.tag_and_shape).cast_signed()
    }

    /// The communicator's context id.
    #[inline]
    #[must_use]
    pub const fn context_id(&self) -> ContextId {
        ContextId(high(self.sender))
    }

    /// The source asked for, or `None` for any.
    #[inline]
    #[must_use]
    pub const fn source(&self) -> Option<u32> {
        if high(self.tag_and_shape) & ANY_SOURCE != 0 { None } else { Some(low(self.sender)) }
    }

    /// The tag asked for, or `None` for any.
    #[inline]
    #[must_use]
    pub const fn tag(&self) -> Option<i32> {
        if high(self.tag_and_shape) & ANY_TAG != 0 { None } else { Some(self.tag_field()) }
    }

    /// The key in the table of this pattern's shape.
    #[inline]
    #[must_use]
    pub const fn key(&self) -> Envelope {
        Envelope { sender: self.sender, tag: self.tag_field() }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pattern")
            .field("context_id", &self.context_id())
            .field("source", &self.source())
            .field("tag", &self.tag())
            .finish()
    }
}

#[inline]
const fn sender(context_id: ContextId, source: u32) -> u64 {
    (context_id.0 as u64) << u32::BITS | source as u64
}

#[inline]
const fn high(word: u64) -> u32 {
    (word >> u32::BITS) as u32
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
const fn low(word: u64) -> u32 {
    word as u32
}
