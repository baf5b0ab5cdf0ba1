//! The type signature of a datatype (MPI 5.0 section 5.1): the basic types of its packed bytes, as a tree of loops.

use std::sync::Arc;

use super::predefined::Predefined;

/// Basic types, in order. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    /// Number of basic elements; a pair is two.
    elements: u64,
    /// Number of packed bytes.
    bytes: u64,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// Elements of one type.
    Run(Predefined),
    /// Repetitions of one signature.
    Loop(Arc<Signature>),
    /// The signatures, one after the other.
    Sequence(Arc<[Signature]>),
}

impl Signature {
    /// No element.
    pub(crate) const EMPTY: Self = Self::run(Predefined::Byte, 0);

    const fn run(basic: Predefined, count: u64) -> Self {
        Self { elements: count, bytes: count * basic.size(), shape: Shape::Run(basic) }
    }

    /// One element of a predefined type.
    pub(crate) fn of(predefined: Predefined) -> Self {
        match predefined.parts() {
            None => Self::run(predefined, 1),
            Some((value, index)) => Self::sequence([Self::run(value, 1), Self::run(index, 1)]),
        }
    }

    /// Number of basic elements.
    pub(crate) fn elements(&self) -> u64 {
        self.elements
    }

    /// `count` copies. The product of count and size must not overflow.
    pub(crate) fn repeat(this: &Arc<Self>, count: u64) -> Self {
        let (elements, bytes) = (this.elements * count, this.bytes * count);
        if bytes == 0 {
            return Self::EMPTY;
        }
        let shape = match &this.shape {
            _ if count == 1 => this.shape.clone(),
            Shape::Run(basic) => Shape::Run(*basic),
            Shape::Loop(child) => Shape::Loop(Arc::clone(child)),
            Shape::Sequence(_) => Shape::Loop(Arc::clone(this)),
        };
        Self { elements, bytes, shape }
    }

    /// Signatures one after the other. The sum of the sizes must not overflow.
    pub(crate) fn sequence(signatures: impl IntoIterator<Item = Self>) -> Self {
        let mut parts: Vec<Self> = Vec::new();
        for signature in signatures {
            match (parts.last_mut(), &signature.shape) {
                _ if signature.bytes == 0 => {}
                (Some(Self { elements, bytes, shape: Shape::Run(last) }), Shape::Run(next))
                    if last == next =>
                {
                    *elements += signature.elements;
                    *bytes += signature.bytes;
                }
                _ => parts.push(signature),
            }
        }
        match parts.len() {
            0 => Self::EMPTY,
            1 => parts.swap_remove(0),
            _ => Self {
                elements: parts.iter().map(|part| part.elements).sum(),
                bytes: parts.iter().map(|part| part.bytes).sum(),
                shape: Shape::Sequence(parts.into()),
            },
        }
    }

    /// Number of whole basic elements in the first `bytes` packed bytes, and the number of bytes left over.
    pub(crate) fn elements_in(&self, bytes: u64) -> (u64, u64) {
        if bytes >= self.bytes {
            return (self.elements, bytes - self.bytes);
        }
        match &self.shape {
            Shape::Run(basic) => (bytes / basic.size(), bytes % basic.size()),
            Shape::Loop(child) => {
                let (elements, left) = child.elements_in(bytes % child.bytes);
                (bytes / child.bytes * child.elements + elements, left)
            }
            Shape::Sequence(parts) => {
                let (mut elements, mut left) = (0, bytes);
                for part in parts.iter() {
                    let (some, rest) = part.elements_in(left);
                    elements += some;
                    if left < part.bytes {
                        return (elements, rest);
                    }
                    left = rest;
                }
                (elements, left)
            }
        }
    }

    /// Number of packed bytes of the first `elements` basic elements, or of all if there are fewer.
    pub(crate) fn bytes_of(&self, elements: u64) -> u64 {
        if elements >= self.elements {
            return self.bytes;
        }
        match &self.shape {
            Shape::Run(basic) => elements * basic.size(),
            Shape::Loop(child) => {
                elements / child.elements * child.bytes + child.bytes_of(elements % child.elements)
            }
            Shape::Sequence(parts) => {
                let (mut bytes, mut left) = (0, elements);
                for part in parts.iter() {
                    bytes += part.bytes_of(left);
                    left = left.saturating_sub(part.elements);
                }
                bytes
            }
        }
    }

    /// Bytes if the basic elements have the sizes that `size_of` returns.
    pub(crate) fn bytes_in_file(&self, size_of: &dyn Fn(Predefined) -> u64) -> u64 {
        match &self.shape {
            Shape::Run(_) if self.elements == 0 => 0,
            Shape::Run(basic) => self.elements.saturating_mul(size_of(*basic)),
            Shape::Loop(child) => child.bytes_in_file(size_of).saturating_mul(self.elements / child.elements),
            Shape::Sequence(parts) => {
                parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes_in_file(size_of)))
            }
        }
    }

    /// Whether all basic elements are as `is_so` wants.
    pub(crate) fn all_basic(&self, is_so: &dyn Fn(Predefined) -> bool) -> bool {
        match &self.shape {
            Shape::Run(basic) => self.elements == 0 || is_so(*basic),
            Shape::Loop(child) => child.all_basic(is_so),
            Shape::Sequence(parts) => parts.iter().all(|part| part.all_basic(is_so)),
        }
    }

    /// Passes the runs of equal basic elements to `run`, in order, until it fails.
    ///
    /// # Errors
    /// The error of `run`.
    pub(crate) fn try_each_run<E>(
        &self,
        run: &mut impl FnMut(Predefined, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.shape {
            Shape::Run(_) if self.elements == 0 => Ok(()),
            Shape::Run(basic) => run(*basic, self.elements),
            Shape::Loop(child) => {
                (0..self.elements / child.elements).try_for_each(|_| child.try_each_run(run))
            }
            Shape::Sequence(parts) => parts.iter().try_for_each(|part| part.try_each_run(run)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed() -> Signature {
        let record = Signature::sequence([
            Signature::of(Predefined::Int),
            Signature::of(Predefined::DoubleInt),
            Signature::of(Predefined::Char),
        ]);
        let many = Signature::repeat(&Arc::new(record), 3);
        Signature::sequence([Signature::repeat(&Arc::new(Signature::of(Predefined::Short)), 2), many])
    }

    #[test]
    fn elements_and_bytes_agree_at_every_place() {
        let mixed = mixed();
        assert_eq!((mixed.elements(), mixed.bytes), (2 + 3 * 4, 4 + 3 * 17));
        for elements in 0..=mixed.elements() {
            let bytes = mixed.bytes_of(elements);
            assert_eq!(mixed.elements_in(bytes), (elements, 0));
            if elements < mixed.elements() && mixed.bytes_of(elements + 1) > bytes + 1 {
                assert_eq!(mixed.elements_in(bytes + 1), (elements, 1));
            }
        }
        assert_eq!(mixed.elements_in(mixed.bytes + 5), (mixed.elements(), 5));
    }

    #[test]
    fn runs_come_in_order() {
        let mut runs = Vec::new();
        mixed()
            .try_each_run(&mut |basic, count| {
                runs.push((basic, count));
                Ok::<(), ()>(())
            })
            .unwrap();
        assert_eq!(runs.len(), 1 + 3 * 4);
        assert_eq!(runs[..3], [(Predefined::Short, 2), (Predefined::Int, 1), (Predefined::Double, 1)]);
        assert_eq!(mixed().bytes_in_file(&Predefined::external32_size), 4 + 3 * 17);
    }
}
