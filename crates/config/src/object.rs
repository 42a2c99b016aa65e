//! Objects of a config file: one definition makes the struct, the table of its fields, how it is read, and how two of
//! them are merged.
//!
//! [`config_object!`] defines an object. [`config_keys!`] defines an object whose keys have defaults, together with the
//! struct that the program uses. A field is written as in a struct. Its doc comment is what users read in their
//! editors. Brackets after the type say what else is known of it, in the methods of
//! [`ConfigField`](super::fields::ConfigField).

use super::value_reader::{ReadValue, ValueCursor};

/// A part of an object: the value of a field, or an object that is embedded in it.
pub(crate) trait ObjectPart: Sized {
    /// Reads the value if this is the part that `name` means: the field with the name `own_name`, or an object with such
    /// a field. Returns whether the value has no errors; `None` if another part is meant.
    fn read_part(&mut self, own_name: &str, name: &str, at: &ValueCursor<'_>) -> Option<bool>;

    /// Takes each value that is missing here from `other`.
    fn or(self, other: Self) -> Self;
}

impl<T: ReadValue> ObjectPart for Option<T> {
    fn read_part(&mut self, own_name: &str, name: &str, at: &ValueCursor<'_>) -> Option<bool> {
        if own_name != name {
            return None;
        }
        let read = Self::read(at);
        let is_valid = read.is_some();
        *self = read.flatten();
        Some(is_valid)
    }

    fn or(self, other: Self) -> Self {
        self.or(other)
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
            fn read_part(
                &mut self,
                _: &str,
                name: &str,
                at: &$crate::value_reader::ValueCursor<'_>,
            ) -> Option<bool> {
                let mut fields = Self::FIELDS.iter();
                $(
                    if let Some(field) = fields.next()
                        && let Some(is_valid) = self.$field.read_part(field.name, name, at)
                    {
                        return Some(is_valid);
                    }
                )*
                None
            }

            fn or(self, other: Self) -> Self {
                Self { $($field: self.$field.or(other.$field),)* }
            }
        }

        impl $name {
            /// Reads the members that have no errors. Returns whether none has any.
            pub(crate) fn read_partly(at: &$crate::value_reader::ValueCursor<'_>) -> (Self, bool) {
                let mut object = Self::default();
                let read = at.read_members(Self::FIELDS, |name, at| {
                    let is_valid = $crate::object::ObjectPart::read_part(&mut object, "", name, at);
                    is_valid.filter(|is_valid| *is_valid).map(drop)
                });
                (object, read.is_some())
            }
        }

        impl $crate::value_reader::ReadValue for $name {
            fn read(at: &$crate::value_reader::ValueCursor<'_>) -> Option<Self> {
                let (object, is_valid) = Self::read_partly(at);
                is_valid.then_some(object)
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

        impl From<$entry> for $config {
            fn from(entry: $entry) -> Self {
                Self { $($field: entry.$field.map_or_else(|| $default, Into::into),)* }
            }
        }
    };
}
pub(super) use config_keys;
