//! The key of an event: the string at a path of the document. The rest is checked and not kept.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// `/customer/ref` as `["customer", "ref"]`.
pub fn path(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(str::to_owned).collect()
}

/// None: not JSON, or no string there.
pub fn find<'de>(document: &'de [u8], path: &[String]) -> Option<Cow<'de, str>> {
    let mut reader = serde_json::Deserializer::from_slice(document);
    let found = Walk(path).deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    found
}

struct Walk<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        match self.0 {
            [] => reader.deserialize_str(self),
            _ => reader.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str("an object, or the key as a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<Self::Value, M::Error> {
        let Some((wanted, below)) = self.0.split_first() else {
            return Err(M::Error::custom("an object where the key should be"));
        };
        let mut found = None;
        while let Some(name) = fields.next_key::<Cow<str>>()? {
            if name == wanted.as_str() {
                found = fields.next_value_seed(Walk(below))?;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}
