//! XDR (RFC 4506) as libvirt uses it: big-endian words of four bytes, everything padded to them.
//!
//! It must not know any message. Invariant: a length read from the wire is compared with what is
//! there before anything of that length is allocated, so that decoding costs no more memory than a
//! small multiple of the input.

/// The longest string, libvirt's `REMOTE_STRING_MAX`.
pub const LONGEST_STRING: usize = 4 * 1024 * 1024;

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// More was promised than there is.
    #[error("the message ends early")]
    Short,
    /// Bytes are left over.
    #[error("the message is longer than its contents")]
    Long,
    /// A string over [`LONGEST_STRING`].
    #[error("a string is longer than the protocol allows")]
    StringTooLong,
    /// A string that is not UTF-8.
    #[error("a string is not UTF-8")]
    NotText,
    /// A choice that the protocol does not have.
    #[error("{what} cannot be {value}")]
    Choice {
        /// Of what.
        what: &'static str,
        /// The number found.
        value: u32,
    },
}

/// What has a form on the wire.
pub trait Encode {
    /// Appends it.
    fn encode(&self, to: &mut Encoder);
}

/// What can be read from the wire.
pub trait Decode: Sized {
    /// The fewest bytes one of these takes, which bounds how many an array can hold.
    const LEAST: usize;

    /// Reads one.
    ///
    /// # Errors
    /// See [`Malformed`].
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed>;
}

/// Writes values one after the other.
#[derive(Clone, Debug, Default)]
pub struct Encoder(Vec<u8>);

impl Encoder {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a value.
    pub fn put(&mut self, value: &(impl Encode + ?Sized)) -> &mut Self {
        value.encode(self);
        self
    }

    /// Appends bytes of fixed length, padded.
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        self.0.extend_from_slice(&[0; 3][..padding(bytes.len())]);
    }

    /// What was written.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    /// A length, which nothing of ours comes near to exceeding.
    fn length(&mut self, length: usize) {
        let word = u32::try_from(length).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&word.to_be_bytes());
    }
}

/// Bytes to add to come to a multiple of four.
fn padding(length: usize) -> usize {
    (4 - length % 4) % 4
}

/// Reads values one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    /// All of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Reads one value.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn get<T: Decode>(&mut self) -> Result<T, Malformed> {
        T::decode(self)
    }

    /// Bytes of fixed length and their padding.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn fixed(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let whole = length.checked_add(padding(length)).ok_or(Malformed::Short)?;
        if whole > self.0.len() {
            return Err(Malformed::Short);
        }
        let (taken, rest) = self.0.split_at(whole);
        self.0 = rest;
        Ok(&taken[..length])
    }

    /// What is left must be nothing.
    ///
    /// # Errors
    /// When it is not.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed::Long)
        }
    }
}

/// Reads a value that is all there is.
///
/// # Errors
/// See [`Malformed`].
pub fn whole<T: Decode>(bytes: &[u8]) -> Result<T, Malformed> {
    let mut decoder = Decoder::new(bytes);
    let value = decoder.get()?;
    decoder.end()?;
    Ok(value)
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Encode for $number {
            fn encode(&self, to: &mut Encoder) {
                to.0.extend_from_slice(&self.to_be_bytes());
            }
        }
        impl Decode for $number {
            const LEAST: usize = size_of::<$number>();
            fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
                let (bytes, rest) = from.0.split_first_chunk().ok_or(Malformed::Short)?;
                from.0 = rest;
                Ok(<$number>::from_be_bytes(*bytes))
            }
        }
    )*};
}
numbers!(i32, u32, i64, u64, f64);

impl Encode for str {
    fn encode(&self, to: &mut Encoder) {
        to.length(self.len());
        to.fixed(self.as_bytes());
    }
}

impl Encode for String {
    fn encode(&self, to: &mut Encoder) {
        self.as_str().encode(to);
    }
}

impl Decode for String {
    const LEAST: usize = 4;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let length = from.get::<u32>()? as usize;
        if length > LONGEST_STRING {
            return Err(Malformed::StringTooLong);
        }
        let bytes = from.fixed(length)?;
        let text = std::str::from_utf8(bytes).map_err(|_invalid| Malformed::NotText)?;
        Ok(text.to_owned())
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, to: &mut Encoder) {
        (**self).encode(to);
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, to: &mut Encoder) {
        match self {
            Some(value) => to.put(&1_u32).put(value),
            None => to.put(&0_u32),
        };
    }
}

impl<T: Decode> Decode for Option<T> {
    const LEAST: usize = 4;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match from.get::<u32>()? {
            0 => Ok(None),
            1 => Ok(Some(from.get()?)),
            value => Err(Malformed::Choice {
                what: "whether something is present",
                value,
            }),
        }
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, to: &mut Encoder) {
        to.length(self.len());
        for value in self {
            to.put(value);
        }
    }
}

