//! Objects of a config file: one definition makes the struct, the table of its fields, how it is read, and how two of
//! them are merged.
//!
//! [`config_object!`] defines an object. [`config_keys!`] defines an object whose keys have defaults, together with the
//! struct that the program uses. A field is written as in a struct. Its doc comment is what users read in their
//! editors. Brackets after the type say what else is known of it, in the methods of
//! [`ConfigField`](super::fields::ConfigField).

use jsonc_parser::ast::Value;

use super::value_reader::{ReadValue, ValueError, ValueReader};

/// A part of an object: the value of a field, or an object that is embedded in it.
pub(crate) trait ObjectPart: Sized {
    /// Reads the value if this is the part that `name` means: the field with the name `own_name`, or an object with such
    /// a field. Returns whether it is.
    ///
    /// # Errors
    ///
    /// Fails if the value cannot be read.
    fn read_part(
        &mut self,
        own_name: &str,
        name: &str,
        value: &Value<'_>,
        reader: &ValueReader<'_>,
    ) -> Result<bool, ValueError>;

    /// Takes each value that is missing here from `other`.
    fn or(self, other: Self) -> Self;
}

impl<T: ReadValue> ObjectPart for Option<T> {
    fn read_part(
        &mut self,
        own_name: &str,
        name: &str,
        value: &Value<'_>,
        reader: &ValueReader<'_>,
    ) -> Result<bool, ValueError> {
        let is_meant = own_name == name;
        if is_meant {
            *self = Self::read(value, reader)?;
        }
        Ok(is_meant)
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
                value: &jsonc_parser::ast::Value<'_>,
                reader: &$crate::value_reader::ValueReader<'_>,
            ) -> Result<bool, $crate::value_reader::ValueError> {
                let mut fields = Self::FIELDS.iter();
                $(
                    if let Some(field) = fields.next()
                        && self.$field.read_part(field.name, name, value, reader)?
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

        impl $crate::value_reader::ReadValue for $name {
            fn read(
                value: &jsonc_parser::ast::Value<'_>,
                reader: &$crate::value_reader::ValueReader<'_>,
            ) -> Result<Self, $crate::value_reader::ValueError> {
                let mut object = Self::default();
                reader.read_members(value, Self::FIELDS, |name, value| {
                    $crate::object::ObjectPart::read_part(&mut object, "", name, value, reader).map(drop)
                })?;
                Ok(object)
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
