//! Objects of a config file: one definition makes the struct, the table of its fields, how it is read, and how two of
//! them are merged.
//!
//! [`config_object!`] defines an object. [`config_keys!`] defines an object whose keys have defaults, together with the
//! struct that the program uses. A field is written as in a struct. Its doc comment is what users read in their
//! editors. Brackets after the type say what else is known of it, in the methods of
//! [`ConfigField`](super::fields::ConfigField).

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};

/// A part of an object: the value of a field, or an object that is embedded in it.
pub(crate) trait ObjectPart: Sized {
    /// Reads the next value of `map` if this is the part that `name` means: the field with the name `own_name`, or an
    /// object with such a field. Returns whether it is.
    ///
    /// # Errors
    ///
    /// Fails if the value cannot be read.
    fn read<'de, A: MapAccess<'de>>(
        &mut self,
        own_name: &str,
        name: &str,
        map: &mut A,
    ) -> Result<bool, A::Error>;

    /// Takes each value that is missing here from `other`.
    fn or(self, other: Self) -> Self;
}

impl<T: DeserializeOwned> ObjectPart for Option<T> {
    fn read<'de, A: MapAccess<'de>>(
        &mut self,
        own_name: &str,
        name: &str,
        map: &mut A,
    ) -> Result<bool, A::Error> {
        let is_meant = own_name == name;
        if is_meant {
            *self = map.next_value()?;
        }
        Ok(is_meant)
    }

    fn or(self, other: Self) -> Self {
        self.or(other)
    }
}

/// Makes what the program uses of a value that a file has.
pub(crate) trait Resolve<T> {
    /// Makes it.
    fn resolve(self) -> T;
}

impl<T> Resolve<T> for T {
    fn resolve(self) -> T {
        self
    }
}

impl<T> Resolve<Option<T>> for T {
    fn resolve(self) -> Option<T> {
        Some(self)
    }
}

/// Reads an object from the members that the deserializer in `de` shows, which have the names of the table.
pub(super) struct ObjectVisitor<T>(pub(super) PhantomData<T>);

impl<'de, T: ObjectPart + Default> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut object = T::default();
        while let Some(name) = map.next_key::<String>()? {
            if !object.read("", &name, &mut map)? {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(object)
    }
}

/// Defines an object of a config file.
macro_rules! config_object {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* $field:ident: $type:ty $([$($fact:tt)+])?,)*
        }
    ) => {
        #[derive(Default, schemars::JsonSchema)]
        $(#[$meta])*
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $name {
            /// The fields.
            pub const FIELDS: &'static [$crate::fields::ConfigField] =
                &[$($crate::fields::ConfigField::new(stringify!($field))$(.$($fact)+)?,)*];
        }

        impl $crate::object::ObjectPart for $name {
            fn read<'de, A: serde::de::MapAccess<'de>>(
                &mut self,
                _: &str,
                name: &str,
                map: &mut A,
            ) -> Result<bool, A::Error> {
                let mut fields = Self::FIELDS.iter();
                $(
                    if let Some(field) = fields.next()
                        && self.$field.read(field.name, name, map)?
                    {
                        return Ok(true);
                    }
                )*
                Ok(false)
            }

            fn or(self, other: Self) -> Self {
                Self { $($field: self.$field.or(other.$field),)* }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let visitor = $crate::object::ObjectVisitor(std::marker::PhantomData);
                deserializer.deserialize_struct(stringify!($name), &[], visitor)
            }
        }
    };
}
pub(super) use config_object;

/// Defines an object of a config file, and the struct that the program uses: `key: written => used = default`.
macro_rules! config_keys {
    (
        $(#[$entry_meta:meta])*
        pub struct $entry:ident;
        $(#[$config_meta:meta])*
        pub struct $config:ident;
        $(
            $(#[doc = $doc:literal])*
            $(#[schemars($($schema:tt)+)])*
            $field:ident: $written:ty => $used:ty = $default:expr $(; [$($fact:tt)+])?,
        )*
    ) => {
        $crate::object::config_object! {
            $(#[$entry_meta])*
            pub struct $entry {
                $(
                    $(#[doc = $doc])*
                    $(#[schemars($($schema)+)])*
                    $field: Option<$written> $([$($fact)+])?,
                )*
            }
        }

        $(#[$config_meta])*
        pub struct $config {
            $($(#[doc = $doc])* pub $field: $used,)*
        }

        impl Default for $config {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::object::Resolve<$config> for $entry {
            fn resolve(self) -> $config {
                $config { $($field: self.$field.map_or_else(|| $default, $crate::object::Resolve::resolve),)* }
            }
        }
    };
}
pub(super) use config_keys;
