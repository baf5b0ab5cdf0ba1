//! What a message carries to be matched, and what a receive asks for.

use std::fmt;

/// Names one communicator's half of the message space (MPI 4.1 section 6.1: context). Not am-core's context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ContextId(pub u32);

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What a message says about itself (MPI 4.1 section 3.2.3), without the destination, which is us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// The communicator's context id.
    pub context_id: ContextId,
    /// The sender's rank in that communicator.
    pub source: u32,
    /// The tag. Any value is allowed here: negative ones are free for the library's own traffic.
    pub tag: i32,
}

/// Which fields of a [`Pattern`] are wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// All shapes; each stands at the place that its number says.
    pub(super) const ALL: [Self; 4] = [Self::Exact, Self::AnySource, Self::AnyTag, Self::AnySourceAnyTag];

    /// The key under which `envelope` is found by patterns of this shape: wildcard fields are zero.
    #[inline]
    pub(super) const fn key_of(self, envelope: &Envelope) -> Envelope {
        let (source, tag) = match self {
            Self::Exact => (envelope.source, envelope.tag),
            Self::AnySource => (0, envelope.tag),
            Self::AnyTag => (envelope.source, 0),
            Self::AnySourceAnyTag => (0, 0),
        };
        Envelope { context_id: envelope.context_id, source, tag }
    }
}

/// What a receive or a probe asks for: a context id, and a source and a tag that may each be a wildcard.
///
/// The numbers that stand for the wildcards at MPI's surface (`MPI_ANY_SOURCE`, `MPI_ANY_TAG`) are unknown here; they are
/// `None`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Wildcard fields are zero, so this is also the key of the pattern in the table of its shape.
    key: Envelope,
    /// All ones, or zero for any source. Masks let one comparison without a branch serve the four shapes.
    source_mask: u32,
    /// All ones, or zero for any tag.
    tag_mask: i32,
}

impl Pattern {
    /// A receive from `source` (`None`: any) with `tag` (`None`: any) in one communicator.
    #[inline]
    #[must_use]
    pub const fn new(context_id: ContextId, source: Option<u32>, tag: Option<i32>) -> Self {
        let (source, source_mask) = match source {
            Some(source) => (source, !0),
            None => (0, 0),
        };
        let (tag, tag_mask) = match tag {
            Some(tag) => (tag, !0),
            None => (0, 0),
        };
        Self { key: Envelope { context_id, source, tag }, source_mask, tag_mask }
    }

    /// A receive without wildcards.
    #[inline]
    #[must_use]
    pub const fn exact(context_id: ContextId, source: u32, tag: i32) -> Self {
        Self { key: Envelope { context_id, source, tag }, source_mask: !0, tag_mask: !0 }
    }

    /// Whether a message with this envelope satisfies the pattern.
    #[inline]
    #[must_use]
    pub const fn matches(&self, envelope: &Envelope) -> bool {
        let context_differs = envelope.context_id.0 ^ self.key.context_id.0;
        let source_differs = (envelope.source ^ self.key.source) & self.source_mask;
        let tag_differs = (envelope.tag ^ self.key.tag) & self.tag_mask;
        context_differs | source_differs | tag_differs.cast_unsigned() == 0
    }

    /// Which fields are wildcards.
    #[inline]
    #[must_use]
    pub const fn shape(&self) -> Shape {
        match (self.source_mask, self.tag_mask) {
            (0, 0) => Shape::AnySourceAnyTag,
            (0, _) => Shape::AnySource,
            (_, 0) => Shape::AnyTag,
            _ => Shape::Exact,
        }
    }

    /// The communicator's context id.
    #[inline]
    #[must_use]
    pub const fn context_id(&self) -> ContextId {
        self.key.context_id
    }

    /// The source asked for, or `None` for any.
    #[inline]
    #[must_use]
    pub const fn source(&self) -> Option<u32> {
        if self.source_mask == 0 { None } else { Some(self.key.source) }
    }

    /// The tag asked for, or `None` for any.
    #[inline]
    #[must_use]
    pub const fn tag(&self) -> Option<i32> {
        if self.tag_mask == 0 { None } else { Some(self.key.tag) }
    }

    /// The key in the table of this pattern's shape.
    #[inline]
    pub(super) const fn key(&self) -> &Envelope {
        &self.key
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