impl<T: Decode> Decode for Vec<T> {
    const LEAST: usize = 4;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        // Of what takes no bytes, any number would fit.
        const { assert!(T::LEAST > 0, "an element takes bytes on the wire") };
        let count = from.get::<u32>()? as usize;
        if count > from.0.len() / T::LEAST {
            return Err(Malformed::Short);
        }
        // Not reserved at once: an element in memory may be larger than on the wire.
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(from.get()?);
        }
        Ok(values)
    }
}

impl Encode for () {
    fn encode(&self, _: &mut Encoder) {}
}

impl Decode for () {
    const LEAST: usize = 0;

    fn decode(_: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(())
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Encode),*> Encode for ($($name,)*) {
            fn encode(&self, to: &mut Encoder) {
                #[expect(non_snake_case, reason = "the type parameters' names are the variables'")]
                let ($($name,)*) = self;
                $(to.put($name);)*
            }
        }
        impl<$($name: Decode),*> Decode for ($($name,)*) {
            const LEAST: usize = 0 $(+ $name::LEAST)*;
            fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
                Ok(($(from.get::<$name>()?,)*))
            }
        }
    };
}
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);

impl Encode for uuid::Uuid {
    fn encode(&self, to: &mut Encoder) {
        to.fixed(self.as_bytes());
    }
}

impl Decode for uuid::Uuid {
    const LEAST: usize = 16;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Self::from_slice(from.fixed(16)?).map_err(|_length| Malformed::Short)
    }
}

/// An array of characters of fixed length, each in a word of its own, up to the first NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Characters<const N: usize>(pub String);

impl<const N: usize> Decode for Characters<N> {
    const LEAST: usize = 4 * N;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let words = from.fixed(4 * N)?;
        let bytes: Vec<u8> = words
            .chunks_exact(4)
            .map(|word| word[3])
            .take_while(|&byte| byte != 0)
            .collect();
        // A CPU's name is for people; what is no text in it is no reason to fail.
        Ok(Self(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(value: &(impl Encode + ?Sized)) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.put(value);
        encoder.finish()
    }

    #[test]
    fn golden_bytes() {
        assert_eq!(encoded(&-2_i32), [0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(encoded(&0x0102_0304_0506_0708_u64), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(encoded("abcde"), b"\0\0\0\x05abcde\0\0\0");
        assert_eq!(encoded(""), [0; 4]);
        assert_eq!(encoded(&Some("ab")), b"\0\0\0\x01\0\0\0\x02ab\0\0");
        assert_eq!(encoded(&None::<String>), [0; 4]);
        assert_eq!(encoded(&[1_i32, 2][..]), [0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]);
        assert_eq!(encoded(&uuid::Uuid::from_bytes([7; 16])), [7; 16]);
        let mut model = vec![0; 4 * 32];
        model[3] = b'x';
        model[7] = b'8';
        assert_eq!(whole::<Characters<32>>(&model), Ok(Characters("x8".into())));
    }

    #[test]
    fn hostile_lengths_are_refused_before_anything_is_allocated() {
        assert_eq!(whole::<String>(&[0xff; 4]), Err(Malformed::StringTooLong));
        assert_eq!(whole::<String>(&[0, 0x40, 0, 0]), Err(Malformed::Short));
        assert_eq!(whole::<Vec<u64>>(&[0xff; 12]), Err(Malformed::Short));
        assert_eq!(
            whole::<Vec<Vec<u32>>>(&[0, 0, 0, 2, 0, 0, 0, 0]),
            Err(Malformed::Short)
        );
        assert_eq!(whole::<u32>(&[0; 3]), Err(Malformed::Short));
        assert_eq!(whole::<u32>(&[0; 8]), Err(Malformed::Long));
        assert_eq!(whole::<String>(b"\0\0\0\x01\xff\0\0\0"), Err(Malformed::NotText));
        assert_eq!(
            whole::<Option<u32>>(&[0, 0, 0, 2]),
            Err(Malformed::Choice {
                what: "whether something is present",
                value: 2
            })
        );
    }

    type All = (i32, u64, String, Option<String>, Vec<(u32, String)>, uuid::Uuid);

    proptest! {
        #[test]
        fn what_was_written_is_read(
            a: i32, b: u64, c in ".{0,20}", d in proptest::option::of(".{0,9}"),
            e in proptest::collection::vec((any::<u32>(), ".{0,5}"), 0..5), f: [u8; 16],
        ) {
            let mut encoder = Encoder::new();
            encoder.put(&a).put(&b).put(&c).put(&d).put(e.as_slice()).put(&uuid::Uuid::from_bytes(f));
            let bytes = encoder.finish();
            prop_assert_eq!(bytes.len() % 4, 0);
            let expected: All = (a, b, c, d, e, uuid::Uuid::from_bytes(f));
            prop_assert_eq!(whole::<All>(&bytes), Ok(expected));
            for end in 0..bytes.len() {
                prop_assert!(whole::<All>(&bytes[..end]).is_err());
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = whole::<All>(&bytes);
            let _ = whole::<Vec<Vec<Option<String>>>>(&bytes);
            let _ = whole::<Characters<32>>(&bytes);
        }
    }
}
