//! Enums whose variants have names: the same in every output, on the command line and in stored data.

/// Defines an enum and the name of each variant, from which `ALL`, `name`, `named`, `Display`, `Serialize` and
/// `Deserialize` follow.
#[doc(hidden)]
#[macro_export]
macro_rules! names {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$of:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[allow(unreachable_pub, reason = "some are for users of the library")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $type {
            $($(#[$of])* $variant,)*
        }

        #[allow(dead_code, unreachable_pub, reason = "not every enum is looked up by name, nor is each for users of the library")]
        impl $type {
            /// All variants, in the order of their definition.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name of the variant.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The variant of that name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|variant| variant.name() == name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.name())
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::named(&name).ok_or_else(|| serde::de::Error::unknown_variant(&name, &[$($name),*]))
            }
        }
    };
}

pub(crate) use crate::names;
