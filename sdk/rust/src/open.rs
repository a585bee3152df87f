//! Types that stay open to what a newer daemon may say, and the two that have more than one form.

use serde::{Deserialize, Serialize};

use crate::types::NetworkPolicy;

/// A set of words, with `Unlisted` for those that are not known yet.
macro_rules! open_enum {
    ($(#[$meta:meta])* $name:ident, $($variant:ident = $word:literal,)*) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = concat!("`", $word, "`")] $variant,)*
            /// A word that this version does not know.
            Unlisted(String),
        }

        impl $name {
            /// The word that is sent.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Unlisted(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)*
                    other => Self::Unlisted(other.to_owned()),
                }
            }
        }

        /// No word at all, which the daemon refuses where one is needed.
        impl Default for $name {
            fn default() -> Self {
                Self::Unlisted(String::new())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from).map(|word| Self::from(word.as_str()))
            }
        }
    };
}

/// What the member `event` of an object tells apart, with `Unlisted` for what is not known yet.
macro_rules! event_enum {
    ($(#[$meta:meta])* $name:ident, $($variant:ident($of:ty) = $($word:literal)|+,)*) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        #[allow(clippy::large_enum_variant)] // one at a time, and only the last is large
        pub enum $name {
            $(#[doc = concat!($("`", $word, "` "),+)] $variant($of),)*
            /// An event that this version does not know.
            Unlisted(serde_json::Value),
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(event) => event.serialize(to),)*
                    Self::Unlisted(event) => event.serialize(to),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let event = serde_json::Value::deserialize(from)?;
                let read = match event.get("event").and_then(|word| word.as_str()) {
                    $($(Some($word))|+ => serde_json::from_value(event).map(Self::$variant),)*
                    _ => Ok(Self::Unlisted(event)),
                };
                read.map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use {event_enum, open_enum};

/// What is to run: a line for the sandbox's shell, or a program with its arguments as they are.
///
/// Strings become the first, arrays, slices and vectors the second:
///
/// ```
/// use cay::types::Command;
/// assert_eq!(Command::from("ls | wc -l"), Command::Shell("ls | wc -l".into()));
/// assert_eq!(Command::from(["ls", "-l"]), Command::Args(vec!["ls".into(), "-l".into()]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Command {
    /// A line for the shell.
    Shell(String),
    /// A program and its arguments.
    Args(Vec<String>),
}

/// An empty line, which the daemon refuses.
impl Default for Command {
    fn default() -> Self {
        Self::Shell(String::new())
    }
}

impl From<&str> for Command {
    fn from(line: &str) -> Self {
        Self::Shell(line.to_owned())
    }
}

impl From<String> for Command {
    fn from(line: String) -> Self {
        Self::Shell(line)
    }
}

impl From<&String> for Command {
    fn from(line: &String) -> Self {
        Self::Shell(line.clone())
    }
}

impl<S: Into<String>> From<Vec<S>> for Command {
    fn from(words: Vec<S>) -> Self {
        Self::Args(words.into_iter().map(Into::into).collect())
    }
}

impl<S: Clone + Into<String>> From<&[S]> for Command {
    fn from(words: &[S]) -> Self {
        Self::Args(words.iter().cloned().map(Into::into).collect())
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for Command {
    fn from(words: [S; N]) -> Self {
        Self::Args(words.into_iter().map(Into::into).collect())
    }
}

/// What a sandbox may reach: nothing or the public internet, a preset by name, or a policy of your own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NetworkSetting {
    /// `false` is nothing, `true` the public internet.
    Flag(bool),
    /// `none`, `public`, `packages`, `allow-all`, or profiles with commas between them.
    Preset(String),
    /// Rules.
    Policy(Box<NetworkPolicy>),
    /// What a newer daemon may say.
    Other(serde_json::Value),
}

/// Nothing.
impl Default for NetworkSetting {
    fn default() -> Self {
        Self::Flag(false)
    }
}

impl From<bool> for NetworkSetting {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<&str> for NetworkSetting {
    fn from(preset: &str) -> Self {
        Self::Preset(preset.to_owned())
    }
}

impl From<NetworkPolicy> for NetworkSetting {
    fn from(policy: NetworkPolicy) -> Self {
        Self::Policy(Box::new(policy))
    }
}
